"""What the tests of verification share: one thread, and small live models."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.conftest import random_model
from tracer.records import Status
from tracer.verification.records import Outcome, Verification

# Short prompts on tiny models: enough for every check.
IDS = tuple(int(id) for id in torch.randint(0, 97, (31,), generator=torch.Generator().manual_seed(5)))


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from more, and lose much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def live_model(implementation: str = "sdpa", dtype: str = "float32", **changes: Any) -> Any:
    """Return a random model in eval mode whose config names an attention implementation."""
    model = random_model(dtype, **changes)
    model.config._attn_implementation = implementation
    return model


def outcome(found: Verification, id: str, scenario: str = "plain") -> Outcome:
    """Return one outcome of a verification."""
    return next(o for o in found.outcomes if (o.check.id, o.scenario) == (id, scenario))


def status(found: Verification, id: str, scenario: str = "plain") -> Status:
    """Return how a check ended in a scenario."""
    return outcome(found, id, scenario).check.status


def failed(found: Verification) -> set[str]:
    """Return the ids of the checks that failed."""
    return {o.check.id for o in found.failures}
