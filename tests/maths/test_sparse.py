"""The figures of a long prompt equal those read off the whole matrix of weights."""

from dataclasses import replace

import numpy as np
import pytest

from tracer.maths.attention import head
from tracer.maths.sparse import sparse, top
from tracer.maths.visibility import Visibility

SIGHTS = [
    Visibility(40, 40),
    Visibility(40, 40, left=5),
    Visibility(20, 40),
    Visibility(40, 20),  # the first queries see nothing, and have no key at their place
    Visibility(40, 40, mask=np.arange(1600).reshape(40, 40) % 3 != 1),
]


@pytest.mark.parametrize("sight", SIGHTS, ids=repr)
def test_figures_are_those_of_the_matrix(sight: Visibility) -> None:
    random = np.random.default_rng(0)
    q, k = random.standard_normal((sight.tq, 8)), random.standard_normal((sight.tk, 8))
    found = head(q, k, k, 0.7, sight)
    weights = found.weights(slice(None))
    figures = sparse(found)
    some = weights.sum(axis=1) > 0
    places = np.arange(sight.tq) + sight.tk - sight.tq
    own = np.where(places >= 0, np.take_along_axis(weights, np.maximum(places, 0)[:, None], axis=1)[:, 0], 0.0)
    np.testing.assert_allclose(figures.first[some], weights[some, 0], atol=1e-14)
    np.testing.assert_allclose(figures.own[some], own[some], atol=1e-14)
    np.testing.assert_allclose(figures.heaviest[some], weights[some].max(axis=1), atol=1e-14)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(np.where(weights > 0, weights * np.log(weights), 0.0), axis=1)
    np.testing.assert_allclose(figures.entropy[some], entropy[some], atol=1e-12)
    assert np.isnan(figures.entropy[~some]).all()
    heaviest = top(found, np.arange(sight.tq), 3)
    np.testing.assert_allclose(heaviest.weights, np.sort(weights, axis=1)[:, ::-1][:, :3], atol=1e-14)
    np.testing.assert_allclose(np.take_along_axis(weights, heaviest.keys, axis=1), heaviest.weights, atol=1e-14)


def test_equal_weights_name_the_earlier_key() -> None:
    flat = head(np.zeros((5, 2)), np.ones((5, 2)), np.ones((5, 2)), 1.0, Visibility(5, 5))
    assert top(flat, np.array([4]), 2).keys.tolist() == [[0, 1]]
    assert replace(flat).entropy[4] == pytest.approx(np.log(5))
