"""By hand again, but at transformers' attention interface: what enters the kernel, without redoing RoPE."""

# ruff: noqa: I001
# --- user code
import torch
from transformers import AttentionInterface, AutoModelForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask

# --- end
from common import job, report

todo = job()
seen = {}


# --- user code
def spy(module, query, key, value, mask, scaling=None, **kwargs):
    out = sdpa_attention_forward(module, query, key, value, mask, scaling=scaling, **kwargs)
    if module.layer_idx == todo.layer:
        causal = mask is None and module.is_causal
        seen.update(q=query, k=key, v=value, scale=scaling, causal=causal, output=out[0])
    return out


AttentionInterface.register("spy", spy)
ALL_MASK_ATTENTION_FUNCTIONS.register("spy", sdpa_mask)
model = AutoModelForCausalLM.from_pretrained(todo.folder, dtype="auto", attn_implementation="spy").eval()
ids, head = torch.tensor([todo.ids]), todo.head
group = model.config.num_attention_heads // model.config.num_key_value_heads


def work():
    with torch.no_grad():
        model(ids, use_cache=False)
    q, k, v = seen["q"][0, head], seen["k"][0, head // group], seen["v"][0, head // group]
    scores = (q @ k.T).float() * seen["scale"]
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
    found = {"q": q, "k": k, "v": v, "weights": weights, "output": seen["output"][0, :, head]}
    return {**found, "scale": seen["scale"], "causal": seen["causal"]}


# --- end
report(work, todo.repeats)
