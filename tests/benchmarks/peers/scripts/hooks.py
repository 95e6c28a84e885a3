"""What people write by hand: load the model, hook the modules, run it with eager attention, redo RoPE."""

# ruff: noqa: I001
# --- user code
import torch
from transformers import AutoModelForCausalLM
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

# --- end
from common import job, report

todo = job()
# --- user code
model = AutoModelForCausalLM.from_pretrained(todo.folder, dtype="auto", attn_implementation="eager").eval()
attention = model.model.layers[todo.layer].self_attn
seen = {}
for name in ("q_norm", "k_norm", "v_proj"):
    getattr(attention, name).register_forward_hook(lambda m, a, out, name=name: seen.update({name: out}))
attention.register_forward_pre_hook(lambda m, a, k: seen.update(rope=k["position_embeddings"]), with_kwargs=True)
attention.register_forward_hook(lambda m, a, out: seen.update(weights=out[1]))
ids, head, group = torch.tensor([todo.ids]), todo.head, attention.num_key_value_groups


def work():
    with torch.no_grad():
        model(ids, use_cache=False, output_attentions=True)
    q, k = apply_rotary_pos_emb(seen["q_norm"].transpose(1, 2), seen["k_norm"].transpose(1, 2), *seen["rope"])
    v = seen["v_proj"].view(1, len(todo.ids), -1, attention.head_dim).transpose(1, 2)
    weights = seen["weights"][0, head]
    found = {"q": q[0, head], "k": k[0, head // group], "v": v[0, head // group], "weights": weights}
    return {**found, "output": weights @ v[0, head // group], "scale": attention.scaling, "causal": None}


# --- end
report(work, todo.repeats)
