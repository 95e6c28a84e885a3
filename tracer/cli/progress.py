"""What a long run tells of its progress: the layer that runs, and what is fetched for another version.

Must not know: how it is shown.
"""

from collections.abc import Callable

from tracer.texts import Message, message

Show = Callable[[Message], None]
_MEBIBYTE = 1 << 20


def running(show: Show) -> Callable[[int, int], None]:
    """Return what is to be told that ``layer`` of so many ``layers`` begins."""

    def tell(layer: int, layers: int) -> None:
        last = layer == layers - 1
        show(message("cli.running_last" if last else "cli.running_layer", layer=layer, last=layers - 1))

    return tell


def fetching(show: Show) -> Callable[[str, int, int | None], None]:
    """Return what is to be told that ``done`` of ``total`` bytes of something are here."""

    def tell(what: str, done: int, total: int | None) -> None:
        size = f"{done / _MEBIBYTE:.1f}" + ("" if total is None else f"/{total / _MEBIBYTE:.1f}")
        show(message("versions.fetching", what=what, size=size))

    return tell
