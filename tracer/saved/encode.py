"""From the record of a traced layer to what a saved trace holds: tensors by name, and the rest as one JSON text.

Sites are kept once, in a table; whatever refers to one gives its place there. Must not know: files, reading.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tracer.arrays import Array
from tracer.portable import portable
from tracer.records import Capture, Choice, Effects, Hop, KernelCall, LayerTrace, Lineage, Request, Site, Token
from tracer.saved.names import EAGER, FORMAT, FORMAT_KEY, KERNEL_LSE, KERNEL_OUTPUT, TRACE_KEY, WRITER_KEY
from tracer.saved.values import encode, encode_message

_SURROGATE = re.compile("[\ud800-\udfff]")


def tensors(layer: LayerTrace) -> dict[str, Array]:
    """Return every tensor of the trace by the name it has in the file."""
    found = {name: capture.array for name, capture in layer.captures.items()}
    found[KERNEL_OUTPUT] = layer.kernel.output
    if layer.kernel.lse is not None:
        found[KERNEL_LSE] = layer.kernel.lse
    found[EAGER] = layer.effects.eager
    return found


def metadata(layer: LayerTrace, writer: str) -> dict[str, str]:
    """Return the file's metadata: its format, who wrote it (``writer`` is this tool's version), all but the tensors."""
    sites = _Sites()
    fields: dict[str, Any] = {
        "request": _request(layer.request),
        "versions": dict(layer.versions),
        "checkpoint": asdict(layer.checkpoint),
        "model": {**_fields(layer.model, "rope"), "rope": encode(layer.model.rope)["mapping"]},
        "tokens": [_token(token) for token in layer.tokens],
        "scale": _lineage(layer.scale, sites),
        "causal": _lineage(layer.causal, sites),
        "kernel": _kernel(layer.kernel, sites),
        "captures": [_capture(name, capture, sites) for name, capture in layer.captures.items()],
        "effects": _effects(layer.effects),
        "warnings": [encode_message(portable(warning)) for warning in layer.warnings],
    }
    fields["sites"] = sites.rows
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    # Half a surrogate pair, as in a file name that is no UTF-8, is spelt out: no file can hold it as text.
    text = _SURROGATE.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text)
    return {FORMAT_KEY: FORMAT, WRITER_KEY: f"tracer {writer}", TRACE_KEY: text}


class _Sites:
    """The table of sites: each different one once."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._places: dict[Site, int] = {}

    def add(self, site: Site) -> int:
        """Return the place of ``site`` in the table."""
        if site not in self._places:
            self._places[site] = len(self.rows)
            span = [site.span.line, site.span.column, site.span.end_line, site.span.end_column]
            self.rows.append({**_fields(site, "file", "span"), "span": span})
        return self._places[site]


def _fields(record: Any, *without: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__ if name not in without}


def _request(request: Request) -> dict[str, Any]:
    choices = {name: _choice(getattr(request, name)) for name in ("engine", "kernel", "device", "dtype")}
    return {"layer": request.layer, "head": request.head, "query": request.query, **choices}


def _choice(choice: Choice) -> dict[str, Any]:
    return {"value": choice.value, "reason": encode_message(portable(choice.reason))}


def _token(token: Token) -> list[Any]:
    return [token.id, token.bytes.hex(), token.text]


def _lineage(lineage: Lineage, sites: _Sites) -> dict[str, Any]:
    hops = [_hop(hop, sites) for hop in lineage.hops]
    return {"value": encode(lineage.value), "expression": lineage.expression, "hops": hops}


def _hop(hop: Hop, sites: _Sites) -> dict[str, Any]:
    return {**_fields(hop, "site", "value"), "site": sites.add(hop.site), "value": encode(hop.value)}


def _kernel(kernel: KernelCall, sites: _Sites) -> dict[str, Any]:
    arguments: Mapping[str, Any] = {name: encode(value) for name, value in kernel.arguments.items()}
    named = {"function": kernel.function, "provider": kernel.provider}
    return {**named, "arguments": arguments, "site": sites.add(kernel.site)}


def _capture(name: str, capture: Capture, sites: _Sites) -> dict[str, Any]:
    described = {"symbol": capture.symbol, "axes": list(capture.axes), "formula": capture.formula}
    return {"name": name, **described, "site": sites.add(capture.site)}


def _effects(effects: Effects) -> dict[str, Any]:
    changed = [list(row) for row in effects.changed]
    return {
        **_fields(effects, "eager", "changed", "eager_heads"),
        "changed": changed,
        "heads": list(effects.eager_heads),
    }
