"""``trace lab gpu``: one head on a flash kernel and by explicit matrix products, as the prompt grows.

Must not know: torch, how anything is measured, terminals.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tracer.errors import InputError
from tracer.labs import bench
from tracer.labs.figures import bar, short
from tracer.labs.lesson import Lesson, going_on
from tracer.labs.words import Words, said
from tracer.maths.criterion import Numerics
from tracer.page.numbers import significant
from tracer.page.record import Block, Column, Facts, Line, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import muted
from tracer.render.jsonable import sentence
from tracer.texts import Message

NAME = "gpu"
ON_CUDA = (1024, 2048, 4096, 8192, 16384, 32768)
ON_CPU = (256, 512, 1024, 2048, 4096)
LONGEST, MOST_LENGTHS = 131_072, 10


def lesson(
    *, lengths: tuple[int, ...] | None = None, device: str = "auto", seed: int = 0, on: bench.Bench | None = None
) -> Lesson:
    """Return the lab, measured on this machine or ``on`` another; raises InputError, Unsupported."""
    if lengths is not None:
        _check(lengths)
    machine = bench.TorchBench(device, seed) if on is None else on
    chosen = lengths or (ON_CUDA if machine.machine.counts_memory else ON_CPU)
    found = bench.measure(machine, chosen)
    failed = any(each.check is not None and not each.check.ok for each in found)
    return Lesson(
        name=NAME,
        before=said("gpu_before"),
        sections=lambda say: _sections(say, machine.machine, found),
        figures=lambda language: _figures(machine.machine, found, language),
        after=_after(machine.machine, found),
        question=said("gpu_question"),
        next=going_on(NAME, "trace lab flash", "trace qwen3 --head 2", "trace lab gpu --lengths 64,128,256,512"),
        exit_code=1 if failed else 0,
    )


def _check(lengths: Sequence[int]) -> None:
    wrong = [length for length in lengths if not 2 <= length <= LONGEST]
    if wrong:
        raise InputError("labs.size", option="--lengths", lowest=2, highest=LONGEST, found=wrong[0])
    if not lengths or len(lengths) > MOST_LENGTHS:
        raise InputError("labs.gpu_lengths", most=MOST_LENGTHS, found=len(lengths))


def _after(machine: bench.Machine, found: Sequence[bench.Measured]) -> tuple[Message, ...]:
    first, last = found[0], found[-1]
    growth = last.length / first.length
    texts = [
        said(
            "gpu_after_memory",
            longer=short(growth),
            explicit=short(round(last.explicit.bytes / first.explicit.bytes, 1)),
            flash=short(round(last.flash.bytes / first.flash.bytes, 1)),
        )
    ]
    both = [each for each in found if each.flash.seconds and each.explicit.seconds]
    if both:
        end = both[-1]
        ratio = (end.explicit.seconds or 0.0) / (end.flash.seconds or 1.0)
        texts.append(said("gpu_after_time", length=end.length, ratio=significant(ratio, 2)))
    texts.append(said("gpu_after_cuda" if machine.counts_memory else "gpu_after_cpu"))
    return tuple(texts)


# ------------------------------------------------------------------------------------------------------ the page


def _sections(say: Words, machine: bench.Machine, found: Sequence[bench.Measured]) -> list[Section]:
    return [_where(say, machine), _time(say, found), _memory(say, machine, found), _right(say, found)]


def _where(say: Words, machine: bench.Machine) -> Section:
    rows = (
        (line(say("gpu_device")), line(machine.name.text(say.language))),
        (line(say("gpu_kernel")), line(Piece(machine.kernel, Role.CODE), f"  {machine.provider}")),
        (line(say("gpu_why")), line(machine.reason.text(say.language))),
        (line(say("gpu_head")), line(f"d = {bench.HEAD_DIM}, {machine.dtype}, causal")),
    )
    return Section("gpu_where", "1", line(say("gpu_where_heading")), (Facts(rows),))


def _time(say: Words, found: Sequence[bench.Measured]) -> Section:
    longest = max((way.seconds or 0.0 for each in found for way in (each.flash, each.explicit)), default=0.0)
    shortest = min((way.seconds for each in found for way in (each.flash, each.explicit) if way.seconds), default=1e-9)
    rows = tuple(
        Row(
            (
                line(Piece(str(each.length), Role.STRONG)),
                _seconds(each.flash),
                _log_bar(each.flash.seconds, shortest, longest),
                _seconds(each.explicit),
                _log_bar(each.explicit.seconds, shortest, longest),
            )
        )
        for each in found
    )
    columns = (
        Column("T", numeric=True, names=True),
        Column(say("column_flash"), numeric=True),
        Column(" ", spare=2),
        Column(say("column_explicit"), numeric=True),
        Column(" ", spare=1),
    )
    blocks: list[Block] = [Prose(line(say("gpu_time"))), Table(columns, rows)]
    reasons = {way.why.text(say.language) for each in found for way in (each.flash, each.explicit) if way.why}
    blocks += [Prose(muted(reason)) for reason in sorted(reasons)]
    return Section("gpu_time", "2", line(say("gpu_time_heading")), tuple(blocks))


def _seconds(way: bench.Way) -> Line:
    if way.seconds is None:
        return line(Piece("–", Role.MASKED))
    shown = f"{significant(way.seconds * 1e3)} ms" if way.seconds < 1 else f"{significant(way.seconds)} s"
    return line(Piece(shown, Role.NUMBER))


def _log_bar(value: float | None, low: float, high: float) -> Line:
    """Return a bar on a logarithmic scale that begins a factor of two below the smallest value."""
    if not value:
        return ()
    return bar(math.log(2 * value / low) / math.log(max(2 * high / low, 2.0)), 14)


def _memory(say: Words, machine: bench.Machine, found: Sequence[bench.Measured]) -> Section:
    rows = tuple(
        Row(
            (
                line(Piece(str(each.length), Role.STRONG)),
                line(Piece(_megabytes(each.flash.bytes), Role.NUMBER)),
                line(Piece(_megabytes(each.explicit.bytes), Role.NUMBER)),
                line(Piece(f"{significant(each.explicit.bytes / each.flash.bytes)}×", Role.NUMBER)),
            )
        )
        for each in found
    )
    columns = (
        Column("T", numeric=True, names=True),
        Column(say("column_flash"), numeric=True),
        Column(say("column_explicit"), numeric=True),
        Column(say("column_ratio"), numeric=True),
    )
    lead = say("gpu_memory_measured" if machine.counts_memory else "gpu_memory_computed")
    return Section("gpu_memory", "3", line(say("gpu_memory_heading")), (Prose(line(lead)), Table(columns, rows)))


def _megabytes(count: int) -> str:
    return f"{significant(count / 1e6)} MB" if count < 1e9 else f"{significant(count / 1e9)} GB"


def _right(say: Words, found: Sequence[bench.Measured]) -> Section:
    checked = [(each.length, each.check) for each in found if each.check is not None]
    blocks: list[Block] = [Prose(_verdict(say, length, check)) for length, check in checked]
    if not blocks:
        blocks.append(Prose(line(say("gpu_unchecked"))))
    return Section("gpu_right", "4", line(say("gpu_right_heading")), tuple(blocks))


def _verdict(say: Words, length: int, check: Numerics) -> Line:
    role, mark = (Role.PASS, "✓") if check.ok else (Role.FAIL, "✗")
    text = say(
        "gpu_right",
        length=length,
        kernel=significant(check.kernel.largest),
        tolerance=significant(check.tolerance),
        eager=significant(check.eager_error or 0.0),
    )
    return line(Piece(f"{mark} ", role), text)


# ------------------------------------------------------------------------------------------------------ JSON


def _figures(machine: bench.Machine, found: Sequence[bench.Measured], language: str) -> Mapping[str, Any]:
    return {
        "device": machine.device,
        "device_name": machine.name.text(language),
        "kernel": {
            "function": machine.kernel,
            "provider": machine.provider,
            "reason": sentence(machine.reason, language),
        },
        "dtype": machine.dtype,
        "head_dim": bench.HEAD_DIM,
        "memory": "measured" if machine.counts_memory else "computed",
        "lengths": [
            {
                "length": each.length,
                "flash": _way(each.flash, language),
                "explicit": _way(each.explicit, language),
                "check": None if each.check is None else _check_figures(each.check),
            }
            for each in found
        ],
    }


def _way(way: bench.Way, language: str) -> dict[str, Any]:
    return {"seconds": way.seconds, "bytes": way.bytes, "left_out": None if way.why is None else way.why.text(language)}


def _check_figures(check: Numerics) -> dict[str, Any]:
    return {
        "pass": check.ok,
        "kernel_error": check.kernel.largest,
        "explicit_error": check.eager_error,
        "tolerance": check.tolerance,
    }
