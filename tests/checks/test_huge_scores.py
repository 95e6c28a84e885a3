"""Scores so large that a float32 logsumexp cannot say whether weights sum to 1."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from tracer.records import Status

Setup = Callable[..., Any]


def huge(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return q * 1e12, k, v


def test_a_sum_that_the_logsumexp_cannot_tell_is_not_judged(setup: Setup) -> None:
    check = setup(tensors=huge, dtype="F32").checks()["softmax.rows"]
    assert check.status is Status.NOT_TESTABLE
    assert "the scores are so large that float32 holds the logsumexp only to" in check.reason.text()
