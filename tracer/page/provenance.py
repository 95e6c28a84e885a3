"""Which source files a page speaks of: their hashes, and where the same bytes stand upstream.

Must not know: what is written in them.
"""

from tracer.page.header import ref
from tracer.page.record import Column, Link, Piece, Role, Row, Section, Table, line
from tracer.page.wording import Words, file_name, muted
from tracer.records import LayerTrace, Site
from tracer.source import pins

_SHOWN = 12


def sources(say: Words, layer: LayerTrace) -> Section:
    """Return the files, each with the beginning of its sha256 and its address upstream, or that there is none."""
    rows = tuple(_row(say, site) for site in _one_a_file(layer))
    columns = (Column(say("column_file")), Column(), Column(say("column_pin")), Column(say("column_upstream")))
    return Section("sources", "", line(say("sources_heading")), (Table(columns, rows),))


def _one_a_file(layer: LayerTrace) -> list[Site]:
    sites = [capture.site for capture in layer.captures.values()]
    sites += [layer.kernel.site, *(hop.site for path in (layer.scale, layer.causal) for hop in path.hops)]
    files: dict[tuple[str, str], Site] = {}
    for site in sites:
        known = files.get((site.path, site.sha256))
        if known is None or (known.permalink is None and site.permalink is not None):
            files[site.path, site.sha256] = site
    return list(files.values())


def _row(say: Words, site: Site) -> Row:
    address = site.permalink.partition("#")[0] if site.permalink else None
    pin = say(f"pin_{site.link_kind}", ref=ref(site.permalink)[:_SHOWN])
    known = pins.lookup(site.sha256) if site.permalink else None
    if known is not None and known.same_until_line is not None:
        pin = say("pin_until", pin=pin, line=known.same_until_line)
    here = site.file if site.file.is_absolute() else None
    upstream = line(Piece(address, Role.PLACE, Link(None, 1, address))) if address else ()
    name = Piece(file_name(site), Role.PLACE, Link(here, 1, None))
    return Row((line(name), muted(f"sha256 {site.sha256[:_SHOWN]}"), muted(pin), upstream))
