"""The numbers that a training run is given, and those that it leaves behind."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from tracer.checkpoints.recipe.places import TRAINING_SEED


@dataclass(frozen=True)
class Settings:
    """The numbers of one training run."""

    steps: int = 900
    seed: int = TRAINING_SEED
    peak_rate: float = 3e-3
    last_rate: float = 1e-4
    warm_up: int = 100
    weight_decay: float = 0.1
    random_rows: int = 24
    random_length: int = 48
    # Every so many steps the random rows are fewer and longer, so that the heads hold at a distance.
    long_every: int = 4
    long_rows: int = 8
    long_length: int = 128
    text_rows: int = 12
    text_lengths: tuple[int, ...] = (32, 64, 96, 128)
    # Both are against learning so little text by heart: the share of its input tokens that are replaced by random ones,
    # and the dropout on all that is added to the residual stream. Copying random tokens needs neither.
    text_noise: float = 0.15
    text_dropout: float = 0.25
    shaping: float = 0.3
    # No pressure while a head's weight on its target is inside these bounds, and pressure back from outside them:
    # a row of exactly one and zeros would have nothing to read.
    share_bounds: tuple[float, float] = (0.82, 0.93)


@dataclass(frozen=True)
class Record:
    """What is known of a training run once it has ended."""

    settings: Settings
    seconds: float
    training_text_tokens: int
    python: str
    torch: str
    transformers: str

    def to_json(self) -> str:
        """Return the record as JSON text."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """Return the record that the JSON text holds."""
        values = json.loads(text)
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values["settings"].items()
        }
        return cls(**(values | {"settings": Settings(**settings)}))
