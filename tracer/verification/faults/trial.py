"""Run verification on a faulty model and see what caught it. Must not know: how the result is shown."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracer.checkpoint.checkpoint import Checkpoint
from tracer.checkpoint.open import open_checkpoint
from tracer.engines.transformers.live import FromCheckpoint
from tracer.kernels.choose import choose
from tracer.names import LONG_DTYPES
from tracer.records import Check, Site, Status
from tracer.verification.faults.plant import Planted, changed_kernel, planted
from tracer.verification.faults.records import Fault
from tracer.verification.records import Finding
from tracer.verification.run import Examination, examine

LAYERS = (0, 1)
LENGTH = 40


@dataclass(frozen=True)
class Caught:
    """What became of one fault: the check that had to catch it, how that ended, whether at the fault's own place, and
    which other checks failed too."""

    fault: Fault
    check: Check | None
    at_place: bool
    others: tuple[str, ...]

    @property
    def caught(self) -> bool:
        """Whether the right check failed at the right place."""
        return self.check is not None and self.check.status is Status.FAIL and self.at_place


def run_fault(fault: Fault, checkpoint: str | None = None, ids: tuple[int, ...] | None = None) -> Caught:
    """Return how verification judges ``fault`` on a checkpoint (None: the shipped one)."""
    with variant(checkpoint, fault.config) as opened:
        findings, place = _findings(fault, opened, ids or prompt_ids(opened))
    own = [f.check for f in findings if (f.check.id, f.scenario) == (fault.catches, fault.scenario)]
    failed = [check for check in own if check.status is Status.FAIL]
    check = failed[0] if failed else (own[0] if own else None)
    others = {f.check.id for f in findings if f.check.status is Status.FAIL} - {fault.catches}
    at_place = check is not None and check.site is not None and _overlaps(check.site, place)
    return Caught(fault, check, at_place, tuple(sorted(others)))


def _findings(fault: Fault, opened: Checkpoint, ids: tuple[int, ...]) -> tuple[tuple[Finding, ...], "_Place"]:
    settings = opened.settings
    chosen = choose(fault.kernel, device="cpu", dtype=LONG_DTYPES[fault.dtype], head_dim=settings.head_dim)
    kernel = changed_kernel(fault, chosen)
    layers = tuple(layer for layer in LAYERS if layer < settings.layers)
    scenarios = tuple(dict.fromkeys(("plain", fault.scenario)))  # other scenarios are compared with the plain one, too
    wanted = Examination(layers, tuple(range(settings.heads)), ids, pad=0, only=scenarios)
    with planted(fault) as changed:
        live = FromCheckpoint(opened, max(layers), kernel, fault.dtype)
        result = examine(live, kernel.kind, wanted, changed.files)
    return result.findings, _Place(fault, changed)


@dataclass(frozen=True)
class _Place:
    fault: Fault
    changed: Planted


def _overlaps(site: Site, place: _Place) -> bool:
    if place.fault.kernel_change is not None:
        return site.code.startswith(("flash_varlen_fn(", "flash_fn("))
    if not place.changed.spans:
        return False
    path, span = place.changed.spans[place.fault.place]
    first, last = (span.line, span.column), (span.end_line, span.end_column)
    start, stop = (site.span.line, site.span.column), (site.span.end_line, site.span.end_column)
    return str(site.file) == path and start < last and first < stop


def prompt_ids(opened: Checkpoint) -> tuple[int, ...]:
    """Return token ids for a trial: the checkpoint's own default prompt, repeated to a fixed length."""
    ids = opened.tokenizer().encode(opened.default_prompt())
    return tuple((list(ids) * (LENGTH // max(1, len(ids)) + 1))[:LENGTH])


@contextmanager
def variant(checkpoint: str | None, config: Mapping[str, Any]) -> Iterator[Checkpoint]:
    """Yield a checkpoint whose config.json has ``config`` in place of its own values; the rest is the same files."""
    opened = open_checkpoint(checkpoint)
    if not config:
        yield opened
        return
    with tempfile.TemporaryDirectory(prefix="tracer-variant-") as folder:
        for file in opened.folder.iterdir():
            if file.name != "config.json" and file.is_file():
                _same_file(file.resolve(), Path(folder) / file.name)
        raw = json.loads((opened.folder / "config.json").read_text(encoding="utf-8"))
        if "max_window_layers" in config:
            raw.pop("layer_types", None)
        (Path(folder) / "config.json").write_text(json.dumps({**raw, **config}), encoding="utf-8")
        yield open_checkpoint(folder)


def _same_file(file: Path, name: Path) -> None:
    """Give ``file`` a second name where the file system allows it, else copy it."""
    try:
        os.link(file, name)
    except OSError:
        shutil.copyfile(file, name)


def without(fault: Fault) -> Fault:
    """Return the same situation without the fault: what the real code must pass."""
    return replace(fault, edits=(), kernel_change=None)
