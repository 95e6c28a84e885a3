"""From the metadata and tensors of a saved trace back to the record, nothing taken on trust.

Whatever is there must be what ``encode`` writes, and tensors, shapes, ranges and tables must agree with each other, so
that nothing after this need doubt a saved trace more than a fresh one. Must not know: files, how the trace was made.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from tracer.arrays import Array
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
from tracer.saved.here import file_here
from tracer.saved.names import EAGER, KERNEL_LSE, KERNEL_OUTPUT
from tracer.saved.nodes import Node
from tracer.saved.shapes import check_bounds, check_shapes, rows
from tracer.saved.values import decode, decode_message

_SHA256 = re.compile(r"[0-9a-f]{64}")
_HEX = re.compile(r"([0-9a-f]{2})*")
_PATH = re.compile(r"(?!/)(?!.*(^|/)\.\.(/|$))[^\\:]+")
_LINK = re.compile(r"https://github\.com/[A-Za-z0-9-]+/[A-Za-z0-9._-]+/blob/[A-Za-z0-9._/%+-]+#L[0-9]+(-L[0-9]+)?")
_LINE_END = re.compile(r"\r\n|\r|\n")
_TENSOR = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


_FIELDS = (
    "request",
    "versions",
    "checkpoint",
    "model",
    "tokens",
    "sites",
    "scale",
    "causal",
    "kernel",
    "captures",
    "effects",
    "warnings",
)
_KERNEL = ("function", "provider", "arguments", "site")


def layer_trace(description: Node, tensors: Mapping[str, Array]) -> LayerTrace:
    """Return the record; raises InputError that says where the description of the trace is wrong."""
    fields = description.fields(*_FIELDS)
    sites = tuple(_site(node) for node in fields["sites"].items())
    tokens = tuple(_token(node) for node in fields["tokens"].items())
    model = _model(fields["model"])
    request = _request(fields["request"], tokens, model)
    queries = rows(tensors, request.engine.value, len(tokens))
    trace = LayerTrace(
        request=request,
        versions=MappingProxyType({name: node.text() for name, node in fields["versions"].entries()}),
        checkpoint=_checkpoint(fields["checkpoint"]),
        model=model,
        tokens=tokens,
        scale=_lineage(fields["scale"], sites),
        causal=_lineage(fields["causal"], sites),
        kernel=_kernel(fields["kernel"], sites, tensors),
        captures=_captures(fields["captures"], sites, tensors),
        effects=_effects(fields["effects"], model, queries, tensors),
        warnings=tuple(decode_message(node) for node in fields["warnings"].items()),
    )
    check_bounds(fields["kernel"].fields(*_KERNEL)["arguments"], queries, len(tokens))
    check_shapes(trace, tensors, fields["captures"], queries)
    return trace


def _site(node: Node) -> Site:
    names = ("project", "version", "path", "span", "scope", "code", "sha256", "permalink", "link_kind")
    fields = node.fields(*names)
    kind = fields["link_kind"].word("commit", "tag", "differs", "none")
    link = fields["permalink"].optional(lambda found: found.text(_LINK))
    if (link is None) != (kind in ("differs", "none")):
        raise fields["permalink"].wrong("saved.expected_link")
    project, path, sha256 = fields["project"].text(), fields["path"].text(_PATH), fields["sha256"].text(_SHA256)
    span = _span(fields["span"])
    return Site(
        project=project,
        version=fields["version"].text(),
        path=path,
        span=span,
        scope=fields["scope"].text(),
        code=_code(fields["code"], span),
        sha256=sha256,
        permalink=link,
        link_kind=kind,
        file=file_here(project, path, sha256),
    )


def _span(node: Node) -> Span:
    line, column, end_line, end_column = (part.whole() for part in node.some(4))
    if line < 1 or (end_line, end_column) <= (line, column):
        raise node.wrong("saved.expected_span")
    return Span(line, column, end_line, end_column)


def _code(node: Node, span: Span) -> str:
    """Return the expression at ``span``; raises InputError where it has not that many lines and columns."""
    code = node.code()
    rows = _LINE_END.split(code)
    end = len(rows[-1]) + (span.column if len(rows) == 1 else 0)
    if (span.line + len(rows) - 1, end) != (span.end_line, span.end_column):
        raise node.wrong("saved.expected_code")
    return code


def _token(node: Node) -> Token:
    id, data, text = node.some(3)
    return Token(id.whole(), bytes.fromhex(data.text(_HEX)), text.optional(lambda found: found.text(free=True)))


def _model(node: Node) -> ModelFacts:
    sizes = ("layers", "heads", "kv_heads", "head_dim", "hidden_size", "max_positions")
    fields = node.fields(*sizes, "layer_type", "window", "norm_eps", "rope")
    numbers = {name: fields[name].whole(1) for name in sizes}
    if numbers["heads"] % numbers["kv_heads"]:
        raise fields["kv_heads"].wrong("saved.expected_divisor", heads=numbers["heads"])
    return ModelFacts(
        **numbers,
        layer_type=fields["layer_type"].text(),
        window=fields["window"].optional(lambda found: found.whole(1)),
        norm_eps=fields["norm_eps"].number(),
        rope=MappingProxyType({name: decode(value) for name, value in fields["rope"].entries()}),
    )


def _request(node: Node, tokens: tuple[Token, ...], model: ModelFacts) -> Request:
    choices = ("engine", "kernel", "device", "dtype")
    fields = node.fields("layer", "head", "query", *choices)
    if not tokens:
        raise node.wrong("saved.expected_tokens")
    return Request(
        layer=fields["layer"].whole(0, model.layers - 1),
        head=fields["head"].whole(0, model.heads - 1),
        query=fields["query"].optional(lambda found: found.whole(0, len(tokens) - 1)),
        token_ids=tuple(token.id for token in tokens),
        **{name: _choice(fields[name]) for name in choices},
    )


def _choice(node: Node) -> Choice:
    fields = node.fields("value", "reason")
    return Choice(fields["value"].text(), decode_message(fields["reason"]))


def _checkpoint(node: Node) -> CheckpointFacts:
    fields = node.fields("name", "revision", "dtype", "config_sha256", "headers_sha256", "tied")
    return CheckpointFacts(
        name=fields["name"].text(free=True),
        revision=fields["revision"].optional(lambda found: found.text()),
        dtype=fields["dtype"].text(),
        config_sha256=fields["config_sha256"].text(_SHA256),
        headers_sha256=fields["headers_sha256"].text(_SHA256),
        tied=fields["tied"].boolean(),
    )


def _lineage(node: Node, sites: tuple[Site, ...]) -> Lineage:
    fields = node.fields("value", "expression", "hops")
    hops = tuple(_hop(hop, sites) for hop in fields["hops"].items())
    return Lineage(_followed(fields["value"]), fields["expression"].code(), hops)


def _hop(node: Node, sites: tuple[Site, ...]) -> Hop:
    fields = node.fields("site", "binds", "linked", "seen", "value", "same_object")
    return Hop(
        site=_site_of(fields["site"], sites),
        binds=fields["binds"].code(),
        linked=fields["linked"].boolean(),
        seen=fields["seen"].boolean(),
        value=_followed(fields["value"]),
        same_object=fields["same_object"].optional(Node.boolean),
    )


def _followed(node: Node) -> float | bool | None:
    value = decode(node)
    if value is not None and not isinstance(value, float | bool):
        raise node.wrong("saved.expected_followed")
    return value


def _site_of(node: Node, sites: tuple[Site, ...]) -> Site:
    return sites[node.whole(0, len(sites) - 1)]


def _kernel(node: Node, sites: tuple[Site, ...], tensors: Mapping[str, Array]) -> KernelCall:
    fields = node.fields(*_KERNEL)
    return KernelCall(
        function=fields["function"].text(),
        provider=fields["provider"].text(),
        arguments=MappingProxyType({name: decode(value) for name, value in fields["arguments"].entries()}),
        site=_site_of(fields["site"], sites),
        output=_tensor(node, KERNEL_OUTPUT, tensors),
        lse=tensors.get(KERNEL_LSE),
    )


def _captures(node: Node, sites: tuple[Site, ...], tensors: Mapping[str, Array]) -> Mapping[str, Capture]:
    found: dict[str, Capture] = {}
    for item in node.items():
        fields = item.fields("name", "symbol", "axes", "formula", "site")
        name = fields["name"].text(_TENSOR)
        if name in found:
            raise item.wrong("saved.expected_once", name=name)
        found[name] = Capture(
            name=name,
            symbol=fields["symbol"].text(),
            axes=tuple(axis.text() for axis in fields["axes"].items()),
            array=_tensor(item, name, tensors),
            site=_site_of(fields["site"], sites),
            formula=fields["formula"].text(),
        )
    return MappingProxyType(found)


def _effects(node: Node, model: ModelFacts, length: int, tensors: Mapping[str, Array]) -> Effects:
    fields = node.fields("untraced_same", "changed", "heads")
    heads = tuple(head.whole(0, model.heads - 1) for head in fields["heads"].items())
    if len(set(heads)) != len(heads):
        raise fields["heads"].wrong("saved.expected_different")
    return Effects(
        untraced_same=fields["untraced_same"].boolean(),
        changed=tuple(_changed(row, length) for row in fields["changed"].items()),
        eager=_tensor(node, EAGER, tensors),
        eager_heads=heads,
    )


def _changed(node: Node, length: int) -> tuple[int, int | None, bool]:
    t, row, moved = node.some(3)
    position = t.whole(0, length - 1)
    return position, row.optional(lambda found: found.whole(0, position - 1)), moved.boolean()


def _tensor(node: Node, name: str, tensors: Mapping[str, Array]) -> Array:
    if name not in tensors:
        raise node.wrong("saved.expected_tensor", name=name)
    return tensors[name]
