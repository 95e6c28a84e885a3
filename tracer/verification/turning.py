"""Measure a rotary embedding from vectors before and after it: which angle each pair of components was turned by, and
from that frequencies, positions and factor.

For pair i of token t, with all heads h as complex numbers x + iy: ratio(t, i) = Σₕ after · conj(before) / Σₕ |before|²,
which is factor · exp(i · position · frequency) if the embedding pairs component i with i + D/2. Must not know: what a
config says, wording.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Floats
from tracer.verification.expected import Ints

Complexes = NDArray[np.complex128]
# Positions are searched this far beyond the expected ones; per-token search is done for this many tokens at most.
_BEYOND = 64
_TOKENS = 64


@dataclass(frozen=True, eq=False)
class Turning:
    """What was measured. ``frequencies`` [D/2]; ``shift`` is how far all positions lie from the expected ones;
    ``positions`` are those of the tokens ``tokens`` (indices into the measured rows); ``residual`` is relative: what no
    turning of pairs (i, i + D/2) by one frequency each explains."""

    factor: float
    frequencies: Floats
    weights: Floats  # [D/2], the share of each pair in all that was turned; they sum to 1
    shift: float
    tokens: Ints
    positions: Floats
    residual: float


def measure(before: Floats, after: Floats, positions: Ints, frequencies: Floats) -> Turning:
    """Return what turned ``before`` into ``after``, both [rows, H, D], at the expected ``positions`` [rows] and
    ``frequencies``, which serve as a starting point."""
    x, y = _complex(before), _complex(after)
    power = np.sum(np.abs(x) ** 2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(power > 0, np.sum(y * np.conj(x), axis=1) / power, 0)
    share = power.sum(axis=0) / max(float(power.sum()), np.finfo(np.float64).tiny)
    found = _frequencies(ratio, power, positions, frequencies)
    factor = _factor(ratio, power)
    shift = _shift(ratio, power, positions, found)
    tokens = np.unique(np.linspace(0, len(positions) - 1, min(_TOKENS, len(positions))).astype(np.int64))
    each = _positions(ratio[tokens], power[tokens], positions, found)
    model = factor * np.exp(1j * (positions[:, None] + shift) * found)
    left = float(np.sqrt(np.sum(np.abs(y - x * model[:, None]) ** 2) / max(np.sum(np.abs(y) ** 2), 1e-300)))
    return Turning(factor, found, share, shift, tokens, each, left)


def theta_of(frequencies: Floats, weights: Floats) -> float:
    """Return the theta for which frequency i = theta^(−2i/D) fits best; NaN where the frequencies say nothing."""
    exponent = np.arange(len(frequencies)) / len(frequencies)
    usable = (frequencies > 0) & (exponent > 0)
    if not usable.any():
        return float("nan")
    x, g, w = exponent[usable], frequencies[usable], weights[usable]
    trust = w * g**2  # the error of a frequency is about the same for every pair, so that of its logarithm is not
    square = float(np.sum(trust * x**2))
    return float(np.exp(-np.sum(trust * x * np.log(g)) / square)) if square > 0 else float("nan")


def _complex(x: Floats) -> Complexes:
    half = x.shape[-1] // 2
    joined: Complexes = x[..., :half] + 1j * x[..., half:]
    return joined


def _frequencies(ratio: Complexes, power: Floats, positions: Ints, start: Floats) -> Floats:
    """Return the frequency of each pair: from neighbours in position where the start is far off, then refined."""
    found = start
    if _agreement(ratio, power, positions, found) < 0.9:
        follows = np.flatnonzero(np.diff(positions) == 1)
        if follows.size == 0:
            return start
        weight = np.minimum(power[follows], power[follows + 1])
        steps = np.sum(weight * _unit(ratio[follows + 1]) * np.conj(_unit(ratio[follows])), axis=0)
        found = np.angle(steps)
    for _ in range(3):
        found = found + _slope(ratio, power, positions, found)
    return found


def _slope(ratio: Complexes, power: Floats, positions: Ints, frequencies: Floats) -> Floats:
    turned = ratio * np.exp(-1j * positions[:, None] * frequencies)
    middle = np.sum(power * turned, axis=0)
    angle = np.angle(turned * np.conj(_unit(middle)))
    total = np.maximum(power.sum(axis=0), 1e-300)
    centred = positions[:, None] - np.sum(power * positions[:, None], axis=0) / total
    spread = np.sum(power * centred**2, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope: Floats = np.where(spread > 0, np.sum(power * centred * angle, axis=0) / spread, 0.0)
    return slope


def _agreement(ratio: Complexes, power: Floats, positions: Ints, frequencies: Floats) -> float:
    """Return how well constant frequencies explain the ratios: 1 perfectly, up to an angle of its own for each pair."""
    turned = power * _unit(ratio) * np.exp(-1j * positions[:, None] * frequencies)
    return float(np.sum(np.abs(turned.sum(axis=0))) / max(float(power.sum()), 1e-300))


def _factor(ratio: Complexes, power: Floats) -> float:
    """Return the factor, weighted so that rounding noise does not bias it upwards."""
    return float(np.sum(power * np.abs(ratio)) / max(float(power.sum()), 1e-300))


def _shift(ratio: Complexes, power: Floats, positions: Ints, frequencies: Floats) -> float:
    middle = np.sum(power * ratio * np.exp(-1j * positions[:, None] * frequencies), axis=0)
    reach = int(positions.max(initial=0)) + _BEYOND
    return float(_match(middle[None], frequencies, np.arange(-reach, reach + 1))[0])


def _positions(ratio: Complexes, power: Floats, expected: Ints, frequencies: Floats) -> Floats:
    reach = int(expected.max(initial=0)) + _BEYOND
    return _match(power * ratio, frequencies, np.arange(-_BEYOND, reach + 1))


def _match(weighted: Complexes, frequencies: Floats, candidates: Ints) -> Floats:
    """Return for each row the position whose angles fit best: a whole one of ``candidates``, which follow one another,
    first, then the fraction that remains."""
    # candidates follow one another: each column is the one before, turned once more
    table = np.repeat(np.exp(-1j * frequencies)[:, None], len(candidates), axis=1)
    table[:, 0] = np.exp(-1j * frequencies * candidates[0])
    np.cumprod(table, axis=1, out=table)
    best = candidates[np.argmax((weighted @ table).real, axis=1)]
    left = np.angle(weighted * np.exp(-1j * best[:, None] * frequencies))
    trust = np.abs(weighted)
    square = np.sum(trust * frequencies**2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        fraction: Floats = np.where(square > 0, np.sum(trust * frequencies * left, axis=1) / square, 0.0)
    found: Floats = best + fraction
    return found


def _unit(x: Complexes) -> Complexes:
    size = np.abs(x)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit: Complexes = np.where(size > 0, x / size, 0)
    return unit
