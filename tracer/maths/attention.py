"""The reference: attention of one head in NumPy float64, in blocks of rows; nothing of size Tq · Tk ever exists.

Independent of the kernels it judges, and of torch. Must not know: traces, dtypes, tolerances. Long prompts go through
tracer.maths.tiles, and may ask for a float32 pass: then rows spread over the prompt are computed in float64 too, and
how far the two lie apart is kept (Pass).

    S = QKᵀ · scale + M      m = max over allowed keys      lse = m + ln Σ exp(S − m)      A = exp(S − lse)      O = A·V

Queries and keys come as float64, so no product overflows on the way. A row with no allowed key has output and weights
zero and row_max and lse −inf, and is listed in ``empty_rows``. NaN and infinity in q, k, v of allowed keys are carried
through to the rows they reach and counted in ``nonfinite``; what is hidden from a row never reaches it.
"""

from dataclasses import dataclass, replace

import numpy as np

from tracer.arrays import Floats
from tracer.errors import InputError
from tracer.maths import tiles
from tracer.maths.visibility import Block, Bools, Visibility, blocks

# From this many scores on, tiles on all cores are worth the start of their threads.
_MANY = 1 << 22
# From this many on, float64 takes seconds: where the caller allows it, float32 will do.
_VERY_MANY = 1 << 26
_SAMPLED_ROWS = 64
# What float32 may differ from float64, in units of the largest score and value that can occur: for scores of ordinary
# size it differs by 3e-7 (rms 1, 16,384 tokens), a wrong mask or product by far more.
_SINGLE_WITHIN = 8 * 2.0**-23
_SINGLE_LIMIT = 1e30  # products beyond this might overflow float32


@dataclass(frozen=True)
class Pass:
    """How every row was computed: in float64, or in float32 with ``rows`` of them in float64 too, which differ by at
    most ``lse`` in the logsumexp and ``output`` in the output."""

    number: str = "float64"
    rows: int = 0
    lse: float = 0.0
    output: float = 0.0


@dataclass(frozen=True, eq=False)
class Row:
    """One query taken apart. All [Tk] except where said; hidden keys have score −inf and weight 0."""

    query: int
    visible: Bools
    dots: Floats  # q·k, before scale and mask
    scores: Floats
    row_max: float
    shifted: Floats  # exp(score − row_max)
    total: float  # their sum
    lse: float
    weights: Floats
    output: Floats  # [Dv]


@dataclass(frozen=True, eq=False)
class Head:
    """One head's attention. q [Tq, D], k [Tk, D], v [Tk, Dv]; row_max, total, lse, mean [Tq]; output [Tq, Dv].

    ``total`` is Σ exp(S − row_max) and ``mean`` is Σ A·S, the mean score under the row's own weights: it is the slope
    of lse along the scale, times the scale, and lse − mean is the row's entropy in nats.
    """

    q: Floats
    k: Floats
    v: Floats
    scale: float
    visibility: Visibility
    row_max: Floats
    total: Floats
    lse: Floats
    mean: Floats
    output: Floats
    empty_rows: tuple[int, ...]
    nonfinite: tuple[tuple[str, int], ...]  # how many numbers of q, k, v are NaN or infinite, where any are
    computed: Pass = Pass()

    def scores(self, rows: slice, cols: slice = slice(None)) -> Floats:
        """Return S for a window [rows, cols]: scaled scores, −inf where the key is hidden."""
        start, stop, _ = rows.indices(self.visibility.tq)
        return np.where(self.visibility.rows(start, stop, cols), self._scaled(start, stop, cols), -np.inf)

    def weights(self, rows: slice, cols: slice = slice(None)) -> Floats:
        """Return A for a window [rows, cols], 0 where the key is hidden. Rows over all columns sum to 1."""
        start, stop, _ = rows.indices(self.visibility.tq)
        lse = self.lse[start:stop, None]
        with np.errstate(invalid="ignore", over="ignore"):
            weights = np.exp(self._scaled(start, stop, cols) - np.where(np.isneginf(lse), 0.0, lse))
        return np.where(self.visibility.rows(start, stop, cols), weights, 0.0)

    def _scaled(self, start: int, stop: int, cols: slice) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            scaled: Floats = self.q[start:stop] @ self.k[cols].T * self.scale
        return scaled

    def row(self, query: int) -> Row:
        """Return one query with every step between q·k and the output, in float64 whatever the pass was."""
        window = slice(query, query + 1)
        with np.errstate(invalid="ignore", over="ignore"):
            dots: Floats = self.k @ self.q[query]
        scores = self.scores(window)[0]
        visible = self.visibility.rows(query, query + 1)[0]
        exact = self.computed.number == "float64"
        top = float(self.row_max[query] if exact else scores.max(initial=-np.inf))
        with np.errstate(invalid="ignore"):
            shifted = np.where(visible, np.exp(scores - (0.0 if np.isneginf(top) else top)), 0.0)
        total = float(self.total[query] if exact else shifted.sum())
        weights = self.weights(window)[0] if exact else shifted / (total or 1.0)
        with np.errstate(divide="ignore"):
            lse = float(self.lse[query] if exact else top + np.log(total))
        return Row(
            query=query,
            visible=visible,
            dots=dots,
            scores=scores,
            row_max=top,
            shifted=shifted,
            total=total,
            lse=lse,
            weights=weights,
            output=self.output[query] if exact else weights @ self.v,
        )

    @property
    def entropy(self) -> Floats:
        """The entropy of each row's weights in nats, [Tq]; NaN for a row with no allowed key."""
        with np.errstate(invalid="ignore"):
            return self.lse - self.mean


def head(
    q: Floats,
    k: Floats,
    v: Floats,
    scale: float,
    visibility: Visibility,
    *,
    single: bool = False,
    around: Floats | None = None,
) -> Head:
    """Return the attention of one head over all rows. Raises InputError where the shapes do not fit together.

    ``single`` allows a long prompt's rows to be computed in float32, checked against float64 on some of them; where
    numbers are too large for that, or the two differ by more than rounding, all are computed in float64 all the same.
    ``around`` [Tq] may say about where each row's logsumexp lies, which saves time; no result rests on it.
    """
    if q.shape[1] != k.shape[1] or k.shape[0] != v.shape[0]:
        raise InputError("maths.shapes", q=q.shape, k=k.shape, v=v.shape)
    if (visibility.tq, visibility.tk) != (q.shape[0], k.shape[0]):
        raise InputError("maths.lengths", q=q.shape[0], k=k.shape[0], tq=visibility.tq, tk=visibility.tk)
    q, k, v = (np.ascontiguousarray(x, dtype=np.float64) for x in (q, k, v))
    counts = tuple((name, bad) for name, x in (("q", q), ("k", k), ("v", v)) if (bad := int((~np.isfinite(x)).sum())))
    if counts or q.shape[0] * k.shape[0] < _MANY:
        return _in_blocks(q, k, v, scale, visibility, counts)
    single = single and q.shape[0] * k.shape[0] >= _VERY_MANY
    found = _single(q, k, v, scale, visibility, around) if single else None
    return found or _in_tiles(q, k, v, scale, visibility, Pass())


def _in_blocks(
    q: Floats, k: Floats, v: Floats, scale: float, visibility: Visibility, counts: tuple[tuple[str, int], ...]
) -> Head:
    tq = q.shape[0]
    row_max, total, lse, mean, output = (np.empty(shape) for shape in (tq, tq, tq, tq, (tq, v.shape[1])))
    empty: list[int] = []
    mix = _Mix(v)
    for block in blocks(visibility):
        rows = slice(block.start, block.stop)
        part = softmax(scaled_scores(q[rows], k[block.cols], scale, block), block)
        row_max[rows], total[rows], lse[rows], mean[rows] = part.row_max, part.total, part.lse, part.mean
        output[rows] = mix(part, block)
        empty += [block.start + int(row) for row in np.flatnonzero(block.empty)]
    return Head(q, k, v, scale, visibility, row_max, total, lse, mean, output, tuple(empty), counts)


def _in_tiles(
    q: Floats,
    k: Floats,
    v: Floats,
    scale: float,
    visibility: Visibility,
    computed: Pass,
    around: Floats | None = None,
) -> Head:
    number = np.float64 if computed.number == "float64" else np.float32
    sums = tiles.rows(q, k, v, scale, visibility, number, around)
    if around is not None and not tiles.fits(sums, around):
        sums = tiles.rows(q, k, v, scale, visibility, number)
    return Head(
        q, k, v, scale, visibility, sums.row_max, sums.total, sums.lse, sums.mean, sums.output, sums.empty, (), computed
    )


def _single(
    q: Floats, k: Floats, v: Floats, scale: float, visibility: Visibility, around: Floats | None
) -> Head | None:
    """Return the head computed in float32, with how far it lies from float64; None where float32 will not do."""
    longest = [float(np.sqrt(np.vecdot(x, x).max(initial=0.0))) for x in (q, k, v)]
    largest_score, largest_value = longest[0] * longest[1] * abs(scale), longest[2]
    if not max(largest_score, largest_value) < _SINGLE_LIMIT:
        return None
    found = _in_tiles(q, k, v, scale, visibility, Pass("float32"), around)
    sample = np.unique(np.linspace(0, visibility.tq - 1, _SAMPLED_ROWS).astype(np.int64))
    seen = visibility.at(sample)
    some = seen.any(axis=1)
    scores = np.where(seen, (q[sample] * scale) @ k.T, -np.inf)[some]
    row_max = scores.max(axis=1, keepdims=True)
    shares = np.exp(scores - row_max)
    total = shares.sum(axis=1, keepdims=True)
    rows = sample[some]
    lse = float(np.abs((row_max + np.log(total))[:, 0] - found.lse[rows]).max(initial=0.0))
    output = float(np.abs(shares @ v / total - found.output[rows]).max(initial=0.0))
    largest_sum = 0.0 if around is None else float(np.abs(around).max(initial=0.0))
    allowed = _SINGLE_WITHIN * max(1.0, largest_score, largest_sum)
    if not (lse <= allowed and output <= allowed * largest_value):
        return None
    return replace(found, computed=Pass("float32", len(sample), lse, output))


def rescaled(reference: Head, scale: float) -> Head:
    """Return the same head computed with another scale."""
    return _like(reference, scale, reference.visibility)


def seen_by(reference: Head, visibility: Visibility) -> Head:
    """Return the same head computed with another visibility."""
    return _like(reference, reference.scale, visibility)


def _like(reference: Head, scale: float, visibility: Visibility) -> Head:
    single = reference.computed.number == "float32"
    return head(reference.q, reference.k, reference.v, scale, visibility, single=single)


# ------------------------------------------------------------------------------------------------ blocks of rows


@dataclass(frozen=True, eq=False)
class Softmax:
    """Softmax over the visible keys of a block: shares [rows, cols] are exp(S − row_max), the rest is [rows]."""

    shares: Floats
    row_max: Floats
    total: Floats
    lse: Floats
    mean: Floats


def scaled_scores(q: Floats, k: Floats, scale: float, block: Block) -> Floats:
    """Return S [rows, cols] of a block: scaled scores, −inf where the key is hidden."""
    with np.errstate(invalid="ignore", over="ignore"):
        scores: Floats = (q * scale) @ k.T
    for part, hidden in block.ragged:
        np.copyto(scores[:, part], -np.inf, where=hidden)
    return scores


def softmax(scores: Floats, block: Block) -> Softmax:
    """Return the softmax of a block's scores, overwriting them.

    A row with no visible key: shares and total 0, row_max and lse −inf, mean NaN.
    """
    empty = block.empty
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        row_max = scores.max(axis=1, initial=-np.inf)
        scores -= np.where(empty, 0.0, row_max)[:, None]
        shares = np.exp(scores)
        total = shares.sum(axis=1)
        for part, hidden in block.ragged:  # 0 · −inf must count as 0 in the mean, and NaN must stay in its own keys
            np.copyto(scores[:, part], 0.0, where=hidden)
            np.copyto(shares[:, part], 0.0, where=hidden)
        lse = row_max + np.log(total)
        mean = row_max + np.vecdot(shares, scores) / total
    return Softmax(shares, row_max, total, np.where(empty, -np.inf, lse), np.where(empty, np.nan, mean))


class _Mix:
    """O = A·V in which a hidden value never counts, not even as 0 · NaN."""

    def __init__(self, v: Floats) -> None:
        self._bad = ~np.isfinite(v)
        self._v = v
        self._clean = np.where(self._bad, 0.0, v) if self._bad.any() else v

    def __call__(self, part: Softmax, block: Block) -> Floats:
        with np.errstate(invalid="ignore"):
            output: Floats = part.shares @ self._clean[block.cols]
            output /= np.where(block.empty, 1.0, part.total)[:, None]
        return self._with_nonfinite(output, part, block) if self._bad[block.cols].any() else output

    def _with_nonfinite(self, output: Floats, part: Softmax, block: Block) -> Floats:
        v, visible = self._v[block.cols], block.visible()
        positive, negative, undefined = (
            (visible.astype(np.float64) @ kind) > 0 for kind in (v == np.inf, v == -np.inf, np.isnan(v))
        )
        vanished = (visible & (part.shares == 0)).astype(np.float64) @ np.isinf(v) > 0  # 0 · inf
        output = np.where(positive, np.inf, np.where(negative, -np.inf, output))
        return np.where(undefined | vanished | (positive & negative), np.nan, output)
