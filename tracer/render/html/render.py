"""The report as one HTML file that asks nothing of any network: styles, script and data are inside it.

Nothing is computed here, and every text is escaped by the template engine. Must not know: traces.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from tracer.page.record import Role, Table
from tracer.page.sheet import Both, Plot, Report, both, joined
from tracer.render.html.code import stretches
from tracer.render.html.drawing import Axes, axes, cells
from tracer.texts import catalogue

_HERE = Path(__file__).parent
# In a data block these could end it, or be read as markup by something that looks at the text alone.
_ACTIVE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_INDICES = re.compile(r"\[[^\[\]<>]*\]")
_SHADE = ("y", "x", "w", "u", "", "a", "b", "c", "d")  # the class of a shade from −4 to 4


def render(report: Report) -> str:
    """Return the report as an HTML document."""
    style, script = (Markup(_asset(name)) for name in ("report.css", "report.js"))
    template = _environment().get_template("report.html.j2")
    return template.render(report=report, style=style, script=script, policy=_policy(style, script))


def _asset(name: str) -> str:
    return (_HERE / "static" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return the content security policy: nothing but this very style and this very script."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        kind=_kind,
        data=_data,
        shaded=_shaded,
        stacks=_stacks,
        stretches=stretches,
        cells=cells,
        axes=_axes,
        unbroken=_unbroken,
    )
    environment.globals.update(text=both, joined=joined, panel_texts=_panel_texts, Both=Both, zip=zip)
    return environment


def _kind(value: object) -> str:
    """Return what kind of record ``value`` is: the name of its class."""
    return type(value).__name__


def _unbroken(formula: Markup) -> Markup:
    """Return ``formula`` with the indices between brackets held together. Here, and not in the texts: what a page says
    has no character that hides, and spells out each one it is given."""
    return Markup(_INDICES.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), formula))


def _stacks(table: Table) -> bool:
    """Return whether the rows of ``table`` are read one below another where it is narrow: those that hold formulas."""
    return any(piece.role == Role.FORMULA for row in table.rows for cell in row.cells for piece in cell)


def _axes(plot: Plot) -> Axes:
    """Return axes that hold every point of ``plot``."""
    return axes([point for curve in plot.curves for point in curve.points])


def _data(value: Mapping[str, Any]) -> Markup:
    """Return ``value`` as JSON that is inert inside a script element."""
    return Markup(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ACTIVE))


def _shaded(texts: Sequence[str], shades: Sequence[int | None]) -> Markup:
    """Return a row of cells. They are tens of thousands: end tags, quotes and an absent class are left out."""
    return Markup("".join(_cell(text, shade) for text, shade in zip(texts, shades, strict=True)))


def _cell(text: str, shade: int | None) -> str:
    name = "" if shade is None else _SHADE[shade + 4]
    return f"<td class={name}>{escape(text)}" if name else f"<td>{escape(text)}"


def _panel_texts() -> dict[str, Both]:
    """Return what the script says in the panel of a cell, by name."""
    names = [id.removeprefix("report.") for id in catalogue() if id.startswith("report.panel_")]
    return {name: both(name, **_PLACEHOLDERS.get(name, {})) for name in names}


_PLACEHOLDERS: Mapping[str, Mapping[str, object]] = {
    "panel_others": {"count": "#"},
    "panel_digits": {"factors": "#1", "products": "#2", "results": "#3"},
}
