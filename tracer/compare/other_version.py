"""Another version of transformers: its whole wheel laid out beside the installed one, run in a process of its own.

Its files cannot be imported here: they name modules of their own version. The trace comes back as a saved one. Must not
know: what it is compared with.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import platformdirs

from tracer.arrays import Array
from tracer.errors import InputError, Unsupported
from tracer.records import LayerTrace
from tracer.saved.read import load
from tracer.source.pins import is_inside, pins

if TYPE_CHECKING:
    from tracer.compare.run import Asked

PACKAGE = "transformers"
Report = Callable[[str, int, int | None], None]  # version, bytes so far, bytes in all
_NAME = re.compile(rf"{PACKAGE}@([0-9][A-Za-z0-9.!+_-]*)")
_MOST_BYTES = 1 << 30
_SAID = 2000


def version_of(engine: str) -> str | None:
    """Return the version that an engine's name asks for (``transformers@5.16.1``), None where it names none."""
    match = _NAME.fullmatch(engine)
    return match[1] if match else None


def trace_other(version: str, asked: "Asked", kernel: str, dtype: str) -> LayerTrace:
    """Return the trace of the asked layer on that version's code.

    Raises InputError where its wheel cannot be had, Unsupported where it cannot be run with what is installed here.
    """
    folder = None if version == importlib.metadata.version(PACKAGE) else laid_out(version, asked.report)
    with tempfile.TemporaryDirectory(prefix="tracer-compare-") as scratch:
        saved = Path(scratch) / "trace.safetensors"
        found = subprocess.run(
            [sys.executable, "-m", "tracer", *_arguments(asked, kernel, dtype), "--save", str(saved)],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if not saved.exists():
            raise Unsupported("compare.other_failed", version=version, said=found.stderr.strip()[-_SAID:])
        trace = _in_memory(load(saved))
    ran = trace.versions.get(PACKAGE)
    if ran != version:
        raise Unsupported("compare.other_ran", version=version, ran=ran)
    return trace


def laid_out(version: str, report: Report | None = None) -> Path:
    """Return the folder that holds the whole wheel of ``version``, which is fetched where it is not there yet.

    Raises InputError where no index has it, or it is damaged.
    """
    root = platformdirs.user_cache_path("tracer") / "wheels" / PACKAGE
    folder = root / version
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".incoming-", dir=root) as scratch:
        wheel = Path(scratch) / "wheel"
        _download(version, wheel, report)
        content = Path(scratch) / "content"
        _unpack(wheel, content, version)
        try:
            os.rename(content, folder)
        except OSError:
            if not folder.is_dir():  # another process was faster
                raise
    return folder


def _download(version: str, wheel: Path, report: Report | None) -> None:
    # the client and the index take half a second to import: only where something has to be fetched
    import httpx2

    from tracer.vendoring import pipconfig, ranges
    from tracer.vendoring.client import connect
    from tracer.vendoring.index import Indexes
    from tracer.vendoring.records import Release

    settings = pipconfig.read(None)
    release = Release(PACKAGE, version, (replace(pins(PACKAGE)[0], version=version, archive="wheel"),))
    count = _counter(report, version)
    with connect(settings) as client:
        for archive in Indexes(settings, client).archives(release):
            if archive.kind != "wheel":
                continue
            try:
                if archive.local is not None:
                    shutil.copyfile(archive.local, wheel)
                else:
                    ranges.download(client, archive, wheel, count)
            except httpx2.HTTPError as error:
                raise InputError(
                    "vendor.failed", url=archive.shown, detail=str(error) or type(error).__name__
                ) from error
            ranges.check_hash(archive, wheel)
            return
    raise InputError("compare.no_wheel", version=version)


def _counter(report: Report | None, version: str) -> Callable[[int, int | None], None]:
    return lambda done, total: None if report is None else report(version, done, total)


def _in_memory(trace: LayerTrace) -> LayerTrace:
    """Return ``trace`` with every tensor copied: they are mapped from a file that is about to go."""

    def copy(array: Array) -> Array:
        return Array(array.dtype, np.array(array.bits))

    lse = None if trace.kernel.lse is None else copy(trace.kernel.lse)
    return replace(
        trace,
        captures={name: replace(one, array=copy(one.array)) for name, one in trace.captures.items()},
        kernel=replace(trace.kernel, output=copy(trace.kernel.output), lse=lse),
        effects=replace(trace.effects, eager=copy(trace.effects.eager)),
    )


def _unpack(wheel: Path, target: Path, version: str) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            bad = next((member.filename for member in members if not is_inside(member.filename)), None)
            if bad is not None:
                raise InputError("vendor.outside", member=bad, archive=f"{PACKAGE} {version}")
            if sum(member.file_size for member in members) > _MOST_BYTES:
                raise InputError("compare.wheel_size", version=version, limit=_MOST_BYTES)
            archive.extractall(target, members)
    except zipfile.BadZipFile as error:
        raise InputError("vendor.broken", url=f"{PACKAGE} {version}", detail=str(error)) from error


def _environment(folder: Path | None) -> dict[str, str]:
    """Return this process's environment, with ``folder`` before everything that is importable here."""
    here = [entry for entry in sys.path if entry]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*([] if folder is None else [str(folder)]), *here])}


def _arguments(asked: "Asked", kernel: str, dtype: str) -> list[str]:
    given = {
        "--layer": asked.layer,
        "--checkpoint": asked.checkpoint,
        "--revision": asked.revision,
        "--prompt": asked.prompt,
        "--tokens": None if asked.tokens is None else ",".join(map(str, asked.tokens)),
        "--kernel": kernel,
        "--device": asked.device,
        "--dtype": dtype,
    }
    named = [f"{name}={value}" for name, value in given.items() if value is not None]
    return ["qwen3", "--head=0", *named, *(["--chat"] if asked.chat else [])]
