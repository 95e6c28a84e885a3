"""The independent reference, and what is measured from vectors before and after a rotary embedding."""

import numpy as np
import pytest
import torch

from tracer.verification import expected
from tracer.verification.turning import measure, theta_of

ROPES = {
    "default": {"rope_type": "default", "rope_theta": 1e6},
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
    "yarn": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32768},
    "yarn, own factor": {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "original_max_position_embeddings": 512,
        "attention_factor": 1.3,
        "beta_fast": 16,
        "beta_slow": 2,
    },
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "dynamic, short": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
}


@pytest.mark.parametrize("parameters", ROPES.values(), ids=ROPES)
def test_the_reference_has_transformers_frequencies_and_factor(parameters: dict[str, object]) -> None:
    from transformers import Qwen3Config
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

    most = int(parameters.get("original_max_position_embeddings", 2048) * float(parameters.get("factor", 1)))  # type: ignore[call-overload,operator,arg-type]
    config = Qwen3Config(head_dim=64, max_position_embeddings=most, rope_parameters=dict(parameters))
    real = Qwen3RotaryEmbedding(config)
    rope = expected.rope(config.rope_parameters, 64, most, 50)
    assert rope is not None
    assert np.allclose(rope.frequencies, real.inv_freq.double().numpy(), rtol=2e-6)
    assert rope.factor == pytest.approx(real.attention_scaling, rel=1e-12)


def test_a_kind_without_a_reference_is_not_guessed() -> None:
    assert expected.rope({"rope_type": "longrope", "rope_theta": 1e4}, 16, 512, 20) is None
    assert expected.rope({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}, 16, 512, 600) is None


def test_rms_norm_is_the_models_own() -> None:
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

    norm = Qwen3RMSNorm(16, eps=1e-3).double()
    with torch.no_grad():
        norm.weight.copy_(torch.rand(16) + 0.5)
    x = np.random.default_rng(0).normal(size=(5, 3, 16))
    wanted = norm(torch.from_numpy(x)).detach().numpy()
    assert np.allclose(expected.rms_norm(x, norm.weight.detach().double().numpy(), 1e-3), wanted, atol=1e-6)


class Turned:
    """Random vectors, and how they are turned."""

    def __init__(self, *, theta: float = 1e4, shift: float = 0.0, factor: float = 1.0, rows: int = 40) -> None:
        self.at = np.arange(rows)
        self.before = np.random.default_rng(1).normal(size=(rows, 3, 32))
        self.plain = 1e4 ** -(np.arange(0, 32, 2) / 32)
        used = theta ** -(np.arange(0, 32, 2) / 32)
        self.after = expected.rotate(self.before, ((self.at + shift)[:, None] * used)[:, None], factor)


@pytest.mark.parametrize("theta", [1e4, 5e5, 1e6, 1e2])
def test_theta_is_read_off_the_angles(theta: float) -> None:
    turned = Turned(theta=theta)
    found = measure(turned.before, turned.after, turned.at, turned.plain)
    assert theta_of(found.frequencies, found.weights) == pytest.approx(theta, rel=1e-6)
    assert found.residual < 1e-9


@pytest.mark.parametrize("shift", [0.0, 1.0, -1.0, 17.0, 0.5])
def test_a_shift_of_all_positions_is_read_off_the_angles(shift: float) -> None:
    turned = Turned(shift=shift)
    found = measure(turned.before, turned.after, turned.at, turned.plain)
    assert found.shift == pytest.approx(shift, abs=1e-9)
    assert found.positions == pytest.approx(found.tokens + shift, abs=1e-9)


def test_a_factor_is_read_off_the_lengths() -> None:
    turned = Turned(factor=1.21)
    assert measure(turned.before, turned.after, turned.at, turned.plain).factor == pytest.approx(1.21)


def test_another_pairing_is_no_turning_of_these_pairs() -> None:
    turned = Turned()
    angles = (turned.at[:, None] * turned.plain)[:, None]
    other = expected.rotate_neighbours(turned.before, angles, 1.0)
    assert measure(turned.before, other, turned.at, turned.plain).residual > 0.3


def test_one_token_tells_its_position() -> None:
    turned = Turned(shift=3.0, rows=1)
    found = measure(turned.before, turned.after, np.array([20]), turned.plain)
    assert found.positions == pytest.approx([3.0])
