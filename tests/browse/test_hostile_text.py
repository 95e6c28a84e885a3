"""Text from outside on the screen: source code, file names, tokens and versions are shown, and nothing in them acts."""

from dataclasses import replace

import browse_support
import pytest
from browse_support import TRANSFORMERS, browse, press, screen, shelf
from textual.pilot import Pilot

from tracer.browse.app import BrowseApp
from tracer.browse.books import Shelf
from tracer.records import LayerTrace, Token

EVIL = "[bold red]x[/] [@click=app.quit]y[/] \x1b[2J\x1b]8;;http://x\x07\x9b31m\u202e\u2066\u200d\ufeff"


def dressed(layer: LayerTrace) -> LayerTrace:
    """The trace with every word that comes from outside replaced."""
    tokens = tuple(Token(token.id, EVIL.encode(), EVIL) for token in layer.tokens)
    kernel = replace(layer.kernel, provider=EVIL, function=EVIL)
    named = replace(layer.checkpoint, name=EVIL)
    return replace(layer, tokens=tokens, kernel=kernel, checkpoint=named, versions={**layer.versions, "torch": EVIL})


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    source = TRANSFORMERS["model"].replace("def forward", f"# {EVIL}\n            def forward", 1)
    assert EVIL in source
    monkeypatch.setitem(TRANSFORMERS, "model", source)
    own = browse_support.invented
    monkeypatch.setattr(browse_support, "invented", lambda: dressed(own()))
    return shelf(traced=True)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_nothing_in_the_code_or_the_trace_acts_on_the_screen(hostile: Shelf, language: str) -> None:
    seen: list[str] = []

    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        for key in (
            "",
            "up",
            "up",
            "up",
            "right_square_bracket",
            "n",
            "b",
            "b",
            "slash",
            "escape",
            "l",
            "question_mark",
        ):
            await press(app, pilot, *([key] if key else []))
            seen.append(screen(app))

    app = browse(act, (140, 40), language, on=hostile)
    assert app.fault is None
    for shown in seen:
        assert all(character.isprintable() or character == "\n" for character in shown), ascii(shown)
    assert any("[bold red]x[/] [@click=app.quit]y[/]" in shown for shown in seen)  # as it is written
