"""Open a saved trace.

Must not know: torch, transformers, the model. A saved trace may come from anyone, so nothing in it is trusted.
"""

from pathlib import Path

from tracer.checkpoint.strictjson import parse_object
from tracer.checkpoint.wording import shown
from tracer.errors import InputError, Unsupported
from tracer.records import LayerTrace
from tracer.saved import container, decode
from tracer.saved.names import ANY_FORMAT, FORMAT_KEY, FORMAT_VERSION, TRACE_KEY, WRITER_KEY
from tracer.saved.nodes import Node


def load(path: Path) -> LayerTrace:
    """Return the traced layer that ``tracer.saved.write.save`` wrote to ``path``; tensors are mapped, read when used.

    Raises InputError where the file is absent, damaged, no saved trace, or contradicts itself; Unsupported where it was
    written in a format this version does not read.
    """
    path = Path(path)
    metadata, tensors = container.read(path)
    return decode.layer_trace(_description(path, metadata), tensors)


def _description(path: Path, metadata: object) -> Node:
    """Return the description of the trace in a file's metadata, as JSON that is not yet checked."""
    texts = metadata if isinstance(metadata, dict) else {}
    form = texts.get(FORMAT_KEY)
    version = ANY_FORMAT.fullmatch(form) if isinstance(form, str) else None
    if version is None:
        raise InputError("saved.not_a_trace", file=str(path))
    if int(version[1]) != FORMAT_VERSION:
        writer = shown(texts.get(WRITER_KEY))
        raise Unsupported("saved.other_version", file=str(path), found=form, known=FORMAT_VERSION, writer=writer)
    text = texts.get(TRACE_KEY)
    if not isinstance(text, str):
        raise InputError("saved.no_description", file=str(path))
    try:
        value = parse_object(text.encode("utf-8", "surrogatepass"), path)
    except InputError:
        raise InputError("saved.no_description", file=str(path)) from None
    return Node(value, TRACE_KEY, str(path))
