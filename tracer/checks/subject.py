"""What the checks of one head look at, each quantity computed once.

Must not know: claims, wording.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Array, Floats, taken
from tracer.checks.finite import because, through_hidden
from tracer.checks.reach import Reach, hidden_from, reach
from tracer.kernels.interfaces import FLASH
from tracer.maths.attention import Head, rescaled
from tracer.maths.criterion import Numerics, difference, eager_rows, lse_tolerance, numerics
from tracer.maths.scale import LSE_NOISE, ScaleFit, fit_lse, fit_output
from tracer.records import LayerTrace
from tracer.texts import Message

# The largest finite number of each dtype.
_LARGEST = {
    "F64": float(np.finfo(np.float64).max),
    "F32": float(np.finfo(np.float32).max),
    "F16": float(np.finfo(np.float16).max),
    "BF16": float(np.uint32(0x7F7F0000).view(np.float32)),
}
# A fit leaves a few times the error of a single logsumexp; a wrong mask leaves far more.
_RESIDUAL_FACTOR = 4.0
_ROWS = 256


@dataclass(frozen=True, eq=False)
class Subject:
    """A layer's trace, one of its query heads, and that head's reference (scaled by head_dim**-0.5, causal)."""

    trace: LayerTrace
    index: int
    head: Head

    @property
    def dtype(self) -> str:
        """The dtype of the kernel's output, as safetensors names it."""
        return self.trace.kernel.output.dtype

    @property
    def expected_scale(self) -> float:
        """What the scale of Qwen3 is: head_dim**-0.5."""
        return float(self.trace.model.head_dim**-0.5)

    def position(self, row: int) -> int:
        """Return which token of the prompt the query in that row is; they differ where a prefix is cached."""
        return row + self.trace.cached

    @property
    def flash(self) -> bool:
        """Whether a flash kernel ran."""
        return self.trace.request.kernel.value in FLASH

    @cached_property
    def output(self) -> Floats:
        """The kernel's output of this head, [Tq, D]."""
        return self.trace.kernel.output[:, self.index].float64()

    @cached_property
    def lse(self) -> Floats | None:
        """The kernel's logsumexp of this head, [Tq], where the kernel hands one out."""
        lse = self.trace.kernel.lse
        return None if lse is None else lse[self.index].float64()

    @cached_property
    def weights(self) -> Array | None:
        """The weights that the kernel itself computed, [Tq, Tk], where they were captured ([B = 1, H, Tq, Tk])."""
        capture = self.trace.captures.get("kernel_weights")
        return None if capture is None else capture.array[0, self.index]

    @cached_property
    def eager(self) -> Floats | None:
        """Plain matrix products in the same dtype, [Tq, D], where they were computed for this head."""
        effects = self.trace.effects
        if self.index not in effects.eager_heads:
            return None
        return effects.eager[:, effects.eager_heads.index(self.index)].float64()

    @cached_property
    def undefined(self) -> Message:
        """Why a check has no row to compare: NaN or infinity that came in, told where it began."""
        return because(self.trace, self.index)

    @cached_property
    def reach(self) -> Reach:
        """What is not finite in keys hidden from a row."""
        return reach(self.head)

    @cached_property
    def reached(self) -> NDArray[np.bool_]:
        """Which rows of this head's output are no numbers in places that the reference has numbers for, all of them
        places where a hidden key's are not finite, [Tq]: kernels multiply those by 0, and 0 · NaN is NaN."""
        return self.reach.excuses(np.isfinite(self.head.output) & ~np.isfinite(self.output))

    @property
    def weights_reached(self) -> NDArray[np.bool_]:
        """Those of ``reached`` whose weights are lost too, [Tq]: a value that is not finite spoils no weight."""
        return self.reached & self.reach.k

    @cached_property
    def lse_reached(self) -> NDArray[np.bool_]:
        """Which rows of the kernel's logsumexp are no numbers because a hidden key's k is not finite, [Tq]."""
        if self.lse is None:
            return np.zeros(self.head.visibility.tq, dtype=np.bool_)
        lost: NDArray[np.bool_] = np.isfinite(self.head.lse) & ~np.isfinite(self.lse)
        return lost & self.reach.k

    @cached_property
    def reached_anywhere(self) -> NDArray[np.bool_]:
        """Which rows, in whatever head, have a hidden key whose k is not finite, [Tq]."""
        k = self.trace.captures["k"].array
        bad = np.zeros(k.shape[0], dtype=np.bool_)
        for start in range(0, k.shape[0], _ROWS):
            bad[start : start + _ROWS] = ~np.isfinite(k[start : start + _ROWS].numbers()).all(axis=(1, 2))
        return hidden_from(self.head.visibility, bad)

    def why_reached(self, rows: int) -> Message:
        """Return why ``rows`` rows say nothing: what is not finite in keys hidden from them, told where it began."""
        return through_hidden(self.trace, self.index, rows, self.head.visibility.tq, self.reach.tokens.tolist())

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The queries that have an allowed key: only these are compared."""
        return np.setdiff1d(np.arange(self.head.visibility.tq), self.head.empty_rows)

    @cached_property
    def overflowed(self) -> NDArray[np.bool_]:
        """Which rows of this head are no numbers because the eager path's own scores overflowed, [Tq].

        The kernel's row is not finite, the reference's is, and a raw score of that row (q·k, before the scale, of
        hidden keys too: the mask is only added afterwards) has no place in the dtype. Flash kernels and torch's sdpa
        hold scores in float32: of theirs no row counts.
        """
        if not self._holds_scores:
            return np.zeros(self.head.visibility.tq, dtype=np.bool_)
        right, given = (np.isfinite(output).all(axis=1) for output in (self.head.output, self.output))
        lost: NDArray[np.bool_] = np.logical_and(right, np.logical_not(given))
        return lost & self._overflowing(self.index) if lost.any() else lost

    @cached_property
    def overflowed_anywhere(self) -> NDArray[np.bool_]:
        """Which rows of the module's output an overflow of the eager path, in whatever head, can have reached, [Tq]."""
        found = np.zeros(self.head.visibility.tq, dtype=np.bool_)
        if self._holds_scores:
            for head in range(self.trace.model.heads):
                found |= self._overflowing(head)
        return found

    @property
    def _holds_scores(self) -> bool:
        """Whether what ran holds scores in the dtype of the model; flash kernels and torch's sdpa do in float32."""
        return self.trace.request.kernel.value == "eager"

    def _overflowing(self, head: int) -> NDArray[np.bool_]:
        """Return which rows of query head ``head`` have a raw score that the eager path cannot hold, [Tq].

        Only products of finite numbers overflow: a key or query that is not finite already is another thing.
        """
        q = self.trace.captures["q"].array[:, head].float64()
        found = np.zeros(len(q), dtype=np.bool_)
        k = self.trace.captures["k"].array[:, self.trace.model.kv_head(head)].float64()
        k = k[np.isfinite(k).all(axis=1)]
        largest = _LARGEST[self.dtype]
        with np.errstate(invalid="ignore", over="ignore"):
            longest = np.sqrt(np.square(k).sum(axis=1).max(initial=0.0))
            # No product is longer than its factors together, so most rows need no products at all.
            long = ~(np.sqrt(np.square(q).sum(axis=1)) * longest < largest)
            suspect = np.flatnonzero(long & np.isfinite(q).all(axis=1))
            for start in range(0, suspect.size, _ROWS):
                rows = suspect[start : start + _ROWS]
                found[rows] = ~(np.abs(q[rows] @ k.T) <= largest).all(axis=1)
        return found

    @property
    def alone(self) -> bool:
        """Whether only this head was captured and run again, as of a long prompt."""
        rotated = self.trace.captures.get("q_rope")
        return rotated is not None and "H" not in rotated.axes

    @cached_property
    def _eager_rows(self) -> NDArray[np.int64]:
        """The rows that plain products were computed for."""
        return eager_rows(self.output)

    @cached_property
    def numerics(self) -> Numerics:
        """flash-attention's criterion for this head's output, over the rows in ``sound``."""
        rows = self.sound
        eager = None if self.eager is None else taken(self.eager, rows)
        known = np.isin(rows, self._eager_rows)
        expected = taken(self.head.output, rows)
        given = self.reach.settled(taken(self.output, rows), expected, rows)
        return numerics(given, eager, expected, self.dtype, known=known)

    @cached_property
    def eager_reached(self) -> int:
        """How many of the rows that the eager comparison lost it lost to what is not finite in hidden keys."""
        if self.eager is None:
            return 0
        lost = self.reach.excuses(np.isfinite(self.head.output) & ~np.isfinite(self.eager))
        return int(lost[self.sound[np.isin(self.sound, self._eager_rows)]].sum())

    @cached_property
    def sound(self) -> NDArray[np.int64]:
        """Those of ``rows`` that did not overflow, and that nothing reached from hidden keys."""
        return self.rows[~(self.overflowed | self.reached)[self.rows]]

    @cached_property
    def lse_tolerance(self) -> float:
        """How far the kernel's logsumexp may lie from the reference."""
        row_max = self.head.row_max[self.rows]
        largest = float(np.abs(row_max[np.isfinite(row_max)]).max(initial=0.0))
        return lse_tolerance(self.dtype, largest)

    @cached_property
    def base_two(self) -> bool:
        """Whether the kernel's logsumexp is the reference's in base 2, as some kernels have it."""
        if self.lse is None:
            return False
        given, wanted = self.lse[self.rows], self.head.lse[self.rows]
        natural = difference(given * math.log(2), wanted).within(self.lse_tolerance)
        return natural and not difference(given, wanted).within(self.lse_tolerance)

    @property
    def natural_lse(self) -> Floats | None:
        """The kernel's logsumexp as a natural logarithm."""
        return self.lse * math.log(2) if self.lse is not None and self.base_two else self.lse

    @cached_property
    def fit(self) -> ScaleFit | None:
        """The scale that fits the kernel's logsumexp best, or its output where it hands out no logsumexp."""
        if self.natural_lse is not None:
            return fit_lse(self.head, self.natural_lse, LSE_NOISE[self.dtype])
        # Flash kernels and torch's sdpa hold 16-bit scores in float32; plain products round them to their own dtype.
        scores_dtype = self.dtype if self.trace.request.kernel.value == "eager" else "F32"
        return fit_output(self.head, self.output, self.dtype, scores_dtype)

    @property
    def largest_residual(self) -> float:
        """What a fit of the scale may leave, where nothing but the scale differs."""
        return _RESIDUAL_FACTOR * self.lse_tolerance if self.lse is not None else self.numerics.tolerance

    @property
    def fit_holds(self) -> bool:
        """Whether a scale explains what the kernel gave, and the input tells which."""
        return self.fit is not None and self.fit.tells and self.fit.residual <= self.largest_residual

    @property
    def scale_agrees(self) -> bool:
        """Whether the fitted scale is the expected one, within its tolerance."""
        return self.fit is not None and abs(self.fit.scale / self.expected_scale - 1) <= self.fit.tolerance

    @cached_property
    def judged(self) -> Head:
        """The reference at the scale that the kernel really used, so that a wrong scale fails its own checks only."""
        if self.fit is None or not self.fit_holds or self.scale_agrees:
            return self.head
        return rescaled(self.head, self.fit.scale)
