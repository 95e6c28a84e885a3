"""Every colour can be read on a light background and on a dark one."""

import pytest
from rich.color import Color
from rich.style import Style

from tracer.page.record import Role
from tracer.render.terminal.palette import HEAT, ROLES, heat


def luminance(color: Color) -> float:
    """Return the relative luminance of WCAG 2."""
    parts = [value / 255 for value in color.get_truecolor()]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@pytest.mark.parametrize("role", list(Role))
def test_a_role_reads_on_black_and_on_white(role: Role) -> None:
    color = ROLES[role].color
    if color is not None:
        assert contrast(luminance(color), 0.0) >= 3.8
        assert contrast(luminance(color), 1.0) >= 3.8


@pytest.mark.parametrize("level", [start for start, _, _ in HEAT])
def test_a_cells_letters_read_on_its_own_background(level: float) -> None:
    style: Style = heat(level)
    assert style.color is not None
    assert style.bgcolor is not None
    assert contrast(luminance(style.color), luminance(style.bgcolor)) >= 3.5


@pytest.mark.parametrize(("level", "expected"), [(0.0, None), (0.049, None), (0.05, HEAT[0][1]), (1.0, HEAT[-1][1])])
def test_more_weight_has_a_stronger_colour(level: float, expected: int | None) -> None:
    background = heat(level).bgcolor
    assert (background.number if background else None) == expected
