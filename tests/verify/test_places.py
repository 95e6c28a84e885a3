"""Where an expression is written, in whatever shape a user's own file has."""

import pytest

from tracer.source.text import Text
from tracer.verification.places import find_in

PATTERN = "attention_interface(..., scaling=HERE)"
PLAIN = '''class Attention(Base):
    """What it does."""

    def forward(self, x):
        return attention_interface(x, scaling=self.scaling)
'''


def indented(source: str, by: str) -> str:
    return "".join(by + line if line.strip() else line for line in source.splitlines(keepends=True))


@pytest.mark.parametrize(
    "source",
    [
        PLAIN,
        "try:\n" + indented(PLAIN, "    ") + "except ImportError:\n    pass\n",
        "if flag:\n" + indented(PLAIN, "  ") + "else:\n    Attention = None\n",
        "if flag:\n    try:\n" + indented(PLAIN, "        ") + "    finally:\n        pass\n",
        "if flag:\n" + indented(PLAIN, "\t"),
        "try:\n    pass\nexcept ValueError:\n" + indented("@registered(\n    'a'\n)\n" + PLAIN, "    "),
        "with context:\n" + indented(PLAIN, "    "),
    ],
    ids=["plain", "try", "if", "nested", "tab", "decorated", "with"],
)
def test_a_class_under_another_statement_is_searched_in_its_own_columns(source: str) -> None:
    (found,) = find_in(source, "Attention.forward", PATTERN)
    assert Text.of(source).code(found) == "self.scaling"


def test_text_that_stands_further_left_than_its_class_keeps_its_columns() -> None:
    source = (
        "if flag:\n"
        "    class Attention:\n"
        "        def forward(self, x):\n"
        "            text = '''\n"
        "left of the class\n"
        "  a little\n"
        "'''; y = attention_interface(x, scaling=1)\n"
        "# a comment at the margin\n"
        "            return attention_interface(x, (\n"
        "3), scaling=(2 *\n"
        "  self.scaling))\n"
    )
    first, second = find_in(source, "Attention.forward", PATTERN)
    text = Text.of(source)
    assert text.code(first) == "1"
    assert text.code(second).split() == ["2", "*", "self.scaling"]


def test_a_function_under_an_if_inside_a_method_is_found() -> None:
    source = (
        "class A:\n    if flag:\n        def forward(self, x):\n            return attention_interface(x, scaling=7)\n"
    )
    (found,) = find_in(source, "A.forward", PATTERN)
    assert Text.of(source).code(found) == "7"


@pytest.mark.parametrize("source", ["", "class A(:\n", "\0", PLAIN.replace("Attention", "Other")])
def test_what_is_not_there_is_not_found(source: str) -> None:
    assert find_in(source, "Attention.forward", PATTERN) == ()


def test_syntax_that_only_python_itself_can_read_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    import libcst

    from tracer.verification import places

    def refuse(text: str) -> None:
        libcst.parse_module("class :")

    monkeypatch.setattr(places, "_parsed", refuse)
    assert find_in(f"{PLAIN}# not found before\n", "Attention.forward", PATTERN) == ()
