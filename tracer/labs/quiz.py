"""``trace lab attention --quiz``: the questions put one by one, two tries each, every wrong answer explained.

Speaks through a Voice and so works at a keyboard as well as with answers from a file. Must not know: terminals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tracer.errors import InputError
from tracer.labs.attention import NAME, WHOLE_MODEL
from tracer.labs.figures import named, short, vector
from tracer.labs.hand import Solution
from tracer.labs.lesson import FORMAT
from tracer.labs.questions import Choice, Numeric, Question, questions
from tracer.labs.words import Words
from tracer.texts import Listing

TRIES = 2
_FIRST_SEED = 7
_MOST_KEYS, _MOST_PARTS = 6, 8
_SKIP, _QUIT, _HINT = ("", "skip", "跳过"), ("q", "quit", "exit", "退出"), ("?", "？", "hint", "提示")


class Voice(Protocol):
    """What speaks with the reader."""

    def tell(self, text: str) -> None:
        """Say ``text``, in paragraphs."""

    def ask(self, prompt: str) -> str | None:
        """Return the reader's next answer, None where no more will come."""


@dataclass(frozen=True)
class Asked:
    """What became of one question: the answers that counted, and whether one was right."""

    question: Question
    given: tuple[str, ...] = ()
    right: bool = False
    explained: tuple[str, ...] = ()


@dataclass(frozen=True)
class Score:
    """How the quiz went. ``ended``: the reader saw it through."""

    asked: tuple[Asked, ...]
    total: int
    ended: bool

    @property
    def right(self) -> int:
        """How many questions were answered right."""
        return sum(each.right for each in self.asked)

    def json(self, language: str) -> dict[str, Any]:
        """Return the questions, the answers and what was right as JSON."""
        return {
            "format": FORMAT,
            "lab": NAME,
            "language": language,
            "quiz": [_entry(each, language) for each in self.asked],
            "right": self.right,
            "questions": self.total,
            "ended": self.ended,
        }


def _entry(asked: Asked, language: str) -> Mapping[str, Any]:
    question = asked.question
    return {
        "id": question.id,
        "question": question.prompt.text(language),
        "expected": question.expected.tolist() if isinstance(question, Numeric) else "abc"[question.right],
        "given": list(asked.given),
        "right": asked.right,
        "explained": list(asked.explained),
    }


def check(solution: Solution, query: int) -> None:
    """Raise InputError where there is nothing to ask: a row without keys, or more numbers than a head can hold."""
    if query in solution.head.empty_rows:
        raise InputError("labs.quiz_empty", query=query)
    keys, parts = len(solution.problem.v), max(solution.head.q.shape[1], solution.problem.v.shape[1])
    if keys > _MOST_KEYS or parts > _MOST_PARTS:
        raise InputError("labs.quiz_large", keys=keys, parts=parts, most_keys=_MOST_KEYS, most_parts=_MOST_PARTS)


def run(solution: Solution, query: int, language: str, voice: Voice, seed: int | None = None) -> Score:
    """Ask everything about one query, and return how it went. Ends early where the reader does.

    ``seed`` is what the numbers were drawn from, None where they were given or are the lesson's own.
    """
    say = Words(language)
    listed = questions(solution, query)
    voice.tell(say("quiz_welcome", count=len(listed)))
    voice.tell("\n".join(_statement(say, solution, query)))
    asked: list[Asked] = []
    for place, question in enumerate(listed, start=1):
        result = _one(say, voice, question, place, len(listed))
        if result is None:
            break
        asked.append(result)
    score = Score(tuple(asked), len(listed), len(asked) == len(listed))
    ending = "quiz_end" if score.ended else "quiz_end_early"
    voice.tell(say(ending, right=score.right, total=score.total, answered=len(asked)))
    command = f"trace lab {NAME}"
    same = command if seed is None else f"{command} --seed {seed}"
    other = f"{command} --quiz --seed {_FIRST_SEED if seed is None else seed + 1}"
    voice.tell(say("quiz_end_next", lab=same, variant=other, model=WHOLE_MODEL))
    return score


def _statement(say: Words, solution: Solution, query: int) -> Iterator[str]:
    """Yield what is given, one vector a line."""
    asked, head = solution.problem, solution.head
    visible = head.visibility.rows(query, query + 1)[0]
    if asked.q is not None and asked.k is not None:
        yield f"{named('q', query)} = {vector(asked.q[query], short)}"
        yield from (f"{named('k', j)} = {vector(key, short)}" for j, key in enumerate(asked.k))
    else:
        yield f"S = {vector(head.scores(slice(query, query + 1))[0])}"
    yield from (f"{named('v', j)} = {vector(value, short)}" for j, value in enumerate(asked.v))
    if asked.scores is None:
        yield say("quiz_scale", scale=short(head.scale), width=head.q.shape[1])
    if not visible.all():
        hidden = Listing(named("k", j) for j, seen in enumerate(visible) if not seen)
        yield say("quiz_hidden", keys=hidden)


def _one(say: Words, voice: Voice, question: Question, place: int, total: int) -> Asked | None:
    """Ask one question until it is answered, given up, or tried often enough; None where the reader left."""
    voice.tell(f"{place}/{total}  {question.prompt.text(say.language)}")
    if isinstance(question, Choice):
        lines = (
            f"{letter}) {option.text(say.language)}" for letter, option in zip("abc", question.options, strict=True)
        )
        voice.tell("\n".join(lines))
    result = Asked(question)
    while True:
        answer = voice.ask("> ")
        word = None if answer is None else answer.strip().lower()
        if answer is None or word in _QUIT:
            return None
        if word in _SKIP:
            voice.tell(say("quiz_skipped", solution=question.solution))
            return result
        if word in _HINT:
            voice.tell(question.hint.text(say.language))
            continue
        verdict = question.judge(answer)
        text = verdict.text.text(say.language)
        voice.tell(text)
        if not verdict.counts:
            continue
        result = replace(
            result, given=(*result.given, answer.strip()), right=verdict.right, explained=(*result.explained, text)
        )
        if verdict.right:
            return result
        if len(result.given) == TRIES:
            voice.tell(question.solution.text(say.language))
            return result
        voice.tell(say("quiz_again"))
