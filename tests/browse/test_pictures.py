"""Pictures of the whole screen, as text, beside this file in ``pictures/``.

After a change that is meant, write them anew and read the difference before it is committed:

    TRACER_RENEW_PICTURES=1 pytest tests/browse/test_pictures.py && git diff tests/browse/pictures
"""

import os
from pathlib import Path

import pytest
from browse_support import browse, press, screen
from rich.cells import cell_len
from textual.pilot import Pilot

from tracer.browse.app import BrowseApp

PICTURES = Path(__file__).parent / "pictures"
SCENES: dict[str, tuple[str, ...]] = {
    "start": (),
    "on_the_way": ("N", "right_square_bracket"),
    "beside": ("b",),
    "search": ("slash", *"scale"),
}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("size", [(80, 24), (160, 45)], ids=["80x24", "160x45"])
@pytest.mark.parametrize("scene", SCENES)
def test_the_screen_is_as_in_its_picture(scene: str, size: tuple[int, int], language: str) -> None:
    shown = ""

    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        nonlocal shown
        await press(app, pilot, *SCENES[scene])
        shown = screen(app)

    browse(act, size, language, traced=True)
    lines = shown.splitlines()
    assert len(lines) == size[1]
    assert max(map(cell_len, lines)) <= size[0]
    picture = PICTURES / f"{scene}-{size[0]}x{size[1]}-{language}.txt"
    if os.environ.get("TRACER_RENEW_PICTURES"):
        picture.parent.mkdir(exist_ok=True)
        picture.write_text(shown, encoding="utf-8")
    assert shown == picture.read_text(encoding="utf-8")


def test_a_mark_is_more_than_a_colour() -> None:
    """What is explained is underlined and has a sign in the margin; the chosen one is bold."""

    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        view = app.query_one("#source")
        row = next(strip for strip in map(view.render_line, range(5, 8)) if "q_proj" in strip.text)
        assert row.text.startswith("●")
        (chosen,) = {s.style for s in row if s.text == "q_proj" or "q_proj" in s.text}
        assert chosen is not None
        assert chosen.underline
        assert chosen.bold

    browse(act)
