"""Excerpts show the real lines with true numbers, or where the file is another one only what was traced."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.invented_trace import site
from tracer.page.excerpts import Pointed, excerpt
from tracer.records import Site, Span

SOURCE = """\
class Attention:
    def forward(self, x):
        q = self.norm(self.q(x).view(-1))
        k = self.k(x)

        return call(
            q,
            k,
        )
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "model.py"
    place.write_text(SOURCE, encoding="utf-8")
    return place


def here(file: Path, span: Span, code: str) -> Site:
    sha256 = hashlib.sha256(SOURCE.encode()).hexdigest()
    return replace(site(span.line, code), span=span, file=file, sha256=sha256)


def test_lines_are_the_files_own_without_their_common_indentation(file: Path) -> None:
    inner = here(file, Span(3, 22, 3, 31), "self.q(x)")
    outer = here(file, Span(3, 12, 3, 41), "self.norm(self.q(x).view(-1))")
    (row,) = excerpt([Pointed(inner, "1 project"), Pointed(outer, "2 normalise")]).lines
    assert (row.number, row.text) == (3, "q = self.norm(self.q(x).view(-1))")
    assert [row.text[mark.start : mark.end] for mark in row.marks] == ["self.q(x)", "self.norm(self.q(x).view(-1))"]
    assert [mark.label for mark in row.marks] == ["1 project", "2 normalise"]


def test_lines_in_between_are_left_out_visibly(file: Path) -> None:
    first = Pointed(here(file, Span(1, 6, 1, 15), "Attention"), "a")
    second = Pointed(here(file, Span(4, 12, 4, 21), "self.k(x)"), "b")
    assert [(row.number, row.text) for row in excerpt([first, second]).lines] == [
        (1, "class Attention:"),
        (0, "⋮"),
        (4, "        k = self.k(x)"),
    ]


def test_an_expression_of_several_lines_is_marked_on_each_and_labelled_once(file: Path) -> None:
    rows = excerpt([Pointed(here(file, Span(6, 15, 9, 9), "call(\n…)"), "4 call")]).lines
    assert [row.number for row in rows] == [6, 7, 8, 9]
    assert [row.text[row.marks[0].start : row.marks[0].end] for row in rows] == ["call(", "q,", "k,", ")"]
    assert [row.marks[0].label for row in rows] == ["4 call", "", "", ""]


def test_a_file_that_changed_since_is_not_quoted(file: Path) -> None:
    traced = here(file, Span(3, 22, 3, 31), "self.q(x)")
    file.write_text(SOURCE.replace("self", "this"), encoding="utf-8")
    (row,) = excerpt([Pointed(traced, "1 project")]).lines
    assert (row.number, row.text, row.marks[0].start) == (3, "self.q(x)", 0)


def test_without_the_file_an_expression_inside_another_is_marked_there(tmp_path: Path) -> None:
    inner = here(tmp_path / "gone.py", Span(3, 22, 3, 31), "self.q(x)")
    outer = here(tmp_path / "gone.py", Span(3, 12, 3, 41), "self.norm(self.q(x).view(-1))")
    (row,) = excerpt([Pointed(inner, "1"), Pointed(outer, "2")]).lines
    assert row.text == "self.norm(self.q(x).view(-1))"
    assert [row.text[mark.start : mark.end] for mark in row.marks] == ["self.q(x)", "self.norm(self.q(x).view(-1))"]


def test_the_place_is_a_link_to_the_file_and_upstream(file: Path) -> None:
    traced = here(file, Span(3, 22, 3, 31), "self.q(x)")
    link = excerpt([Pointed(traced, "1")]).place[0].link
    assert link is not None
    assert (link.file, link.line, link.url) == (file, 3, traced.permalink)
