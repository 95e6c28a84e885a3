"""The model card, written from what was measured."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracer.checkpoints.recipe.measuring import HeadFigures, NormFigures, PromptRow, TextFigures
from tracer.checkpoints.recipe.places import DEFAULT_PROMPT, HELD_OUT_SEED, RECIPE
from tracer.checkpoints.recipe.settings import Record

TEMPLATE = RECIPE / "card_template.md"


@dataclass(frozen=True)
class Figures:
    """All that the card says in numbers about the saved checkpoint."""

    parameters: int
    sha256: str
    copying: float
    previous: HeadFigures
    induction: HeadFigures
    largest_score: float
    training_text: TextFigures
    held_out_text: TextFigures
    norms: Sequence[NormFigures]
    prompt: Sequence[PromptRow]


def sha256_of(file: Path) -> str:
    """Return the file's SHA-256, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def labelled(figures: Figures, record: Record) -> dict[str, str]:
    """Return the figures that the card lists under a label, written as the card writes them."""
    held, seen = figures.held_out_text, figures.training_text
    return {
        "Previous-token weight, layer 0 head 2": f"{figures.previous.mean:.3f}",
        "Previous-token weight, from 5th to 95th percentile": spread(figures.previous),
        "Induction weight, layer 1 head 5": f"{figures.induction.mean:.3f}",
        "Induction weight, from 5th to 95th percentile": spread(figures.induction),
        "Copy accuracy": f"{figures.copying:.3f}",
        "Largest score of layer 0 head 2": f"{figures.previous.largest_score:.1f}",
        "Largest score of layer 1 head 5": f"{figures.induction.largest_score:.1f}",
        "Largest score of any head": f"{figures.largest_score:.1f}",
        "Loss on held-out text, nats per token": f"{held.loss:.2f}",
        "Loss on training text, nats per token": f"{seen.loss:.2f}",
        "Next-token accuracy on held-out text": f"{held.accuracy:.3f}",
        "Next-token accuracy on training text": f"{seen.accuracy:.3f}",
        "Previous-token weight on held-out text": f"{held.previous:.3f}",
        "Induction weight on held-out text": f"{held.induction:.3f}",
        "Parameters": f"{figures.parameters:,}",
        "Training steps": f"{record.settings.steps:,}",
        "Training seed": str(record.settings.seed),
        "Training time, one CPU thread": f"{record.seconds:.0f} s",
        "Python, torch, transformers": f"{record.python}, {record.torch}, {record.transformers}",
        "SHA-256 of model.safetensors": f"`{figures.sha256}`",
    }


def norm_rows(norms: Iterable[NormFigures]) -> list[tuple[str, ...]]:
    """Return the card's table rows on the norm weights."""
    return [
        (
            f"layer {norm.layer} {norm.name}",
            f"{norm.lowest:.3f}",
            f"{norm.highest:.3f}",
            f"{norm.deviation:.3f}",
            f"{norm.first_half:.3f}",
            f"{norm.second_half:.3f}",
        )
        for norm in norms
    ]


def prompt_table(rows: Iterable[PromptRow]) -> list[tuple[str, ...]]:
    """Return the card's table rows on the default prompt."""
    return [
        (
            str(place),
            f"`{row.token}`",
            *("" if weight is None else f"{weight:.3f}" for weight in (row.previous, row.induction)),
            f"`{row.next_token}`",
            f"{row.next_share:.2f}",
        )
        for place, row in enumerate(rows)
    ]


def spread(figures: HeadFigures) -> str:
    """Return the middle nine tenths of a head's weights, as text."""
    return f"{figures.lowest_twentieth:.3f} to {figures.highest_twentieth:.3f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def card(figures: Figures, record: Record) -> str:
    """Return the whole model card: the template's words, and every number from the figures and the record."""
    return TEMPLATE.read_text(encoding="utf-8").format(
        figures=table(("What", "Measured"), labelled(figures, record).items()),
        norms=table(("Weight", "min", "max", "std", "mean, first half", "mean, second half"), norm_rows(figures.norms)),
        prompt_rows=table(
            ("Position", "Token", "L0H2, previous", "L1H5, induction", "Likeliest next token", "Its probability"),
            prompt_table(figures.prompt),
        ),
        prompt=DEFAULT_PROMPT,
        text_tokens=record.training_text_tokens,
        held_out_seed=HELD_OUT_SEED,
        s=record.settings,
    )
