"""The top of the page: what ran, on what, by which code, and how its checks ended.

Must not know: the steps, the numbers.
"""

from collections.abc import Sequence

from tracer.names import LONG_DTYPES, spans
from tracer.page import tokens
from tracer.page.record import Facts, Line, Piece, Role, Section, line
from tracer.page.wording import Words, muted
from tracer.records import Check, LayerTrace, Status
from tracer.texts import Message

MARKS = {Status.PASS: ("✓", Role.PASS), Status.FAIL: ("✗", Role.FAIL), Status.NOT_TESTABLE: ("?", Role.UNTESTED)}
_LONGEST_PROMPT = 40


def verdict(say: Words, checks: tuple[Check, ...]) -> Line:
    """Return in one line how the checks ended."""
    counts = {status: sum(check.status is status for check in checks) for status in Status}
    ended = [status for status in (Status.FAIL, Status.PASS, Status.NOT_TESTABLE) if counts[status]]
    parts: list[Piece] = []
    for status in ended:
        mark, role = MARKS[status]
        text = say(f"verdict_{status}" if len(ended) > 1 else f"verdict_all_{status}", count=counts[status])
        parts += [Piece("  ")] if parts else []
        parts.append(Piece(f"{mark} {text}", role))
    return tuple(parts)


def warned(say: Words, count: int) -> Line:
    """Return how many warnings the page has, to stand beside the verdict; empty where none."""
    return line(Piece(f"  ! {say.count('warned', count)}", Role.WARNING)) if count else ()


def ran(say: Words, layer: LayerTrace, layers: Sequence[LayerTrace] = ()) -> Section:
    """Return what ran: checkpoint, prompt, engine, kernel and why, dtype and device.

    ``layers``: all layers of a page of several, of which ``layer`` is the first; each kind of layer is told of once.
    """
    rows = [
        ("checkpoint", _checkpoint(say, layer)),
        *(("layer", each) for each in (_kinds(say, layers) if len(layers) > 1 else (_layer(say, layer),))),
        ("prompt", _prompt(say, layer)),
        ("engine", _engine(say, layer)),
        (
            "kernel",
            _chosen(say, f"{layer.request.kernel.value} ({layer.kernel.provider})", layer.request.kernel.reason),
        ),
        ("numbers", _numbers(say, layer)),
    ]
    return Section("ran", "", (), (Facts(tuple((muted(say(f"fact_{name}")), value) for name, value in rows)),))


def _checkpoint(say: Words, layer: LayerTrace) -> Line:
    facts, model = layer.checkpoint, layer.model
    revision = f"@{facts.revision}" if facts.revision else ""
    size = say("model_size", layers=model.layers, heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_dim)
    return line(Piece(f"{facts.name}{revision}", Role.STRONG), "  ", *muted(size))


def _layer(say: Words, layer: LayerTrace) -> Line:
    model = layer.model
    seen = say("layer_full") if model.window is None else say("layer_sliding", window=model.window)
    return line(Piece(model.layer_type, Role.STRONG), "  ", *muted(seen))


def _kinds(say: Words, layers: Sequence[LayerTrace]) -> tuple[Line, ...]:
    kinds: dict[tuple[str, int | None], list[LayerTrace]] = {}
    for each in layers:
        kinds.setdefault((each.model.layer_type, each.model.window), []).append(each)
    lines = []
    for alike in kinds.values():
        name = "layers_of_kind" if len(alike) > 1 else "layers_of_kind_one"
        which = say(name, layers=spans([each.request.layer for each in alike]))
        lines.append(line(which, *_layer(say, alike[0])))
    return tuple(lines)


def _prompt(say: Words, layer: LayerTrace) -> Line:
    groups = [group for group in tokens.groups(layer.tokens) if group.last < _LONGEST_PROMPT]
    pieces: list[Piece] = []
    for group in groups:
        pieces += [Piece(group.text, Role.TOKEN), Piece("│", Role.MUTED)]
    more = len(layer.tokens) - (groups[-1].last + 1 if groups else 0)
    end = [Piece(say("more_tokens", count=more), Role.MUTED)] if more > 0 else []
    count = Piece(say.count("token_count", len(layer.tokens)), Role.STRONG)
    return line(count, "  ", *pieces[:-1], *end, *_cached(say, layer))


def _cached(say: Words, layer: LayerTrace) -> Line:
    """Return how much of the prompt lay in a cache, and where queries begin; empty where none did."""
    if not layer.cached:
        return ()
    last = len(layer.tokens) - 1
    if layer.kernel.function.endswith("with_kvcache"):
        name = "prompt_decode"
    else:
        name = "prompt_cached_one" if layer.cached == last else "prompt_cached"
    return muted("  " + say(name, cached=layer.cached, last=last))


def _engine(say: Words, layer: LayerTrace) -> Line:
    name = layer.request.engine.value
    version = layer.versions.get(name, "")
    reason = say.of(layer.request.engine.reason)
    return line(Piece(f"{name} {version}".strip(), Role.STRONG), "  ", *muted(f"{reason} · {links(say, layer)}"))


def links(say: Words, layer: LayerTrace) -> str:
    """Return what the page's upstream links point to: an exact commit, a tag, or nothing."""
    sites = [capture.site for capture in layer.captures.values()]
    sites += [hop.site for path in (layer.scale, layer.causal) for hop in path.hops]
    kinds = {(site.link_kind, ref(site.permalink)) for site in sites}
    return " · ".join(say(f"links_{kind}", ref=ref) for kind, ref in sorted(kinds))


def ref(permalink: str | None) -> str:
    """Return the commit or tag of a link ``https://host/owner/name/blob/REF/path``."""
    return permalink.split("/blob/", 1)[-1].split("/", 1)[0] if permalink else ""


def _numbers(say: Words, layer: LayerTrace) -> Line:
    dtype = layer.request.dtype
    name = LONG_DTYPES.get(dtype.value, dtype.value)
    what = Piece(say("dtype_on_device", dtype=name, device=layer.request.device.value), Role.STRONG)
    return line(what, "  ", *muted(say.of(dtype.reason)))


def _chosen(say: Words, what: str, reason: Message) -> Line:
    return line(Piece(what, Role.STRONG), "  ", *muted(say.of(reason)))
