"""Words from outside (tokens, names, code, command lines) made up by Hypothesis: inert wherever they are shown."""

import json
import platform
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem

from tests.cli.conftest import LOCALE
from tests.fuzz.conftest import examples
from tests.fuzz.strategies import HOSTILE, texts
from tests.fuzz.watch import harmless
from tests.invented_trace import invented
from tests.render.html.test_file import Elements
from tracer.checkpoint.characters import joined, text_of, token_bytes
from tracer.checkpoint.wording import listed, shown
from tracer.cli.inert import sentence
from tracer.cli.main import run
from tracer.page.report import report
from tracer.page.visible import token_text, visible
from tracer.records import LayerTrace, Token
from tracer.render import json_text
from tracer.render.html.render import render as html
from tracer.render.json import to_json
from tracer.render.terminal.screen import Screen
from tracer.render.text import head_text
from tracer.result import look_at
from tracer.texts import LANGUAGES, message

# What a terminal page may hold beside characters that print: its own colours and links.
OWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^;\x1b\x07]*;[^\x1b\x07]*\x1b\\|\n")
BYTES = st.one_of(st.binary(max_size=6), texts.map(lambda text: text.encode("utf-8", "surrogatepass")[:200]))
WORDS = """
qwen3 --layer --head --layers --tokens --prompt --prompt-file --checkpoint --format json --query
--lang zh --kernel --device --dtype --help --version -- show diff lint browse 0 0..3 1,2 -1 --layer=
--all /nowhere/at/all --no-such
""".split()  # noqa: SIM905 - a word a line would fill a page


def said(text: str) -> None:
    """Nothing but characters that print, each in a line."""
    assert all(character.isprintable() or character == "\n" for character in OWN.sub("", text)), ascii(text)


@settings(max_examples=examples(400))
@given(st.lists(BYTES, max_size=8))
def test_tokens_are_grouped_without_loss(parts: list[bytes]) -> None:
    tokens = [Token(index, data, text_of(data)) for index, data in enumerate(parts)]
    groups = joined(tokens)
    assert (
        [first for first, _, _ in groups] == [0, *(last + 1 for _, last, _ in groups[:-1])] if tokens else groups == []
    )
    assert all(before[1] + 1 == after[0] for before, after in pairwise(groups))
    for first, last, text in groups:
        data = b"".join(token.bytes for token in tokens[first : last + 1])
        assert text is None or text.encode("utf-8") == data
        assert text is not None or first == last


@settings(max_examples=examples(300))
@given(texts)
def test_a_token_is_written_in_byte_level_characters_or_not_at_all(written: str) -> None:
    data = token_bytes(written)
    assert data is None or len(data) == len(written)


@settings(max_examples=examples(400))
@given(texts, texts)
def test_a_word_shown_is_inert(word: str, other: str) -> None:
    for text in (visible(word), token_text(word), shown(word), listed([word, other]), shown([word, {other: word}])):
        said(text)
        assert "\n" not in text
    for language in LANGUAGES:
        said(sentence(message("checkpoint.json_constant", file=word, found=other), language))


def dressed(words: list[str], parts: list[bytes]) -> LayerTrace:
    """An invented trace in which each word from outside is one of ``words``, each token one of ``parts``."""
    layer = invented(3)
    tokens = tuple(Token(index, data, text_of(data)) for index, data in enumerate(parts))
    site = replace(layer.kernel.site, code=words[0] or "x", scope=words[1], path=words[2], version=words[3])
    captures = {
        name: replace(one, site=replace(one.site, code=words[1] or "x")) for name, one in layer.captures.items()
    }
    return replace(
        layer,
        tokens=tokens,
        versions={**layer.versions, "torch": words[2]},
        checkpoint=replace(layer.checkpoint, name=words[3], revision=words[0]),
        kernel=replace(layer.kernel, site=site, function=words[1], provider=words[2]),
        captures=captures,
        scale=replace(layer.scale, expression=words[0]),
        warnings=(message("checkpoint.config_default", file=words[1], field=words[2], value=words[3]),),
    )


@settings(max_examples=examples(6))
@given(st.lists(texts, min_size=4, max_size=4), st.lists(BYTES, min_size=3, max_size=3), st.sampled_from(LANGUAGES))
def test_a_trace_of_hostile_words_is_inert_in_every_output(words: list[str], parts: list[bytes], language: str) -> None:
    traced = look_at(dressed(words, parts), 1)
    with harmless():
        terminal = head_text(traced, language, Screen(80, ColorSystem.TRUECOLOR, links=True), query=1)
        document = json_text.dumps(to_json(traced, language))
        page = html(report(traced, language, query=1))
    said(terminal)
    document.encode("utf-8")
    assert json.loads(document)["tokens"][0]["bytes"] == parts[0].hex()
    page.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", page)
    elements = Elements(page)
    assert (len(elements.inside["script"]), len(elements.inside["style"])) == (2, 1)
    assert {tag for tag, _ in elements.found} & {"img", "iframe", "object", "embed", "link", "base", "form"} == set()
    assert not any(name.startswith("on") or name in ("src", "style") for _, found in elements.found for name in found)
    assert all(address.startswith(("#", "https://github.com/")) for address in elements.attributes("href"))


@settings(max_examples=examples(400))
@given(words=st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(HOSTILE), texts), max_size=5))
def test_a_hostile_command_line_ends_in_a_sentence(words: list[str]) -> None:
    line = [word for word in words if word != "qwen3"]  # no model is run, nothing is to be written
    platform.platform()  # asks a program for the processor, once, whoever calls it
    _ended(["qwen3", "--layer", "9", *line])
    _ended(line)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (*LOCALE, "FORCE_COLOR", "TRACER_DEBUG", "_TRACE_COMPLETE"):
        monkeypatch.delenv(name, raising=False)
    global _capsys
    _capsys = capsys


_capsys: pytest.CaptureFixture[str]


def _ended(line: list[str]) -> None:
    with harmless():
        code = run(line)
    written = _capsys.readouterr()
    assert code in (0, 2, 3), line
    assert "fault of tracer" not in written.err, line
    assert "Traceback" not in written.err
    assert code == 0 or written.err.startswith(("error: ", "错误：", "note: ")), line
    said(written.err)
    if code == 0:
        said(written.out)
