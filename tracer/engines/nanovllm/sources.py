"""nano-vllm's pinned files on this machine, as they lie there, byte for byte.

Must not know: how they are run.
"""

from dataclasses import dataclass

from tracer.source import files, pins
from tracer.source.files import SourceFile
from tracer.vendoring.status import require

PROJECT = "nano-vllm"


@dataclass(frozen=True)
class Sources:
    """All pinned files of one release: by member (``nanovllm/models/qwen3.py``)."""

    version: str
    files: dict[str, SourceFile]


def read() -> Sources:
    """Return the newest pinned release; raises InputError, which names the command that brings it, where it is absent
    or changed."""
    every = pins.pins(PROJECT)
    version = every[-1].version
    wanted = [pin for pin in every if pin.version == version]
    found = {pin.member: files.read(PROJECT, version, pin.member, require(pin)) for pin in wanted}
    return Sources(version, found)
