"""Attention small enough for pen and paper: a problem, and every number on the way to its answer, in float64.

    S = q·k · scale / τ      exp(S)      A = exp(S − m) / Σ      O = Σ A·v

Must not know: pages, languages, where a problem comes from on the command line.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.errors import InputError
from tracer.labs import given
from tracer.labs.words import said
from tracer.maths.attention import Head, Row, head
from tracer.maths.visibility import Bools, Visibility
from tracer.texts import Message

LESSON, DRAWN, OWN = "lesson", "drawn", "own"
# The worked example that a reader can follow without a calculator's help, but for exp.
LESSON_Q, LESSON_K, LESSON_V = ((1, 0),), ((1, 0), (0, 1)), ((1, 0), (0, 2))


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be calculated: q [Tq, D], k [Tk, D], v [Tk, Dv]; or ``scores`` [Tq, Tk] in place of q and k.

    ``temperature`` divides the scaled scores; ``mask`` [Tq, Tk] is true where a query may see a key, None for all.
    ``origin`` is LESSON, DRAWN (from a seed) or OWN.
    """

    q: Floats | None
    k: Floats | None
    v: Floats
    scores: Floats | None
    mask: Bools | None
    scale: float
    temperature: float
    origin: str


@dataclass(frozen=True, eq=False)
class Step:
    """One query's way from scores to output; all [Tk] but ``output`` [Dv].

    ``exp`` is exp of the scores as they are, infinite where that overflows, 0 for hidden keys; ``row`` has the rest.
    """

    row: Row
    exp: Floats
    empty: bool


@dataclass(frozen=True, eq=False)
class Solution:
    """A problem solved: ``head`` is the reference, which takes given scores as they are."""

    problem: Problem
    head: Head

    def step(self, query: int) -> Step:
        """Return one query taken apart."""
        row = self.head.row(query)
        with np.errstate(over="ignore"):
            exp = np.where(row.visible, np.exp(row.scores), 0.0)
        return Step(row, exp, query in self.head.empty_rows)


def solve(problem: Problem) -> Solution:
    """Return the solution, by the reference that also judges real kernels."""
    if problem.scores is not None:  # scores are "q" over "keys" that each pick out one of them
        q, k, scale = problem.scores, np.eye(problem.scores.shape[1]), 1.0
    elif problem.q is not None and problem.k is not None:
        q, k, scale = problem.q, problem.k, problem.scale
    else:
        raise ValueError("a problem has q and k, or scores")
    visibility = Visibility(tq=len(q), tk=len(k), causal=False, mask=problem.mask)
    return Solution(problem, head(q, k, problem.v, scale / problem.temperature, visibility))


def problem(
    texts: Mapping[str, str | None], *, scale: float | None = None, temperature: float = 1.0, seed: int | None = None
) -> Problem:
    """Return the problem that a reader asked for.

    ``texts`` has what was given for q, k, v, scores and mask (absent or None where nothing was). Without any of q, k, v
    and scores it is the lesson's own example, or with ``seed`` one drawn from it. Raises InputError.
    """
    asked = {name: text for name, text in texts.items() if text is not None}
    _check_combination(asked, scale, seed)
    if seed is not None:
        q, k, v = _drawn(seed)
    else:
        q, k, v = (np.array(rows, dtype=np.float64) for rows in (LESSON_Q, LESSON_K, LESSON_V))
    q = given.matrix("--q", asked["q"], row=True) if "q" in asked else q
    k = given.matrix("--k", asked["k"]) if "k" in asked else k
    v = given.matrix("--v", asked["v"]) if "v" in asked else v
    scores = given.matrix("--scores", asked["scores"], row=True) if "scores" in asked else None
    if scores is None and q.shape[1] != k.shape[1]:
        raise InputError("labs.width", q=_shape(q), k=_shape(k), hint=_hint(asked, "q", "k"))
    keys = len(k) if scores is None else scores.shape[1]
    if keys != len(v):
        other = "k" if scores is None else "scores"
        raise InputError("labs.keys", other=f"--{other}", keys=keys, values=len(v), hint=_hint(asked, other, "v"))
    tq = len(q) if scores is None else len(scores)
    return Problem(
        q=None if scores is not None else q,
        k=None if scores is not None else k,
        v=v,
        scores=scores,
        mask=given.mask("--mask", asked["mask"], tq, keys) if "mask" in asked else None,
        scale=float(q.shape[1]) ** -0.5 if scale is None else scale,
        temperature=temperature,
        origin=OWN if asked.keys() - {"mask"} else LESSON if seed is None else DRAWN,
    )


def _check_combination(asked: Mapping[str, str], scale: float | None, seed: int | None) -> None:
    doubled = [f"--{name}" for name in ("q", "k") if name in asked]
    if "scores" in asked and (doubled or scale is not None):
        raise InputError("labs.scores_and", other=", ".join(doubled or ["--scale"]))
    own = [f"--{name}" for name in ("q", "k", "v", "scores") if name in asked]
    if seed is not None and own:
        raise InputError("labs.seed_and", other=", ".join(own))


def _drawn(seed: int) -> tuple[Floats, Floats, Floats]:
    """Return a small problem in whole numbers: one query over three keys, four components, so that √d is 2."""
    random = np.random.default_rng(seed)
    q, k, v = (
        random.integers(low, low + 5, shape).astype(np.float64)
        for low, shape in ((-2, (1, 4)), (-2, (3, 4)), (0, (3, 2)))
    )
    if not (k @ q[0]).any() or len(set((k @ q[0]).tolist())) == 1:  # scores that are all equal teach nothing
        q, k[0] = np.ones((1, 4)), (1, 1, 0, 0)
    return q, k, v


def _shape(x: Floats) -> str:
    return f"[{x.shape[0]}, {x.shape[1]}]"


def _hint(asked: Mapping[str, str], *names: str) -> Message:
    """Return which of two that must fit was not given, and so stands for the lesson's own."""
    missing = [f"--{name}" for name in names if name not in asked]
    return said("hint_missing", options=", ".join(missing)) if missing else said("hint_change")
