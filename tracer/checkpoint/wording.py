"""Untrusted values made fit for a sentence: short, on one line, unable to steer a terminal, the same in any language.

Must not know: which sentence.
"""

from collections.abc import Iterable, Sequence

from tracer.texts import Message, message

LONGEST = 80  # characters; more than the longest tensor name of a Qwen3 checkpoint


def shown(value: object) -> str:
    """Return ``value`` as JSON has it: strings quoted, unprintable characters escaped, whatever is long cut short."""
    if isinstance(value, str):
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in value[:LONGEST])
        return f'"{text}"' if len(value) <= LONGEST else f'"{text}…'
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int) and value.bit_length() > 256:
        return f"≈ 10^{int(value.bit_length() * 0.30103)}"
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if isinstance(value, list | tuple):
        flat = len(value) <= 8 and not any(isinstance(item, dict | list | tuple) for item in value)
        return f"[{', '.join(map(shown, value))}]" if flat else "[…]"
    return repr(value)


def listed(names: Sequence[str], limit: int = 5) -> str:
    """Return up to ``limit`` names, quoted and joined, and how many more there are."""
    text = ", ".join(shown(name) for name in names[:limit])
    return text if len(names) <= limit else f"{text} … (+{len(names) - limit})"


def found_there(names: Sequence[str]) -> Message:
    """Return what a folder holds: ``found there: "notes.txt"``, or that it is empty."""
    return message("checkpoint.found_there", files=listed(names)) if names else message("checkpoint.found_nothing")


def shape_text(shape: Iterable[int]) -> str:
    """Return a shape as ``[256, 64]``."""
    return "[" + ", ".join(str(length) for length in shape) + "]"
