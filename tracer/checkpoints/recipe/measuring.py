"""The figures of a checkpoint, measured on sequences and text that its training never drew."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM

from tracer.checkpoints.recipe.attention import head_scores, head_weights, watched_layers
from tracer.checkpoints.recipe.data import (
    Batch,
    document_ids,
    induction_positions,
    previous_positions,
    repeated_batch,
)
from tracer.checkpoints.recipe.places import HELD_OUT_SEED, INDUCTION_HEAD, PREVIOUS_TOKEN_HEAD
from tracer.checkpoints.recipe.tokens import shown_token

HELD_OUT_ROWS, HELD_OUT_LENGTH = 64, 48


@dataclass(frozen=True)
class Reading:
    """What the model and its two shaped heads make of some tokens."""

    logits: Tensor  # [rows, length, vocabulary]
    previous: Tensor  # [rows, length]: the weight of the previous-token head on its target, NaN where there is none
    induction: Tensor  # [rows, length]: the same for the induction head


@dataclass(frozen=True)
class HeadFigures:
    """One head's weight on its target, over all rows that have one, and how large its scores are."""

    mean: float
    lowest_twentieth: float
    highest_twentieth: float
    largest_score: float


@dataclass(frozen=True)
class TextFigures:
    """How well the next token of some paragraphs is predicted, and what the two heads do on them."""

    tokens: int
    loss: float
    accuracy: float
    previous: float
    induction: float


@dataclass(frozen=True)
class NormFigures:
    """The spread of one learned norm weight, and of its two halves apart."""

    layer: int
    name: str
    lowest: float
    highest: float
    deviation: float
    first_half: float
    second_half: float


@dataclass(frozen=True)
class PromptRow:
    """One token of the default prompt, as the two heads treat it, and what the model expects after it."""

    token: str
    previous: float | None
    induction: float | None
    next_token: str
    next_share: float


def held_out_sequences(vocabulary: int) -> Batch:
    """Return the repeated random sequences that the card's figures are measured on, the same ones each time."""
    return repeated_batch(HELD_OUT_ROWS, HELD_OUT_LENGTH, vocabulary, Random(HELD_OUT_SEED))


@torch.no_grad()
def copy_accuracy(model: Qwen3ForCausalLM, batch: Batch) -> float:
    """Return the share of predictable tokens that the model ranks first."""
    best = model(batch.ids).logits[:, :-1].argmax(-1)
    return float((best == batch.targets)[batch.predictable].float().mean())


@torch.no_grad()
def reading(model: Qwen3ForCausalLM, ids: Tensor) -> Reading:
    """Return one forward pass over the tokens, with each shaped head's weight on its target."""
    with watched_layers(model) as seen:
        logits = model(ids, use_cache=False).logits
    found = []
    for (layer, head), positions in (
        (PREVIOUS_TOKEN_HEAD, previous_positions(ids)),
        (INDUCTION_HEAD, induction_positions(ids)),
    ):
        weights = head_weights(model, seen[layer], layer, head)
        found.append((weights * positions).sum(-1).masked_fill(~positions.any(-1), float("nan")))
    return Reading(logits, *found)


def head_figures(model: Qwen3ForCausalLM, ids: Tensor) -> tuple[HeadFigures, HeadFigures]:
    """Return the figures of the previous-token head and of the induction head."""
    largest = largest_scores(model, ids)
    read = reading(model, ids)
    figures = []
    for weights, (layer, head) in ((read.previous, PREVIOUS_TOKEN_HEAD), (read.induction, INDUCTION_HEAD)):
        known = weights[~weights.isnan()]
        low, high = known.quantile(torch.tensor([0.05, 0.95])).tolist()
        figures.append(HeadFigures(known.mean().item(), low, high, largest[layer][head]))
    return figures[0], figures[1]


@torch.no_grad()
def largest_scores(model: Qwen3ForCausalLM, ids: Tensor) -> list[list[float]]:
    """Return the largest absolute score of every head, by layer and head."""
    with watched_layers(model) as seen:
        model(ids)
    found = []
    for layer in range(model.config.num_hidden_layers):
        scores = (head_scores(model, seen[layer], layer, head) for head in range(model.config.num_attention_heads))
        found.append([score[score.isfinite()].abs().max().item() for score in scores])
    return found


@torch.no_grad()
def text_figures(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase, paragraphs: Sequence[str]) -> TextFigures:
    """Return the figures over the paragraphs, each read on its own from its first token."""
    loss, right, previous, induction = 0.0, 0, [], []
    documents = [torch.tensor([document_ids(paragraph, tokenizer)]) for paragraph in paragraphs]
    for ids in documents:
        read = reading(model, ids)
        logits, targets = read.logits[0, :-1], ids[0, 1:]
        loss += functional.cross_entropy(logits, targets, reduction="sum").item()
        right += int((logits.argmax(-1) == targets).sum())
        previous.append(read.previous[0])
        induction.append(read.induction[0])
    predicted = sum(ids.shape[1] - 1 for ids in documents)
    return TextFigures(
        tokens=predicted,
        loss=loss / predicted,
        accuracy=right / predicted,
        previous=torch.cat(previous).nanmean().item(),
        induction=torch.cat(induction).nanmean().item(),
    )


def norm_figures(model: Qwen3ForCausalLM) -> list[NormFigures]:
    """Return the spread of q_norm and k_norm in every layer."""
    figures = []
    for layer, block in enumerate(model.model.layers):
        for name in ("q_norm", "k_norm"):
            weight = getattr(block.self_attn, name).weight.detach()
            first, second = weight.chunk(2)
            figures.append(
                NormFigures(
                    layer=layer,
                    name=name,
                    lowest=weight.min().item(),
                    highest=weight.max().item(),
                    deviation=weight.std().item(),
                    first_half=first.mean().item(),
                    second_half=second.mean().item(),
                )
            )
    return figures


def prompt_rows(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[PromptRow]:
    """Return what the two heads and the whole model make of each token of the prompt."""
    ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
    read = reading(model, ids)
    shares, following = read.logits[0].softmax(-1).max(-1)
    return [
        PromptRow(
            token=shown_token(tokenizer, int(ids[0, place])),
            previous=_number(float(read.previous[0, place])),
            induction=_number(float(read.induction[0, place])),
            next_token=shown_token(tokenizer, int(following[place])),
            next_share=float(shares[place]),
        )
        for place in range(ids.shape[1])
    ]


def _number(value: float) -> float | None:
    """Return the value, or None for NaN."""
    return None if value != value else value
