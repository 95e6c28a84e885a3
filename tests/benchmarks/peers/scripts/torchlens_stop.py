"""torchlens: every operation is logged, with the line that called it, until the layer's attention is done."""

# ruff: noqa: I001
# --- user code
import torch
import torchlens
from transformers import AutoModelForCausalLM

# --- end
from common import job, report

todo = job()
# --- user code
model = AutoModelForCausalLM.from_pretrained(todo.folder, dtype="auto").eval()
stop = torchlens.module(f"model.layers.{todo.layer}.self_attn")
options = torchlens.options.CaptureOptions(stop_after=stop, inference_only=True, save_arg_values=True)
ids, head = torch.tensor([todo.ids]), todo.head
group = model.config.num_attention_heads // model.config.num_key_value_heads


def work():
    log = torchlens.trace(model, ids, {"use_cache": False}, capture=options)
    call = [op for op in log.layer_list if op.func_name == "scaled_dot_product_attention"][-1]
    heads = (head, head // group, head // group)
    q, k, v = (log[parent].out[0, at] for parent, at in zip(call.parents, heads, strict=True))
    keywords = call.non_tensor_kwargs
    scores = (q @ k.T).float() * keywords["scale"]
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
    found = {"q": q, "k": k, "v": v, "weights": weights, "output": call.out[0, head]}
    inner = call.code_context[-2]
    place = f"{inner.file}:{inner.line_number}:{inner.col_offset}"
    return {**found, "scale": keywords["scale"], "causal": keywords["is_causal"], "place": place}


# --- end
report(work, todo.repeats)
