"""The terminal page as an HTML fragment, for notebooks. Every text is escaped; links lead upstream only.

Must not know: traces.
"""

from dataclasses import replace
from html import escape

from tracer.page.record import Page
from tracer.render.terminal.render import lines
from tracer.render.terminal.screen import Screen
from tracer.render.terminal.strips import Part

_FRAME = '<pre style="line-height:1.25;overflow-x:auto;white-space:pre;font-family:{fonts}">{body}</pre>'
_FONTS = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono','Noto Sans Mono CJK SC',monospace"


def fragment(page: Page, screen: Screen) -> str:
    """Return ``page`` as one ``<pre>`` element that carries its own colours."""
    upstream = replace(screen, links=True, local_links=False)
    body = "\n".join("".join(_part(part) for part in strip) for strip in lines(page, upstream))
    return _FRAME.format(fonts=escape(_FONTS, quote=True), body=body)


def _part(part: Part) -> str:
    text, look = escape(part.text, quote=True), part.style.get_html_style()
    if part.address is not None:
        return f'<a href="{escape(part.address, quote=True)}" style="{escape(look, quote=True)}">{text}</a>'
    return f'<span style="{escape(look, quote=True)}">{text}</span>' if look else text
