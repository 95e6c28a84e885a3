"""Save a traced layer to a file.

Must not know: torch, how the trace was made.
"""

import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.files import write_whole
from tracer.saved import container, encode

if TYPE_CHECKING:
    from tracer.result import Trace


def save(trace: "Trace", path: Path) -> None:
    """Write the traced layer behind ``trace`` to ``path``, a safetensors file that is whole or absent.

    It holds every captured tensor in its own dtype, all heads, and everything else of the record as JSON texts in the
    file's metadata, without any path of this machine. Raises InputError where the file cannot be written.
    """
    writer = importlib.metadata.version("tracer")
    metadata = encode.metadata(trace.layer, writer)
    write_whole(path, *container.pieces(encode.tensors(trace.layer), metadata))
