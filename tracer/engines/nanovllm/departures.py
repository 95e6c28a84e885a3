"""Where nano-vllm's code departs from the model that a checkpoint describes, and whether this prompt shows it.

Must not know: how the code was run.
"""

import importlib
from dataclasses import dataclass

from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.transformers.streaming import config_cut
from tracer.texts import Message, message

_SAME_ANGLE = 1e-6  # relative; scaling that is there at all moves a frequency by far more


@dataclass(frozen=True)
class Run:
    """What one run met with: tensors that the code has no place for, by their full names; whether its first norm wrote
    into the residual; how many tokens the prompt has."""

    unread: tuple[str, ...]
    damaged: bool
    length: int


def departures(checkpoint: Checkpoint, run: Run) -> tuple[Message, ...]:
    """Return what a reader should know. What leaves this prompt's numbers as they are, but not those of a longer one,
    has a text of its own (``…_later``); what changes none is left out."""
    found = (_scaling(checkpoint, run.length), _window(checkpoint, run.length), _unread(run.unread))
    told = tuple(one for one in found if one is not None)
    return (*told, message("nanovllm.residual")) if run.damaged else told


def _scaling(checkpoint: Checkpoint, length: int) -> Message | None:
    settings = checkpoint.settings
    rope = settings.rope
    given = {"type": rope["rope_type"], "factor": rope.get("factor", "—"), "length": length}
    if rope["rope_type"] == "default":
        return None
    if turns_otherwise(checkpoint, length):
        return message("nanovllm.rope_scaling", **given)
    later = turns_otherwise(checkpoint, settings.max_positions)  # the longest prompt that the model takes
    return message("nanovllm.rope_scaling_later", **given) if later else None


def turns_otherwise(checkpoint: Checkpoint, length: int) -> bool:
    """Return whether transformers' own scaling gives a prompt of ``length`` tokens other angles than none would."""
    import torch

    settings = checkpoint.settings
    functions = importlib.import_module("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    made, factor = functions[settings.rope["rope_type"]](config_cut(checkpoint.config, 0), "cpu", seq_len=length)
    size, theta = settings.head_dim, float(str(settings.rope["rope_theta"]))
    plain = theta ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
    return factor != 1.0 or not torch.allclose(made.double(), plain, rtol=_SAME_ANGLE, atol=0.0)


def _window(checkpoint: Checkpoint, length: int) -> Message | None:
    settings = checkpoint.settings
    layers = settings.layer_types.count("sliding_attention")
    if not layers or settings.window is None:
        return None
    later = "" if length > settings.window else "_later"
    one = "_one" if layers == 1 else ""
    return message(f"nanovllm.window{later}{one}", window=settings.window, layers=layers, length=length)


def _unread(names: tuple[str, ...]) -> Message | None:
    if not names:
        return None
    parts: dict[str, set[str]] = {}  # what a layer calls it → the layers that have it
    for name in names:
        _, _, layer, part = name.split(".", 3)  # model.layers.0.self_attn.q_norm.weight
        parts.setdefault(part, set()).add(layer)
    layers = len(set().union(*parts.values()))
    one = "_one" if layers == 1 else ""
    first, *rest = parts
    listed: str | Message = first
    for part in rest:
        listed = message("nanovllm.and", a=listed, b=part)
    return message(f"nanovllm.unread{one}", tensors=listed, count=len(names), layers=layers)
