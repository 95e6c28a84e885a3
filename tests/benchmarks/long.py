"""What verifying one head of a long prompt costs: ``python -m tests.benchmarks.long [--tokens N] [--dtype D]``.

One head of 0.6B's shape is traced; then, in turn, the kernel alone is timed on its q, k and v, and verification:
the head recomputed over all rows, and all checks. Printed are medians of the ratios, in time and processor time, and
the memory that verifying adds at its peak. Both depend on what computes the kernel: with matrix units (AMX) bfloat16 is
several times as fast as float16, and the recomputation in NumPy has none of them. Nothing here is a test.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks.growth import checkpoint
from tracer import pipeline
from tracer.engines.arrays import to_tensor
from tracer.kernels import cpu_flash
from tracer.records import LayerTrace
from tracer.result import look_at

HEAD = 2
WANTED_RATIO, WANTED_GIB = 4.0, 1.0
_GIB = 1 << 30


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Return seconds of the clock and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def kernel(trace: LayerTrace) -> Callable[[], Any]:
    """Return the kernel's own work on the traced head, as a function."""
    heads = {"q": HEAD, "k": trace.model.kv_head(HEAD), "v": trace.model.kv_head(HEAD)}
    q, k, v = (to_tensor(trace.captures[name].array[:, n : n + 1]) for name, n in heads.items())
    length = len(trace.tokens)
    bounds = torch.tensor([0, length], dtype=torch.int32)
    scale = trace.model.head_dim**-0.5
    return lambda: cpu_flash.flash_attn_varlen_func(
        q, k, v, bounds, bounds, length, length, softmax_scale=scale, causal=True, return_attn_probs=True
    )


def resident(what: str) -> int:
    """Return this process's memory in bytes: VmRSS as it is now, VmHWM at its peak (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(what))


def added(work: Callable[[], Any]) -> int:
    """Return by how many bytes memory grows at the peak of ``work``."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/growth"), help="for the checkpoint")
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--dtype", nargs="*", default=["bfloat16", "float16"])
    parser.add_argument("-n", "--rounds", type=int, default=5)
    asked = parser.parse_args()
    folder = str(checkpoint(asked.folder.resolve(), "0.6B", 0))
    ids = [(n * 7919) % 100 for n in range(asked.tokens)]
    for dtype in asked.dtype:
        started = resident("VmRSS")
        asks: dict[str, Any] = {"tokens": ids, "dtype": dtype, "kernel": "cpu-flash"}
        (trace,) = pipeline.trace_layers(folder, layers=[0], head=HEAD, heads=[HEAD], **asks)
        traced = resident("VmHWM") - started
        own = kernel(trace)
        memory = added(lambda trace=trace: look_at(trace, HEAD))
        own()
        pairs = [(timed(own), timed(lambda trace=trace: look_at(trace, HEAD))) for _ in range(asked.rounds)]
        ratio, processor = (statistics.median(check[n] / base[n] for base, check in pairs) for n in range(2))
        base, check = (statistics.median(pair[n][0] for pair in pairs) for n in range(2))
        print(
            f"{dtype}, {asked.tokens} tokens: kernel {base:.2f} s, verification {check:.2f} s: {ratio:.1f} × "
            f"({processor:.1f} × in processor time), {memory / _GIB:.2f} GiB added "
            f"(tracing before it {traced / _GIB:.2f} GiB above the start)",
            flush=True,
        )
        del trace, own
    print(f"wanted: at most {WANTED_RATIO} × the kernel's own time, {WANTED_GIB} GiB above the model")


if __name__ == "__main__":
    main()
