"""The questions of the quiz: for every step of a hand calculation the numbers that are right, and the wrong ones that a
known slip leads to, each with its explanation; and questions with answers to choose from.

Must not know: how a question is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.labs import answers
from tracer.labs.figures import figure, vector
from tracer.labs.hand import Solution, Step
from tracer.labs.words import said
from tracer.texts import Message


@dataclass(frozen=True)
class Verdict:
    """What became of an answer. ``counts``: it was a try, not merely something that could not be read."""

    right: bool
    counts: bool
    text: Message


@dataclass(frozen=True, eq=False)
class Slip:
    """Numbers that a certain mistake leads to, and what the mistake is."""

    id: str
    numbers: Floats
    text: Message


@dataclass(frozen=True, eq=False)
class Numeric:
    """A question for numbers. ``also`` are other numbers that are right as well."""

    id: str
    prompt: Message
    hint: Message
    expected: Floats
    slips: tuple[Slip, ...]
    also: tuple[Slip, ...] = ()

    @property
    def solution(self) -> Message:
        """The right answer and how one gets it."""
        return said("quiz_solution", numbers=vector(self.expected), how=self.hint)

    def judge(self, text: str) -> Verdict:
        """Return what to say to the answer ``text``."""
        given = answers.numbers(text)
        if given is None:
            return Verdict(False, False, said("quiz_unreadable", text=text[:40]))
        if answers.same(given, self.expected.tolist()):
            return Verdict(True, True, said("quiz_right"))
        for other in self.also:
            if answers.same(given, other.numbers.tolist()):
                return Verdict(True, True, other.text)
        return self._wrong(given)

    def _wrong(self, given: Sequence[float]) -> Verdict:
        for slip in self.slips:
            telling = not answers.same(slip.numbers.tolist(), self.expected.tolist())
            if telling and answers.same(given, slip.numbers.tolist()):
                return Verdict(False, True, slip.text)
        expected = self.expected.tolist()
        if len(given) != len(expected):
            return Verdict(False, False, said("quiz_count", expected=len(expected), found=len(given)))
        if answers.roughly(given, expected):
            return Verdict(False, False, said("quiz_rough"))
        if answers.same(list(reversed(given)), expected):
            return Verdict(False, True, said("quiz_reversed"))
        if answers.same([-value for value in given], expected):
            return Verdict(False, True, said("quiz_sign"))
        place = answers.first_wrong(given, expected)
        return Verdict(False, True, said("quiz_wrong", place=place + 1, found=figure(given[place]), hint=self.hint))


@dataclass(frozen=True)
class Choice:
    """A question with answers to choose from; ``right`` is the place of the right one, ``why`` explains each."""

    id: str
    prompt: Message
    options: tuple[Message, ...]
    right: int
    why: tuple[Message, ...]

    @property
    def hint(self) -> Message:
        """What may help."""
        return said(f"quiz_{self.id}_hint")

    @property
    def solution(self) -> Message:
        """The right answer and why."""
        return said("quiz_choice_solution", letter="abc"[self.right], why=self.why[self.right])

    def judge(self, text: str) -> Verdict:
        """Return what to say to the answer ``text``, a letter."""
        letter = text.strip().strip("().（）").lower()
        if letter not in tuple("abc"[: len(self.options)]):
            return Verdict(False, False, said("quiz_letter", text=text[:40]))
        place = "abc".index(letter)
        return Verdict(place == self.right, True, self.why[place])


Question = Numeric | Choice
_CHOICES = (("axis", 1), ("sum", 2), ("permission", 0))


def questions(solution: Solution, query: int) -> list[Question]:
    """Return all questions about one query, in the order of the calculation."""
    step = solution.step(query)
    steps = [_scores, _exp, _weights, _output]
    if solution.problem.scores is not None:
        steps = steps[1:]
    return [*(make(solution, step) for make in steps), *(_choice(id, right) for id, right in _CHOICES)]


def _choice(id: str, right: int) -> Choice:
    letters = "abc"
    return Choice(
        id,
        said(f"quiz_{id}"),
        tuple(said(f"quiz_{id}_{letter}") for letter in letters),
        right,
        tuple(said(f"quiz_{id}_why_{letter}") for letter in letters),
    )


def _slips(step: str, **numbers: Floats) -> tuple[Slip, ...]:
    """Return slips whose texts are ``quiz_<step>_<name>``; those whose numbers are undefined lead nowhere."""
    return tuple(
        Slip(name, values, said(f"quiz_{step}_{name}"))
        for name, values in numbers.items()
        if not np.isnan(values).any()
    )


def _scores(solution: Solution, step: Step) -> Numeric:
    width, row = solution.head.q.shape[1], step.row
    hidden = ~row.visible

    def masked(values: Floats) -> Floats:
        return np.where(hidden, -np.inf, values)

    slips = _slips(
        "scores",
        unscaled=masked(row.dots),
        by_d=masked(row.dots / width),
        times_root=masked(row.dots * width**0.5),
        unmasked=row.dots * solution.head.scale,
    )
    prompt = said("quiz_scores", count=len(row.scores))
    return Numeric("scores", prompt, said("quiz_scores_hint", scale=figure(solution.head.scale)), row.scores, slips)


def _exp(solution: Solution, step: Step) -> Numeric:
    row = step.row
    with np.errstate(over="ignore", invalid="ignore"):
        slips = _slips(
            "exp",
            unscaled=np.where(row.visible, np.exp(row.dots), 0.0),
            already=row.weights,
            only_shifted=np.where(row.visible, row.scores - row.row_max, -np.inf),
            square=np.where(row.visible, row.scores**2, 0.0),
            base_two=np.where(row.visible, np.exp2(row.scores), 0.0),
        )
    also = (Slip("shifted", row.shifted, said("quiz_exp_shifted")),)
    return Numeric("exp", said("quiz_exp", scores=vector(row.scores)), said("quiz_exp_hint"), step.exp, slips, also)


def _weights(solution: Solution, step: Step) -> Numeric:
    row = step.row
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        unmasked = np.exp(row.dots * solution.head.scale - np.max(row.dots * solution.head.scale))
        bare = np.exp(np.where(row.visible, row.dots, -np.inf) - np.max(row.dots[row.visible]))
        slips = _slips(
            "weights",
            no_exp=np.where(row.visible, row.scores, 0.0) / np.sum(row.scores[row.visible]),
            not_divided=step.exp,
            not_divided_shifted=row.shifted,
            unscaled=bare / bare.sum(),
            unmasked=unmasked / unmasked.sum(),
            mask_too_late=np.where(row.visible, unmasked / unmasked.sum(), 0.0),
            largest_only=(row.scores == row.row_max) * 1.0,
        )
    hint = said("quiz_weights_hint", total=figure(float(step.exp.sum())))
    return Numeric("weights", said("quiz_weights", exp=vector(step.exp)), hint, row.weights, slips)


def _output(solution: Solution, step: Step) -> Numeric:
    row, v = step.row, solution.problem.v
    terms = row.weights[:, None] * v
    with np.errstate(over="ignore", invalid="ignore"):
        slips = _slips(
            "output",
            plain_sum=v[row.visible].sum(axis=0),
            mean=v[row.visible].mean(axis=0),
            best_only=v[int(np.argmax(row.weights))],
            per_key=terms.sum(axis=1),
            weights=row.weights,
            not_divided=row.shifted @ v,
            scores=np.where(row.visible, row.scores, 0.0) @ v,
            normalised=row.output / row.output.sum() if row.output.sum() else row.output,
        )
    prompt = said("quiz_output", weights=vector(row.weights), count=v.shape[1])
    return Numeric("output", prompt, said("quiz_output_hint"), row.output, slips)
