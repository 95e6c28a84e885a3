"""The quiz: rounding is forgiven, known slips are recognised and explained, and a reader may leave at any time."""

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracer.errors import InputError
from tracer.labs import answers, quiz
from tracer.labs.attention import solved
from tracer.labs.questions import Numeric, questions
from tracer.texts import LANGUAGES

RIGHT = ["0.7071, 0", "2.0281 1", "[0.6698, 0.3302]", "0.67, 0.66", "b", "c", "a"]


class Reader:
    """Answers one by one, and keeps what was said."""

    def __init__(self, *given: str) -> None:
        self._given = list(given)
        self.heard: list[str] = []

    def tell(self, text: str) -> None:
        self.heard.append(text)

    def ask(self, prompt: str) -> str | None:
        return self._given.pop(0) if self._given else None


def asked(*given: str, language: str = "en", **options: Any) -> tuple[quiz.Score, str]:
    reader = Reader(*given)
    score = quiz.run(solved(**options), options.get("query", 0), language, reader)
    return score, "\n".join(reader.heard)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.7071, 0", [0.7071, 0]),
        ("[0.5 0.5]", [0.5, 0.5]),
        ("1/√2；0", [1 / math.sqrt(2), 0]),
        ("√2/2 sqrt(2)", [math.sqrt(2) / 2, math.sqrt(2)]),
        ("1 / 4, −2", [0.25, -2]),
        ("67%，33%", [0.67, 0.33]),
        ("-inf ∞", [-math.inf, math.inf]),
        (".5 1e-3", [0.5, 0.001]),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, numbers: list[float]) -> None:
    assert answers.numbers(text) == pytest.approx(numbers)


@pytest.mark.parametrize("text", ["", "a", "1/0", "1//2", "--1", "0.5 and 0.5", "__import__('os')", "1e9999 x", "nan"])
def test_anything_else_is_no_number(text: str) -> None:
    assert answers.numbers(text) is None


def test_all_right_answers_are_right_in_every_language() -> None:
    for language in LANGUAGES:
        score, _ = asked(*RIGHT, language=language)
        assert (score.right, score.total, score.ended) == (7, 7, True)


def test_the_first_of_two_tries_explains_and_the_second_shows_the_way() -> None:
    score, said = asked("1, 0", "0.5, 0", *RIGHT[1:])
    assert "These are the bare dot products: the scale is missing." in said
    assert "You divided by d; it is √d." in said
    assert "The answer is [0.7071, 0.0000]. Multiply q and each k component by component" in said
    assert (score.right, score.asked[0].given) == (6, ("1, 0", "0.5, 0"))


SLIPS = [
    (1, "2.7183, 1", "exp of the bare dot products"),
    (1, "0.6698, 0.3302", "one step ahead"),
    (1, "0, -0.7071", "exp is not applied yet"),
    (1, "0.5, 0", "These are squares"),
    (1, "1.6325, 1", "2 to the power"),
    (2, "1, 0", "shared out the scores themselves"),
    (2, "2.0281, 1", "divided by their sum"),
    (2, "1, 0.4931", "exp(S − m)"),
    (2, "0.7311, 0.2689", "without the scale"),
    (2, "0.3302, 0.6698", "wrong order"),
    (3, "1, 2", "without their weights"),
    (3, "0.5, 1", "plain average"),
    (3, "1, 0", "picked the value"),
    (3, "0.6698, 0.3302", "These are the weights again"),
    (3, "1, 0.9862", "not yet divided"),
    (3, "0.7071, 0", "mixed with the scores"),
    (3, "0.5035, 0.4965", "sum to 1"),
    (3, "-0.6698, -0.6605", "the sign is not"),
    (3, "0.9, 0.1", "Number 1, 0.9000, is not right."),
]


@pytest.mark.parametrize(("step", "text", "explanation"), SLIPS)
def test_a_known_slip_is_recognised(step: int, text: str, explanation: str) -> None:
    verdict = questions(solved(), 0)[step].judge(text)
    assert (verdict.right, verdict.counts) == (False, True)
    assert explanation in verdict.text.text("en")
    assert verdict.text.text("zh")


def test_the_mask_is_asked_about() -> None:
    options = {"k": "[[1, 0], [0, 1], [1, 1]]", "v": "[[1], [2], [3]]", "mask": "[1, 1, 0]"}
    scores, _, weights, *_ = questions(solved(**options), 0)
    assert scores.judge("0.7071, 0, -inf").right
    assert "hidden key has no score" in str(scores.judge("0.7071 0 0.7071").text)
    assert "hidden key got a share" in str(weights.judge("0.4011, 0.1978, 0.4011").text)
    assert "masked after the softmax" in str(weights.judge("0.4011, 0.1978, 0").text)


def test_exps_after_subtracting_the_largest_are_right_as_well() -> None:
    verdict = questions(solved(), 0)[1].judge("1, 0.493")
    assert verdict.right
    assert "you subtracted the largest score first" in str(verdict.text)


@pytest.mark.parametrize(
    ("text", "saying"),
    [("one", "could not be read"), ("0.7", "This step has 2 numbers"), ("0.7, 0", "rounded too far")],
)
def test_what_is_no_answer_yet_is_no_try(text: str, saying: str) -> None:
    score, said = asked(text, text, text, *RIGHT)
    assert said.count(saying) == 3
    assert score.right == 7


def test_no_slip_has_the_right_numbers() -> None:
    for seed in range(20):
        for question in questions(solved(seed=seed), 0):
            if isinstance(question, Numeric):
                assert question.judge(" ".join(map(repr, question.expected.tolist()))).right


def test_every_wrong_choice_has_its_own_explanation() -> None:
    for question in questions(solved(), 0)[4:]:
        verdicts = [question.judge(letter) for letter in "abc"]
        assert [verdict.right for verdict in verdicts].count(True) == 1
        assert len({str(verdict.text) for verdict in verdicts}) == 3
        assert not question.judge("d").counts


def test_a_hint_costs_nothing_and_an_empty_line_gives_up() -> None:
    score, said = asked("?", "", *RIGHT[1:])
    assert "Then together. The answer is [0.7071, 0.0000]." in said
    assert score.right == 6


@pytest.mark.parametrize("way", [["q"], []], ids=["q", "end of input"])
def test_a_reader_may_leave(way: list[str]) -> None:
    score, said = asked(RIGHT[0], *way)
    assert (score.right, score.ended) == (1, False)
    assert "Ended after 1 of 7 questions, 1 of them right." in said


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(InputError, match="its softmax has no denominator"):
        quiz.check(solved(mask="[0, 0]"), 0)
    with pytest.raises(InputError, match="7 keys of 7 components are too much"):
        quiz.check(solved(scores="[1, 2, 3, 4, 5, 6, 7]", v=str([[1]] * 7)), 0)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def put(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    return put


def test_a_scripted_quiz_reads_like_a_conversation(trace: Any, typed: Callable[[bytes], None]) -> None:
    typed("\n".join(RIGHT).encode())
    ended = trace("lab", "attention", "--quiz")
    assert (ended.code, ended.err) == (0, "")
    assert "> 0.7071, 0\nRight.\n" in ended.out
    assert "Done: 7 of 7 right." in ended.out


def test_the_other_numbers_offered_are_others(trace: Any, typed: Callable[[bytes], None]) -> None:
    for given, same, other in (
        ([], "trace lab attention.", "--seed 7"),
        (["--seed", "7"], "trace lab attention --seed 7.", "--seed 8"),
    ):
        typed(b"quit\n")
        said = " ".join(trace("lab", "attention", "--quiz", *given).out.split())
        assert f"All numbers at a glance: {same}" in said
        assert f"Other numbers: trace lab attention --quiz {other}." in said


def test_a_quiz_as_json_keeps_the_conversation_out_of_it(trace: Any, typed: Callable[[bytes], None]) -> None:
    typed(b"1, 0\n0.7071, 0\n")
    ended = trace("lab", "attention", "--quiz", "--format", "json")
    found = json.loads(ended.out)
    assert (found["right"], found["questions"], found["ended"]) == (1, 7, False)
    assert found["quiz"][0]["given"] == ["1, 0", "0.7071, 0"]
    assert "Once more:" in ended.err


def test_a_conversation_cannot_go_into_a_file(trace: Any, tmp_path: Path) -> None:
    ended = trace("lab", "attention", "--quiz", "-o", str(tmp_path / "x.txt"))
    assert ended.code == 2
    assert "Add --format json" in ended.err


def test_hostile_input_is_only_text(trace: Any, typed: Callable[[bytes], None]) -> None:
    typed(b"\xff\xfe\x1b[2J\n" + b"9" * 200_000 + b"\n\x00\n1e309 0\n")
    ended = trace("lab", "attention", "--quiz")
    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert "Traceback" not in ended.out + ended.err


def test_ctrl_c_in_a_quiz_is_an_interruption(trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Impatient:
        buffer: Any

        def isatty(self) -> bool:
            return True

        def readline(self, size: int) -> bytes:
            raise KeyboardInterrupt

    stdin = Impatient()
    stdin.buffer = stdin
    monkeypatch.setattr("sys.stdin", stdin)
    ended = trace("lab", "attention", "--quiz")
    assert ended.code == 130
    assert "Traceback" not in ended.err
