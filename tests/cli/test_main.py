"""The process around the commands: errors to exit codes, faults without a traceback, interruption, streams."""

import gc
import io
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tracer import texts
from tracer.cli import collector, main, streams
from tracer.cli.app import ROOT
from tracer.errors import InputError, Unsupported
from tracer.texts import message

Trace = Callable[..., Any]


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def invoke(ctx: object) -> int:
        raise error

    monkeypatch.setattr(ROOT, "invoke", invoke)


def test_bad_input_ends_with_2_and_the_unsupported_with_3(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(InputError("cli.chat_with_tokens"), monkeypatch)
    assert trace("qwen3").code == 2
    failing(Unsupported("cli.chat_with_tokens"), monkeypatch)
    ended = trace("qwen3")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("error: --chat puts text")


def test_a_fault_of_the_tool_is_confessed_without_a_traceback(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(RuntimeError("[/red]\x1b[31mboom"), monkeypatch)
    ended = trace("qwen3")
    assert (ended.code, ended.out) == (3, "")
    assert "Traceback" not in ended.err
    assert r"a fault of tracer itself, not of what you asked for: RuntimeError: [/red]\x1b[31mboom" in ended.err
    assert "Set TRACER_DEBUG=1 and run the same command again" in ended.err
    assert "这是 tracer 自身的问题" in trace("--lang", "zh", "qwen3").err


def test_a_developer_gets_the_traceback(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(RuntimeError("boom"), monkeypatch)
    monkeypatch.setenv("TRACER_DEBUG", "1")
    ended = trace("qwen3")
    assert ended.code == 3
    assert "Traceback (most recent call last)" in ended.err
    assert "test_main.py" in ended.err


def test_a_fault_while_an_error_is_told_is_confessed_too(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(InputError("cli.did_you_mean"), monkeypatch)  # without the words that its text asks for
    ended = trace("qwen3")
    assert ended.code == 3
    assert "a fault of tracer itself, not of what you asked for: KeyError: 'words'" in ended.err


def test_an_installation_without_texts_still_says_so(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_of_file", lambda stem: {})
    ended = trace("qwen3", "--layer")
    assert ended.code == 3
    assert ended.err.startswith("tracer: MissingText: no text 'cli.")


def test_an_interruption_ends_with_130(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(KeyboardInterrupt(), monkeypatch)
    ended = trace("qwen3")
    assert (ended.code, ended.out) == (130, "")
    assert ended.err == "Interrupted. No file was left half-written.\n"


def test_a_reader_who_left_is_no_error(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(BrokenPipeError(), monkeypatch)
    ended = trace("qwen3")
    assert (ended.code, ended.out, ended.err) == (0, "", "")


class Terminal(io.TextIOWrapper):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


def terminal(encoding: str = "utf-8") -> Terminal:
    return Terminal(io.BytesIO(), encoding=encoding, write_through=True)


def written(stream: Terminal) -> str:
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode(stream.encoding)


def test_the_cursor_comes_back_after_an_interruption(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(KeyboardInterrupt(), monkeypatch)
    stream = terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert trace("qwen3").code == 130
    assert "\x1b[?25h" in written(stream)


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb", "NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colours_only_where_they_are_welcome(
    environment: dict[str, str], colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    streams.complain(message("cli.choose_one"), "en")
    assert ("\x1b[" in written(stream)) is colours


def test_a_pipe_gets_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert not streams.colour(io.StringIO())


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "gbk", "utf-8"])
def test_no_encoding_makes_the_output_crash(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = terminal(encoding), terminal(encoding)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    streams.prepare()
    streams.answer("S = QKᵀ·scale → 中文 \udcff\n")
    streams.say("≤ … √")
    assert "scale" in written(out)
    if encoding == "ascii":
        assert written(out).endswith("S = QK^T.scale -> \\u4e2d\\u6587 \\udcff\n")
        assert written(err).endswith("<= ... sqrt\n")


def test_the_locale_gives_way_to_an_encoding_without_chinese(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "zh_CN")
    monkeypatch.setattr(sys, "stdout", terminal("cp1252"))
    assert trace("--layer").err.startswith("error: ")


def test_asked_for_chinese_is_kept_with_a_note(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal("ascii"))
    err = trace("--lang", "zh", "--layer").err
    assert err.startswith("note: this terminal's encoding (ascii) has no Chinese characters")
    assert "错误：" in err


def test_closed_streams_are_no_reason_to_crash(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert trace("--help").code == 2
    assert trace("--nonsense").code == 2


def test_an_answer_that_nobody_can_be_given_is_told(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    ended = trace("--help")
    sentence = "The answer could not be written: standard output is closed. Write it to a file with --output."
    assert (ended.code, ended.err) == (2, f"error: {sentence}\n")
    assert "标准输出已关闭" in trace("--help", "--lang", "zh").err


def test_progress_is_one_line_on_a_terminal_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    progress = streams.Progress("en", verbose=False)
    progress(message("cli.choose_one"))
    progress.done()
    assert written(stream) == "\r\x1b[2KChoose one of them.\r\x1b[2K"


def test_progress_in_a_pipe_is_silent_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    quiet, verbose = (streams.Progress("en", verbose) for verbose in (False, True))
    quiet(message("cli.choose_one"))
    quiet.done()
    assert capsys.readouterr().err == ""
    verbose(message("cli.choose_one"))
    assert capsys.readouterr().err == "Choose one of them.\n"


def test_the_collector_is_held_and_released_once() -> None:
    assert gc.isenabled()
    before = gc.get_freeze_count()
    try:
        collector.release()
        assert gc.get_freeze_count() == before  # it was not held
        collector.hold()
        assert not gc.isenabled()
        collector.release()
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize(("chosen", "had"), [(None, "passive"), ("active", "active")])
def test_torchs_threads_sleep_where_they_wait_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, had: str
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", chosen or "")
    if chosen is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    for module, names in ((main.collector, ("hold", "leave")), (main.interrupt, ("listen", "ended"))):
        for name in names:
            monkeypatch.setattr(module, name, lambda: None)
    seen: list[str | None] = []
    monkeypatch.setattr(main, "run", lambda arguments: seen.append(os.environ.get("OMP_WAIT_POLICY")) or 0)
    with pytest.raises(SystemExit):
        main.main()
    assert seen == [had]
