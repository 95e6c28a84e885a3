"""Other files that are often found under a checkpoint file's name, recognised by their first bytes.

Must not know: what the file should have been.
"""

from pathlib import Path

from tracer.errors import InputError

_FIRST_BYTES = (
    (b"version https://git-lfs", "checkpoint.lfs_pointer"),
    (b"<!doctype", "checkpoint.html"),
    (b"<html", "checkpoint.html"),
    (b"<?xml", "checkpoint.html"),
    (b"pk\x03\x04", "checkpoint.pickle_inside"),
    (b"\x80\x02", "checkpoint.pickle_inside"),
    (b"gguf", "checkpoint.gguf"),
)


def refuse_impostor(start: bytes, file: Path) -> None:
    """Raise InputError where ``start``, the first bytes of ``file``, are those of some other kind of file."""
    beginning = start[:64].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for first, text_id in _FIRST_BYTES:
        if beginning.startswith(first):
            raise InputError(text_id, file=str(file))
