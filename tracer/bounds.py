"""Refuse a layer, a head or a query that is not there, with the range of those that are.

Must not know: who asked.
"""

from tracer.errors import InputError


def check_layer(layer: int, layers: int) -> None:
    """Raise InputError, which says the range, where a model of so many ``layers`` has no layer ``layer``."""
    if not 0 <= layer < layers:
        raise InputError(_told("checkpoint.layer_range", layers), layer=layer, last=layers - 1)


def check_head(head: int, heads: int) -> None:
    """Raise InputError, which says the range, where a layer of so many query ``heads`` has no head ``head``."""
    if not 0 <= head < heads:
        raise InputError(_told("checkpoint.head_range", heads), head=head, last=heads - 1)


def check_query(query: int | None, tokens: int, cached: int = 0) -> None:
    """Raise InputError, which says the range, where a prompt of so many ``tokens`` has no query ``query``: the
    ``cached`` ones before have none. None asks for no query."""
    if query is not None and not 0 <= query < tokens:
        raise InputError(_told("pipeline.query_range", tokens), query=query, last=tokens - 1)
    if query is not None and query < cached:
        id = _told("pipeline.query_cached", tokens - cached)
        raise InputError(id, query=query, first=cached, last=tokens - 1)


def _told(id: str, count: int) -> str:
    return f"{id}_one" if count == 1 else id
