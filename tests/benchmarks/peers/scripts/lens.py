"""TransformerLens: its bridge over the transformers model, run with a cache of its own hook points."""

# ruff: noqa: I001
# --- user code
import torch
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoModelForCausalLM

# --- end
from common import job, report

todo = job()
# --- user code
loaded = AutoModelForCausalLM.from_pretrained(todo.folder, dtype="auto").eval()
model = TransformerBridge.boot_transformers(todo.folder, hf_model=loaded, dtype=loaded.dtype, tokenizer=None)
names = {name: f"blocks.{todo.layer}.attn.hook_{name}" for name in ("rot_q", "rot_k", "v", "pattern", "z")}
ids, head, group = torch.tensor([todo.ids]), todo.head, model.cfg.n_heads // model.cfg.n_key_value_heads


def work():
    with torch.no_grad():
        _, cache = model.run_with_cache(ids, names_filter=list(names.values()), stop_at_layer=todo.layer + 1)
    q, pattern, z = cache[names["rot_q"]][0, :, head], cache[names["pattern"]][0, head], cache[names["z"]][0, :, head]
    k, v = cache[names["rot_k"]][0, :, head // group], cache[names["v"]][0, :, head // group]
    scale = model.cfg.attn_scale  # -1: it is not known here
    return {"q": q, "k": k, "v": v, "weights": pattern, "output": z, "scale": scale, "causal": None}


# --- end
report(work, todo.repeats)
