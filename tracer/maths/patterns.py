"""What a head attends to, in figures: entropy, and the mean weight on places that mean something.

NumPy only, in blocks of rows. Must not know: traces, wording, thresholds for calling a head this or that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Floats
from tracer.maths.attention import Head

_ROWS = 256


@dataclass(frozen=True, eq=False)
class Pattern:
    """Means over the query rows that could do otherwise (at least two visible keys; ``rows`` of them). All weights are
    from 0 to 1; all means are 0 where there is no such row, and NaN where any such row is (see ``defined``).

    tokens, queries: how many there are; fewer queries than tokens where a prefix was cached. entropy: in nats, and
    ``relative`` divided by the entropy of equal weights. previous, own, first: the weight on the token before, on the
    query's own place, on token 0. after_earlier: the weight on the tokens that follow an earlier occurrence of the
    query's own token, over the rows that have one (None where no row has). distances: the weight on the key 0, 1, 2, …
    places back, the last entry for that far and further. picture: the weights, [queries, tokens] or smaller, each entry
    the largest of the rows and keys it stands for; NaN where no key is visible.
    """

    tokens: int
    queries: int
    rows: int
    entropy: float
    relative: float
    previous: float
    own: float
    first: float
    after_earlier: float | None
    repeats: int
    distances: Floats
    picture: Floats

    @property
    def defined(self) -> bool:
        """Whether every row has numbers: one that is NaN says nothing, so neither does a mean over it."""
        return bool(np.isfinite(self.entropy))


def pattern(head: Head, ids: Sequence[int], *, distances: int = 12, picture: int = 16) -> Pattern:
    """Return the figures of one head for the tokens ``ids``: keys are all of them, queries the last ones (all, unless a
    prefix was cached).

    Rows with a single visible key are left out of the means: they have no choice.
    """
    tokens = np.asarray(ids)
    count = len(tokens)
    sums = dict.fromkeys(("previous", "own", "first", "after"), 0.0)
    chosen = repeats = 0
    even = entropy = 0.0
    back = np.zeros(distances)
    queries = head.visibility.tq
    small = np.full((min(picture, queries), min(picture, count)), np.nan)
    cached = count - queries
    spread = head.entropy
    for start in range(0, queries, _ROWS):
        stop = min(start + _ROWS, queries)
        weights = head.weights(slice(start, stop))
        visible = head.visibility.rows(start, stop)
        _shrink(small, weights, visible, start, queries)
        for row, allowed, place in zip(weights, visible, range(start + cached, stop + cached), strict=True):
            seen = int(allowed.sum())
            if seen < 2:
                continue
            chosen += 1
            even += float(np.log(seen))
            entropy += float(spread[place - cached])
            sums["own"] += float(row[place])
            sums["previous"] += float(row[place - 1])
            sums["first"] += float(row[0])
            near = row[: place + 1][::-1]
            back[: min(distances - 1, place + 1)] += near[: distances - 1]
            back[-1] += float(near[distances - 1 :].sum())
            # Keys whose token before is the query's own. Found row by row: for all rows they are up to T² places.
            after = tokens[: max(place - 1, 0)] == tokens[place]
            if after.any():
                repeats += 1
                sums["after"] += float(row[1:place][after].sum())
    many = max(chosen, 1)
    return Pattern(
        tokens=count,
        queries=queries,
        rows=chosen,
        entropy=entropy / many,
        relative=entropy / even if even > 0 else 0.0,
        previous=sums["previous"] / many,
        own=sums["own"] / many,
        first=sums["first"] / many,
        after_earlier=sums["after"] / repeats if repeats else None,
        repeats=repeats,
        distances=back / many,
        picture=small,
    )


def _shrink(small: Floats, weights: Floats, visible: NDArray[np.bool_], start: int, queries: int) -> None:
    """Enter a block of rows, of so many ``queries``, into the picture: each entry the largest weight of what it stands
    for."""
    rows, places = small.shape
    count = weights.shape[1]
    columns = np.arange(count) * places // count
    bounds = np.searchsorted(columns, np.arange(places))
    shown = np.where(visible, weights, -1.0)
    for offset, row in enumerate(np.maximum.reduceat(shown, bounds, axis=1)):
        place = (start + offset) * rows // queries
        small[place] = np.fmax(small[place], np.where(row < 0, np.nan, row))
