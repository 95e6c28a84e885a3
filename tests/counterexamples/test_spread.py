"""The variance of q·k, measured and modelled."""

import numpy as np
import pytest

from tracer.counterexamples.spread import spread
from tracer.maths.attention import head
from tracer.maths.visibility import Visibility


def test_independent_components_give_the_width_and_after_scaling_one() -> None:
    random = np.random.default_rng(3)
    q, k, v = (random.standard_normal((400, 64)) for _ in range(3))
    found = spread(head(q, k, v, 64**-0.5, Visibility(400, 400)))
    assert found is not None
    assert found.variance == pytest.approx(64, rel=0.05)
    assert found.scaled == pytest.approx(found.variance / 64)
    assert found.independent == pytest.approx(64, rel=0.05)
    assert found.sampled == pytest.approx(64, rel=0.05)
    assert found.pairs == 400 * 401 // 2
    assert found.entropy_unscaled < found.entropy


def test_dependent_components_do_not() -> None:
    q = np.repeat(np.random.default_rng(3).standard_normal((200, 1)), 16, axis=1)
    found = spread(head(q, q, q, 0.25, Visibility(200, 200)))
    assert found is not None
    assert found.variance > 5 * found.independent


def test_one_pair_has_no_variance() -> None:
    one = np.ones((1, 4))
    assert spread(head(one, one, one, 0.5, Visibility(1, 1))) is None
