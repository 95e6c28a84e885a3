"""This tool inside one process: the traced forward pass to the asked layer's attention, everything loaded before.

Must stand beside the peers' own scripts, which load the whole model first and then run; the whole command, which loads
only what it runs and adds reference, checks and page, is measured as a process of its own.
"""

from contextlib import suppress
from typing import Any

import torch
from common import job, report

from tracer.capture.instrument import instrument
from tracer.capture.recorder import Recorder
from tracer.checkpoint.open import open_checkpoint
from tracer.engines.transformers import definitions, steps, streaming
from tracer.engines.transformers.lending import KernelWatch, lent
from tracer.kernels import cpu_flash
from tracer.source import anchors, files

todo = job()
checkpoint = open_checkpoint(todo.folder)
defined = anchors.definitions("transformers")
table = anchors.table(
    defined, {key: files.installed("transformers", file) for key, file in defined.files.items()}, None
)
transformers = definitions.light()  # as the command has it
code = instrument(table, steps.probed(table, "flash"), transformers.modules)
recorder = Recorder(steps.keeping("flash"))
watch = KernelWatch(cpu_flash.flash_attn_varlen_func, recorder)
model = streaming.build(checkpoint, todo.layer, "flash_attention_2", "cpu", transformers)
dtype = getattr(torch, {"BF16": "bfloat16", "F32": "float32", "F16": "float16"}[checkpoint.dtype])
streaming.fill_on_demand(model, checkpoint, dtype, "cpu")
for layer in model.layers:
    for fill in layer._forward_pre_hooks.values():
        fill(layer, ())
    layer._forward_pre_hooks.clear()
    layer._forward_hooks.clear()
rows = checkpoint.embedding_rows(todo.ids, dtype)[None]
bounds = torch.tensor([0, len(todo.ids)], dtype=torch.int32)
sequence = {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": len(todo.ids)}
sequence["max_length_k"] = len(todo.ids)


def leave(*_: Any) -> None:
    recorder.close()
    raise streaming.Reached


attention = model.layers[todo.layer].self_attn
attention.register_forward_pre_hook(lambda *_: recorder.open("attention"))
attention.o_proj.register_forward_pre_hook(leave)  # as nnsight's script: the work ends with the kernel's output


def work() -> dict[str, Any]:
    utils = transformers.modules[definitions.UTILS]
    with (
        lent(utils, watch, cpu_flash.flash_attn_func),
        code.swapped(recorder),
        torch.no_grad(),
        suppress(streaming.Reached),
    ):
        model(inputs_embeds=rows, use_cache=False, **sequence)
    recorder.drain()
    (seen,) = watch.drain()
    q, k, v = (seen.arguments[name] for name in ("q", "k", "v"))
    kv = todo.head // (q.shape[1] // k.shape[1])
    scores = (q[:, todo.head] @ k[:, kv].T).float() * seen.arguments["softmax_scale"]
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
    found = {
        "q": q[:, todo.head],
        "k": k[:, kv],
        "v": v[:, kv],
        "weights": weights,
        "output": seen.output[:, todo.head],
    }
    places = {step.name: table.site(step.anchor).place for step in steps.steps("flash")}
    return {
        **found,
        "scale": seen.arguments["softmax_scale"],
        "causal": seen.arguments["causal"],
        "places": places,
    }


report(work, todo.repeats)
