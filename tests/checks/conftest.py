"""A layer's trace made of random tensors and the real CPU kernel, in which any part can be made wrong."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tracer.arrays import Array
from tracer.checks.reference import reference
from tracer.checks.suite import run_checks
from tracer.kernels.cpu_flash import flash_attn_varlen_func
from tracer.records import (
    Capture,
    Check,
    CheckpointFacts,
    Choice,
    Effects,
    Hop,
    KernelCall,
    LayerTrace,
    Lineage,
    ModelFacts,
    Request,
    Site,
    Span,
    Status,
    Token,
)
from tracer.texts import message

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
ASKED = message("kernels.asked", kernel="test")


def array(tensor: Tensor) -> Array:
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return Array("BF16", tensor.view(torch.int16).numpy().view(np.uint16).copy())
    names = {torch.float32: "F32", torch.float16: "F16", torch.float64: "F64"}
    return Array(names[tensor.dtype], tensor.numpy().copy())


def site(line: int, code: str = "code") -> Site:
    span = Span(line, 4, line, 4 + len(code))
    return Site("transformers", "5.24.0", "models/qwen3.py", span, "A.forward", code, "0" * 64, None, "none", Path("x"))


def eager(q: Tensor, k: Tensor, v: Tensor, scale: float, allowed: Tensor) -> Tensor:
    """Plain products in the inputs' own dtype, as transformers' eager path has them."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.transpose(0, 1) for x in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)))
    scores = (q @ k.transpose(1, 2) * scale).masked_fill(~allowed, -torch.inf)
    weights = scores.softmax(-1, dtype=torch.float32).to(q.dtype).masked_fill(~allowed.any(1)[:, None], 0.0)
    return (weights @ v).transpose(0, 1)


@dataclass
class Setup:
    """A right trace unless told otherwise. ``kernel`` computes (output [T, H, D], lse [H, T] or None) from q, k, v."""

    tokens: int = 24
    keys: int | None = None
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    hidden_size: int = 96
    dtype: str = "F32"
    spread: float = 1.0
    window: int | None = None
    kind: str = "cpu-flash"
    seed: int = 0
    tensors: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]] = lambda q, k, v: (q, k, v)
    kernel: Callable[["Setup", Tensor, Tensor, Tensor], tuple[Tensor, Tensor | None]] = lambda setup, q, k, v: (
        setup.flash(q, k, v)
    )
    change: Callable[[LayerTrace], LayerTrace] = lambda trace: trace

    @property
    def scale(self) -> float:
        return self.head_dim**-0.5

    def flash(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, causal: bool = True, right: int = -1
    ) -> tuple[Tensor, Tensor]:
        """The CPU kernel as it should be called, or with another scale or mask."""
        starts = (torch.tensor([0, q.shape[0]]), torch.tensor([0, k.shape[0]]))
        window = (-1 if self.window is None else self.window - 1, right)
        out, lse, _ = flash_attn_varlen_func(
            q,
            k,
            v,
            *starts,
            q.shape[0],
            k.shape[0],
            softmax_scale=scale or self.scale,
            causal=causal,
            window_size=window,
            return_attn_probs=True,
        )
        return out, lse

    def allowed(self) -> Tensor:
        keys = self.keys or self.tokens
        distance = torch.arange(keys)[None] - (torch.arange(self.tokens)[:, None] + keys - self.tokens)
        return (distance <= 0) & (distance > -(self.window or keys + self.tokens + 1))

    def trace(self) -> LayerTrace:
        random = torch.Generator().manual_seed(self.seed)
        shapes = ((self.tokens, self.heads), (keys := self.keys or self.tokens, self.kv_heads), (keys, self.kv_heads))
        q, k, v = (torch.randn(*shape, self.head_dim, generator=random) for shape in shapes)
        q, k, v = self.tensors(*(x.to(DTYPES[self.dtype]) for x in (q * self.spread, k, v)))
        out, lse = self.kernel(self, q, k, v)
        plain = eager(q, k, v, self.scale, self.allowed())
        captures = {
            name: Capture(name, name.upper(), ("T", "H", "D"), array(x), site(9), "")
            for name, x in (("q", q), ("k", k), ("v", v))
        }
        hops = tuple(
            Hop(site(line, code), binds, linked=True, seen=True, value=self.scale, same_object=True)
            for line, code, binds in ((1, "self.head_dim**-0.5", "self.scaling"), (2, "self.scaling", "scaling="))
        )
        told = tuple(replace(hop, value=True, same_object=None) for hop in hops)
        choice = Choice(self.kind, ASKED)
        return self.change(
            LayerTrace(
                request=Request(0, 2, None, tuple(range(self.tokens)), choice, choice, choice, choice),
                versions={},
                checkpoint=CheckpointFacts("random", None, self.dtype, "", "", True),
                model=ModelFacts(
                    layers=2,
                    heads=self.heads,
                    kv_heads=self.kv_heads,
                    head_dim=self.head_dim,
                    hidden_size=self.hidden_size,
                    layer_type="full_attention" if self.window is None else "sliding_attention",
                    window=self.window,
                    max_positions=1024,
                    norm_eps=1e-6,
                    rope={},
                ),
                tokens=tuple(Token(n, b"a", "a") for n in range(self.tokens)),
                scale=Lineage(self.scale, "self.head_dim**-0.5", hops),
                causal=Lineage(True, "self.is_causal", told),
                kernel=KernelCall(
                    "flash_attn_varlen_func",
                    "torch",
                    {"cu_seqlens_q": [0, self.tokens], "cu_seqlens_k": [0, keys]},
                    site(850),
                    array(out),
                    None if lse is None else array(lse),
                ),
                captures=captures,
                effects=Effects(
                    untraced_same=True,
                    changed=tuple(
                        (t, None, True) for t in sorted({1, self.tokens // 2, self.tokens - 1}) if 0 < t < self.tokens
                    ),
                    eager=array(plain),
                    eager_heads=tuple(range(self.heads)),
                ),
            )
        )

    def checks(self, head: int = 2) -> dict[str, Check]:
        trace = self.trace()
        return {check.id: check for check in run_checks(trace, head, reference(trace, head))}

    def failed(self, head: int = 2) -> set[str]:
        return {id for id, check in self.checks(head).items() if check.status is Status.FAIL}

    def untested(self, head: int = 2) -> set[str]:
        return {id for id, check in self.checks(head).items() if check.status is Status.NOT_TESTABLE}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def setup() -> type[Setup]:
    return Setup
