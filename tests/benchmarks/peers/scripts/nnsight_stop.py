"""nnsight: the attention call's own arguments through ``.source``, and a stop once the layer's attention is done."""

# ruff: noqa: I001
# --- user code
import torch
from nnsight import NNsight
from transformers import AutoModelForCausalLM

# --- end
from common import job, report

todo = job()
# --- user code
model = NNsight(AutoModelForCausalLM.from_pretrained(todo.folder, dtype="auto").eval())
attention = model.model.layers[todo.layer].self_attn
ids, head, group = torch.tensor([todo.ids]), todo.head, attention._module.num_key_value_groups


def work():
    with torch.no_grad(), model.trace(ids, use_cache=False) as tracer:
        inputs = attention.source.attention_interface_1.inputs.save()
        output = attention.source.attention_interface_1.output[0].save()
        tracer.stop()
    arguments, keywords = inputs
    q, k, v = arguments[1][0, head], arguments[2][0, head // group], arguments[3][0, head // group]
    scores = (q @ k.T).float() * keywords["scaling"]
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
    found = {"q": q, "k": k, "v": v, "weights": weights, "output": output[0, :, head]}
    return {**found, "scale": keywords["scaling"], "causal": arguments[4] is None}


# --- end
report(work, todo.repeats)
