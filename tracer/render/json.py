"""A trace as JSON, format trace/1 (``tracer/schemas/trace-1.schema.json`` says what each entry means).

Must not know: files, terminals. Nothing is computed here that the trace does not hold, but statistics of its tensors.
"""

from typing import Any

from tracer.arrays import Array
from tracer.maths import stats
from tracer.order import in_order
from tracer.page.window import Window
from tracer.page.window import window as window_of
from tracer.records import Check, LayerTrace, Site, Status
from tracer.render import json_text, jsonable
from tracer.result import Trace
from tracer.texts import DEFAULT_LANGUAGE

FORMAT = "trace/1"
WINDOW = 64
_BY_EFFECT = ("causal.effect", "causal.weights")


def dumps(trace: Trace, language: str = DEFAULT_LANGUAGE, *, window: int = WINDOW) -> str:
    """Return ``to_json`` as text: UTF-8 letters as they are, rows of numbers on one line, no NaN, a line end."""
    return json_text.dumps(to_json(trace, language, window=window))


def to_json(trace: Trace, language: str = DEFAULT_LANGUAGE, *, window: int = WINDOW) -> dict[str, Any]:
    """Return the trace of one head as JSON values; sentences are in ``language``.

    ``window`` is the largest number of queries and of keys whose scores and weights are given: all, where they fit,
    else those that end at the asked query or at the last one, as on every page; ``head.window`` says which, its rows
    counted from token ``request.cached``. What keys
    outside it weigh can be told all the same: ``row_max`` and ``lse`` are over all keys. Raises InputError where
    ``window`` is below 1.
    """
    layer = trace.layer
    visibility = trace.reference.visibility
    query = None if layer.request.query is None else layer.request.query - layer.cached
    part = window_of(visibility.tq, visibility.tk, window, query)
    return {
        "format": FORMAT,
        "request": _request(trace, language),
        "versions": dict(layer.versions),
        "checkpoint": _checkpoint(layer),
        "model": _model(trace),
        "tokens": [jsonable.token(token) for token in layer.tokens],
        "scale": _scale(trace),
        "causal": _causal(trace),
        "kernel": _kernel(layer, language),
        "tensors": _tensors(trace),
        "head": _head(trace, part),
        "checks": [_check(check, language) for check in trace.checks],
        "warnings": [jsonable.sentence(warning, language) for warning in layer.warnings],
    }


def _request(trace: Trace, language: str) -> dict[str, Any]:
    asked = trace.layer.request
    choices = {name: getattr(asked, name) for name in ("engine", "kernel", "device", "dtype")}
    return {
        "layer": asked.layer,
        "head": trace.head,
        "query": asked.query,
        "token_ids": list(asked.token_ids),
        "cached": trace.layer.cached,
        **{name: jsonable.choice(chosen, language) for name, chosen in choices.items()},
    }


def _checkpoint(layer: LayerTrace) -> dict[str, Any]:
    facts = layer.checkpoint
    return {
        "name": facts.name,
        "revision": facts.revision,
        "dtype": facts.dtype,
        "config_sha256": facts.config_sha256,
        "headers_sha256": facts.headers_sha256,
        "tied": facts.tied,
    }


def _model(trace: Trace) -> dict[str, Any]:
    model = trace.layer.model
    return {
        "layers": model.layers,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "hidden_size": model.hidden_size,
        "kv_head": model.kv_head(trace.head),
        "layer_type": model.layer_type,
        "window": model.window,
        "max_positions": model.max_positions,
        "norm_eps": jsonable.number(model.norm_eps),
        "rope": jsonable.loose(model.rope),
    }


def _effective_scale(trace: Trace) -> float | None:
    found = next((check for check in trace.checks if check.id == "scale.effective"), None)
    tested = found is not None and found.status is not Status.NOT_TESTABLE
    value = found.figures.get("effective") if found is not None and tested else None
    return jsonable.number(value) if isinstance(value, float) else None


def _effective_causality(trace: Trace) -> bool | None:
    """Return whether attention was causal by what it did; None where nothing could tell."""
    statuses = {check.status for check in trace.checks if check.id in _BY_EFFECT} - {Status.NOT_TESTABLE}
    return Status.FAIL not in statuses if statuses else None


def _scale(trace: Trace) -> dict[str, Any]:
    lineage = trace.layer.scale
    return {
        "value": jsonable.flag_or_number(lineage.value),
        "expected": float(trace.layer.model.head_dim**-0.5),
        "effective": _effective_scale(trace),
        "expression": lineage.expression,
        "lineage": jsonable.hops(lineage),
    }


def _causal(trace: Trace) -> dict[str, Any]:
    lineage = trace.layer.causal
    return {
        "flag": lineage.value,
        "effective": _effective_causality(trace),
        "lineage": jsonable.hops(lineage),
    }


def _kernel(layer: LayerTrace, language: str) -> dict[str, Any]:
    kernel = layer.kernel
    return {
        "function": kernel.function,
        "provider": kernel.provider,
        "reason": jsonable.sentence(layer.request.kernel.reason, language),
        "arguments": jsonable.loose(kernel.arguments),
        "site": jsonable.site(kernel.site),
    }


def _tensors(trace: Trace) -> list[dict[str, Any]]:
    """Return every tensor in the order the steps run: the captured ones, and the asked head's recomputed ones."""
    layer = trace.layer
    described = [
        (name, _captured(name, one.symbol, one.axes, one.array, one.site, one.formula))
        for name, one in layer.captures.items()
    ]
    kernel = layer.kernel
    described.append(("output", _captured("output", "O", ("T", "H", "D"), kernel.output, kernel.site, "O = A·V")))
    if kernel.lse is not None:
        formula = "lse = m + ln Σ exp(S − m)"
        described.append(("lse", _captured("lse", "lse", ("H", "T"), kernel.lse, kernel.site, formula)))
    described += [(name, tensor) for name, tensor in _recomputed(trace)]
    ordered = {name: place for place, name in enumerate(in_order(name for name, _ in described))}
    return [tensor for _, tensor in sorted(described, key=lambda item: ordered[item[0]])]


def _captured(name: str, symbol: str, axes: tuple[str, ...], array: Array, site: Site, formula: str) -> dict[str, Any]:
    return {
        "name": name,
        "origin": "captured",
        "symbol": symbol,
        "shape": list(array.shape),
        "axes": list(axes),
        "dtype": array.dtype,
        "stats": jsonable.stats(stats.of_array(array)),
        "site": jsonable.site(site),
        "formula": formula,
    }


def _recomputed(trace: Trace) -> list[tuple[str, dict[str, Any]]]:
    head = trace.reference
    tq, tk = head.visibility.tq, head.visibility.tk
    scores, weights = stats.of_head(head)
    rows = stats.of_blocks([head.row_max])
    found = (
        ("scores", "S", [tq, tk], ["Tq", "Tk"], scores, "S = Q·Kᵀ·scale + M"),
        ("row_max", "m", [tq], ["Tq"], rows, "m = maxₖ S"),
        ("weights", "A", [tq, tk], ["Tq", "Tk"], weights, "A = exp(S − lse)"),
    )
    return [
        (
            name,
            {
                "name": name,
                "origin": "recomputed",
                "symbol": symbol,
                "shape": shape,
                "axes": axes,
                "dtype": "F64",
                "stats": jsonable.stats(figures),
                "site": jsonable.site(trace.layer.kernel.site),
                "formula": formula,
            },
        )
        for name, symbol, shape, axes, figures, formula in found
    ]


def _head(trace: Trace, part: Window) -> dict[str, Any]:
    head, kernel = trace.reference, trace.layer.kernel
    rows, keys = part.rows, part.keys
    lse = None if kernel.lse is None else jsonable.numbers(kernel.lse[trace.head, rows].float64())
    return {
        "scores": jsonable.numbers(head.scores(rows, keys)),
        "visible": head.visibility.rows(rows.start, rows.stop, keys).tolist(),
        "row_max": jsonable.numbers(head.row_max[rows]),
        "lse": jsonable.numbers(head.lse[rows]),
        "weights": jsonable.numbers(head.weights(rows, keys)),
        "output": jsonable.numbers(head.output[rows]),
        "kernel_lse": lse,
        "kernel_output": jsonable.numbers(kernel.output[rows, trace.head].float64()),
        "empty_rows": list(head.empty_rows),
        "window": {"rows": [rows.start, rows.stop], "keys": [keys.start, keys.stop], "whole": part.whole},
    }


def _check(check: Check, language: str) -> dict[str, Any]:
    sentences = {name: getattr(check, name) for name in ("claim", "measured", "expected", "tolerance", "reason")}
    texts = {name: jsonable.sentence(source, language) for name, source in sentences.items()}
    return {
        "id": check.id,
        "claim": texts.pop("claim"),
        "status": check.status.value,
        **texts,
        "site": None if check.site is None else jsonable.site(check.site),
        "figures": jsonable.loose(check.figures),
    }
