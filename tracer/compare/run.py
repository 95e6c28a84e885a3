"""The comparison, top to bottom: trace every side, trace the yardstick, line steps up, look for the cause.

Must not know: command lines, rendering.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import platformdirs

from tracer import pipeline
from tracer.checkpoint.open import open_checkpoint
from tracer.compare import align, causes, judge, stream
from tracer.compare.records import Comparison, Pair, Side, Standing, Written
from tracer.engines.nanovllm import sources
from tracer.engines.nanovllm.code import table
from tracer.engines.transformers.engine import Progress, Wanted
from tracer.engines.versions.names import version_of
from tracer.engines.versions.wheels import Report
from tracer.errors import InputError
from tracer.kernels.choose import choose
from tracer.kernels.interfaces import FLASH
from tracer.names import LONG_DTYPES
from tracer.records import LayerTrace, Site
from tracer.saved.diff import diff
from tracer.texts import Message, message

TRANSFORMERS, NANO_VLLM = "transformers", "nano-vllm"
ENGINES = (TRANSFORMERS, NANO_VLLM)


@dataclass(frozen=True)
class Asked:
    """What to compare, on what. Of ``engines`` and ``kernels`` one names two or more: the first is compared with each
    other one."""

    engines: tuple[str, ...] = (TRANSFORMERS,)
    kernels: tuple[str, ...] = ("auto",)
    layer: int = 0
    checkpoint: str | None = None
    revision: str | None = None
    prompt: str | None = None
    tokens: Sequence[int] | None = None
    chat: bool = False
    device: str = "auto"
    dtype: str = "auto"
    progress: Progress | None = None
    report: Report | None = None  # told of the download of another version


@dataclass(frozen=True)
class _Run:
    """One way to run the model."""

    name: str
    engine: str
    kernel: str

    @property
    def plain(self) -> bool:
        """Whether this is the installed transformers."""
        return self.engine == TRANSFORMERS


def compare(asked: Asked) -> tuple[Comparison, ...]:
    """Return the comparison of the first side with each other one.

    Raises InputError for fewer than two sides or a side that does not exist, and whatever a trace raises.
    """
    runs = _runs(asked)
    traces = [_trace(asked, run, asked.dtype) for run in runs]
    dtype = traces[0].request.dtype.value
    # transformers, where it takes part, is what the other is held against; a faulty side must not judge itself
    judge_by = next((place for place, run in enumerate(runs) if run.plain), 0)
    other = "float64" if dtype != "F64" else "float32"
    kernel = "auto" if traces[judge_by].request.kernel.value in FLASH else runs[judge_by].kernel
    yardstick = _trace(asked, replace(runs[judge_by], kernel=kernel), other)
    scales = _Yardstick(traces[judge_by], yardstick, "F32" if dtype == "F64" else dtype)
    pairs = zip(runs[1:], traces[1:], strict=True)
    return tuple(_one(asked, (runs[0], traces[0]), side, scales) for side in pairs)


@dataclass(frozen=True)
class _Yardstick:
    """One code in two precisions, and the dtype in whose spacing distances are told."""

    own: LayerTrace
    other: LayerTrace
    unit: str


def _one(asked: Asked, left: tuple[_Run, LayerTrace], right: tuple[_Run, LayerTrace], scales: _Yardstick) -> Comparison:
    a, b = left[1], right[1]
    steps = judge.pairs(
        align.values(a), align.values(b), align.values(scales.other), align.values(scales.own), scales.unit
    )
    before: tuple[Pair, ...] = ()
    written: list[Written] = []
    if {left[0].engine, right[0].engine} == set(ENGINES) and _worth_a_walk(steps, a, b):
        before, written = _walk(asked, left, right, scales)
    found = Comparison(
        a=Side(left[0].name, a),
        b=Side(right[0].name, b),
        unit=scales.unit,
        steps=steps,
        before=before,
        findings=(),
        yardstick=_told(scales),
        diff=diff(a, b) if left[0].engine.partition("@")[0] == right[0].engine.partition("@")[0] else None,
    )
    first = found.first
    if first is not None and first.name == "attention" and first.layer != asked.layer:
        found = replace(found, inside=_inside(asked, left[0], right[0], scales, first.layer))
    return replace(found, findings=causes.findings(found, written, _nano_vllm_place))


def _nano_vllm_place(anchor: str) -> Site:
    """Return the place of one of nano-vllm's anchors; raises InputError where its files are not here."""
    return table(sources.read(), Path(platformdirs.user_cache_dir("tracer"))).site(anchor)


def _inside(asked: Asked, left: _Run, right: _Run, scales: _Yardstick, layer: int) -> tuple[Pair, ...]:
    """Return the steps of an earlier layer's attention, which is where two sides part."""
    there = replace(asked, layer=layer)
    dtype = LONG_DTYPES[scales.own.request.dtype.value]
    a, b = (align.values(_trace(there, run, dtype)) for run in (left, right))
    own = a if left.plain else b
    kernel = "auto" if scales.other.request.kernel.value in FLASH else scales.other.request.kernel.value
    run = _Run(TRANSFORMERS, TRANSFORMERS, kernel)
    other = align.values(_trace(there, run, LONG_DTYPES[scales.other.request.dtype.value]))
    return judge.pairs(a, b, other, own, scales.unit)


def _worth_a_walk(steps: tuple[Pair, ...], a: LayerTrace, b: LayerTrace) -> bool:
    """Return whether to look at the layers: both enter the attention differently, or one is known to damage what it
    hands on."""
    parted = any(pair.name == "hidden" and pair.standing is Standing.PARTS for pair in steps)
    return parted or any(warning.id == causes.RESIDUAL for trace in (a, b) for warning in trace.warnings)


def _walk(
    asked: Asked, left: tuple[_Run, LayerTrace], right: tuple[_Run, LayerTrace], scales: _Yardstick
) -> tuple[tuple[Pair, ...], list[Written]]:
    """Return what both hand on, layer by layer, up to the asked attention; behind the first, so that the effect of what
    happens there is seen."""
    checkpoint = open_checkpoint(asked.checkpoint, revision=asked.revision)
    last = min(max(asked.layer, 1), checkpoint.settings.layers - 1)
    checkpoint.require_layers(last)
    cache = Path(platformdirs.user_cache_dir("tracer"))

    def wanted(trace: LayerTrace) -> Wanted:
        chosen, size = trace.request, checkpoint.settings.head_dim
        dtype = LONG_DTYPES[chosen.dtype.value]
        kernel = choose(chosen.kernel.value, device=chosen.device.value, dtype=dtype, head_dim=size)
        return Wanted(trace.request, kernel, (), cache)

    def passing(run: _Run, trace: LayerTrace) -> stream.Stream:
        watch = stream.nano_stream if run.engine == NANO_VLLM else stream.transformers_stream
        return watch(checkpoint, wanted(trace), last)

    a, b = passing(*left), passing(*right)
    own = (a if left[1] is scales.own else b).named()
    other = stream.transformers_stream(checkpoint, wanted(scales.other), last).named()
    mine, theirs = a.named(), b.named()
    pairs = tuple(
        judge.pair(mine.get(key), theirs.get(key), judge.noise(own.get(key), other.get(key)), scales.unit)
        for key in dict.fromkeys((*mine, *theirs))
    )
    return pairs, [*a.written, *b.written]


def _told(scales: _Yardstick) -> Message:
    own, other = scales.own.request, scales.other.request
    return message(
        "compare.yardstick",
        engine=own.engine.value,
        other=LONG_DTYPES[other.dtype.value],
        own=LONG_DTYPES[own.dtype.value],
        unit=LONG_DTYPES[scales.unit],
    )


def _runs(asked: Asked) -> list[_Run]:
    if len(asked.engines) > 1 and len(asked.kernels) > 1:
        raise InputError("compare.both")
    if len(asked.kernels) > 1:
        names = asked.kernels
        runs = [_Run(kernel, asked.engines[0], kernel) for kernel in names]
    else:
        names = asked.engines
        runs = [_Run(engine, engine, asked.kernels[0]) for engine in names]
    if len(names) < 2:
        raise InputError("compare.one_side", engines=", ".join(ENGINES))
    if len(set(names)) != len(names):
        raise InputError("compare.same_side", name=next(name for name in names if names.count(name) > 1))
    for run in runs:
        if run.engine not in ENGINES and version_of(run.engine) is None:
            raise InputError("compare.engine", engine=run.engine, known=", ".join(ENGINES))
    return runs


def _trace(asked: Asked, run: _Run, dtype: str) -> LayerTrace:
    return pipeline.trace_layers(
        asked.checkpoint,
        layers=(asked.layer,),
        revision=asked.revision,
        prompt=asked.prompt,
        tokens=asked.tokens,
        chat=asked.chat,
        engine=run.engine,
        kernel=run.kernel,
        device=asked.device,
        dtype=dtype,
        progress=asked.progress,
        report=asked.report,
    )[0]
