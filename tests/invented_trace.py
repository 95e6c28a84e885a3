"""A traced layer made up without any model: NumPy numbers that fit together, places in a file that does not exist."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tracer.arrays import HELD_AS, Array
from tracer.maths.attention import head
from tracer.maths.visibility import Visibility
from tracer.records import (
    Capture,
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
    Token,
)
from tracer.texts import message

H, K, D, C = 4, 2, 8, 24
FILE = "src/transformers/models/qwen3/modeling_qwen3.py"
PROMPT = (b"to", b" be", b" \xe8", b"\xa5\xbf", b"<b>")


def array(values: Any, dtype: str = "F32") -> Array:
    """Return ``values`` rounded to ``dtype`` (bfloat16 by cutting the low half off)."""
    if dtype == "BF16":
        return Array(dtype, (np.ascontiguousarray(values, dtype="<f4").view("<u4") >> 16).astype("<u2"))
    return Array(dtype, np.asarray(values).astype(HELD_AS[dtype]))


def site(line: int, code: str, **changes: Any) -> Site:
    """Return the place of ``code`` at column 8 of ``line``."""
    whole = Site(
        project="transformers",
        version="5.24.0",
        path=FILE,
        span=Span(line, 8, line, 8 + len(code)),
        scope="Qwen3Attention.forward",
        code=code,
        sha256="ab" * 32,
        permalink=f"https://github.com/huggingface/transformers/blob/v5.24.0/{FILE}#L{line}",
        link_kind="tag",
        file=Path("/home/someone/site-packages") / FILE,
    )
    return replace(whole, **changes)


def tokens(count: int) -> tuple[Token, ...]:
    """Return ``count`` tokens, among them two that share one character and one that looks like markup."""
    found = []
    for index in range(count):
        data = PROMPT[index % len(PROMPT)]
        try:
            text: str | None = data.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        found.append(Token(100 + index % len(PROMPT), data, text))
    return tuple(found)


def invented(count: int = 5, dtype: str = "F32", seed: int = 0, kept: tuple[int, ...] | None = None) -> LayerTrace:
    """Return a traced layer of ``count`` tokens: 4 query heads on 2 key/value heads, head_dim 8, hidden size 24."""
    random = np.random.default_rng(seed)
    x = {name: array(random.standard_normal((count, n, D)), dtype) for name, n in (("q", H), ("k", K), ("v", K))}
    scale = D**-0.5
    see = Visibility(tq=count, tk=count, causal=True)
    heads = [
        head(x["q"].float64()[:, h], x["k"].float64()[:, h // 2], x["v"].float64()[:, h // 2], scale, see)
        for h in range(H)
    ]
    output = array(np.stack([one.output for one in heads], axis=1), dtype)
    kept = tuple(range(H)) if kept is None else kept
    reason = message("pipeline.dtype_stored")
    steps = {
        "hidden": Capture(
            "hidden",
            "x",
            ("B", "T", "C"),
            array(random.standard_normal((1, count, C)), dtype),
            site(302, "hidden"),
            "x",
        ),
        "q_proj": Capture(
            "q_proj",
            "x·W_qᵀ",
            ("B", "T", "H·D"),
            array(random.standard_normal((1, count, H * D)), dtype),
            site(245, "self.q_proj(hidden_states)"),
            "x·W_qᵀ",
        ),
    }
    letters = {"q": ("T", "H", "D"), "k": ("T", "K", "D"), "v": ("T", "K", "D")}
    for name, axes in letters.items():
        steps[name] = Capture(name, name.upper(), axes, x[name], site(850, name), name.upper())
    return LayerTrace(
        request=Request(
            layer=1,
            head=2,
            query=None,
            token_ids=tuple(token.id for token in tokens(count)),
            engine=Choice("transformers", message("pipeline.engine_default")),
            kernel=Choice("cpu-flash", message("kernels.cpu_instead", why=message("kernels.why_no_cuda"))),
            device=Choice("cpu", message("kernels.cpu_instead", why=message("kernels.why_no_cuda"))),
            dtype=Choice(dtype, reason),
        ),
        versions={"python": "3.11.9", "tracer": "0.1.0", "torch": "2.13.0", "transformers": "5.24.0"},
        checkpoint=CheckpointFacts("qwen3-tiny", None, dtype, "12" * 32, "34" * 32, True),
        model=ModelFacts(3, H, K, D, C, "full_attention", None, 512, 1e-6, {"rope_type": "default", "rope_theta": 1e4}),
        tokens=tokens(count),
        scale=_scale(scale),
        causal=_causal(),
        kernel=KernelCall(
            "flash_attn_varlen_func",
            "torch 2.13.0",
            {
                "cu_seqlens_q": [0, count],
                "cu_seqlens_k": [0, count],
                "max_seqlen_q": count,
                "max_seqlen_k": count,
                "dropout_p": 0.0,
                "softmax_scale": scale,
                "causal": True,
                "window_size": [-1, -1],
                "alibi_slopes": None,
            },
            site(850, "flash_varlen_fn(q, k, v)"),
            output,
            array(np.stack([one.lse for one in heads])),
        ),
        captures=MappingProxyType(steps),
        effects=Effects(
            untraced_same=True,
            changed=tuple((t, None, True) for t in sorted({1, count // 2, count - 1}) if 0 < t < count),
            eager=array(np.stack([heads[h].output for h in kept], axis=1), dtype),
            eager_heads=kept,
        ),
        warnings=(message("checkpoint.no_output_layer", tensor="lm_head.weight"),),
    )


def _scale(value: float) -> Lineage:
    definition = site(213, "self.head_dim**-0.5", scope="Qwen3Attention.__init__")
    hops = (
        Hop(definition, "self.scaling", True, True, value, True),
        Hop(site(266, "self.scaling"), "scaling=", True, True, value, True),
        Hop(site(850, "flash_kwargs"), "softmax_scale=", False, True, value, True),
    )
    return Lineage(value, definition.code, hops)


def _causal() -> Lineage:
    return Lineage(True, "True", (Hop(site(215, "True"), "self.is_causal", True, True, True, None),))


def changed(layer: LayerTrace, **changes: Any) -> LayerTrace:
    """Return ``layer`` with some fields replaced."""
    return replace(layer, **changes)


def with_array(layer: LayerTrace, name: str, new: Array) -> LayerTrace:
    """Return ``layer`` with another array for the capture ``name``."""
    captures: Mapping[str, Capture] = {**layer.captures, name: replace(layer.captures[name], array=new)}
    return replace(layer, captures=captures)
