"""The training: next-token prediction, and a bounded extra loss on two heads."""

import math
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional
from transformers import GenerationConfig, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from tracer.checkpoints.recipe.attention import head_scores, log_odds, watched_layers
from tracer.checkpoints.recipe.data import (
    Batch,
    echoed,
    induction_positions,
    noisy,
    previous_positions,
    repeated_batch,
    text_batches,
)
from tracer.checkpoints.recipe.places import INDUCTION_HEAD, PREVIOUS_TOKEN_HEAD
from tracer.checkpoints.recipe.settings import Record, Settings
from tracer.checkpoints.recipe.tokens import END_OF_TEXT, MAX_LENGTH


def new_model(tokenizer: PreTrainedTokenizerBase, seed: int) -> Qwen3ForCausalLM:
    """Return the untrained model; its shape keeps heads * head_dim and hidden / heads apart from every other size."""
    end_of_text = tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=MAX_LENGTH,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        rms_norm_eps=1e-6,
        attention_bias=False,
        tie_word_embeddings=True,
        dtype="float32",
        bos_token_id=end_of_text,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=end_of_text,
    )
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(config)
    # Greedy by default: the same prompt gives the same text every time.
    model.generation_config = GenerationConfig(
        bos_token_id=end_of_text,
        eos_token_id=[tokenizer.eos_token_id, end_of_text],
        pad_token_id=end_of_text,
        do_sample=False,
    )
    return model


def trained_model(
    model: Qwen3ForCausalLM, documents: Sequence[Sequence[int]], settings: Settings, report_every: int = 100
) -> Record:
    """Return the record of the run; the model is trained in place."""
    random = Random(settings.seed)
    texts = text_batches(documents, settings.text_rows, settings.text_lengths, random)
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    norms = [weight for weight in model.parameters() if weight.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": norms, "weight_decay": 0.0}],
        lr=settings.peak_rate,
        betas=(0.9, 0.98),
    )
    model.train()
    started = time.perf_counter()
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, settings)
        if step % settings.long_every == settings.long_every - 1:
            rows, length = settings.long_rows, settings.long_length
        else:
            rows, length = settings.random_rows, settings.random_length
        copied = losses(model, repeated_batch(rows, length, model.config.vocab_size, random), settings)
        text = echoed(noisy(next(texts), settings.text_noise, model.config.vocab_size, random), random)
        with dropout(model, settings.text_dropout):
            read, _ = losses(model, text, settings)
        # The heads are shaped as they will be read: bounds met under dropout are overshot without it.
        _, read_shaping = losses(model, text, settings)
        loss = copied[0] + read + settings.shaping * (copied[1] + read_shaping)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if report_every and step % report_every == report_every - 1:
            figures = "  ".join(f"{value.item():.3f}" for value in (*copied, read, read_shaping))
            print(f"step {step + 1}  {time.perf_counter() - started:.0f} s  copying, shaping, text, shaping: {figures}")
    model.eval()
    return Record(
        settings=settings,
        seconds=round(time.perf_counter() - started, 1),
        training_text_tokens=sum(map(len, documents)),
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=transformers.__version__,
    )


def losses(model: Qwen3ForCausalLM, batch: Batch, settings: Settings) -> tuple[Tensor, Tensor]:
    """Return the prediction loss and the shaping loss of one batch."""
    with watched_layers(model) as seen:
        logits = model(batch.ids, use_cache=False).logits[:, :-1]
    prediction = functional.cross_entropy(logits[batch.predictable], batch.targets[batch.predictable])
    shaping = torch.zeros(())
    for (layer, head), positions in (
        (PREVIOUS_TOKEN_HEAD, previous_positions(batch.ids)),
        (INDUCTION_HEAD, induction_positions(batch.ids)),
    ):
        odds = log_odds(head_scores(model, seen[layer], layer, head), positions)
        shaping = shaping + outside_bounds(odds, settings.share_bounds).mean()
    return prediction, shaping


def outside_bounds(odds: Tensor, shares: tuple[float, float]) -> Tensor:
    """Return how far each row's log odds are outside those of the two shares, zero inside."""
    low, high = (math.log(share / (1 - share)) for share in shares)
    return (low - odds).relu() + (odds - high).relu()


@contextmanager
def dropout(model: Qwen3ForCausalLM, share: float) -> Iterator[None]:
    """Return nothing; while it lasts, drop a share of what the embedding and every sublayer add."""

    def drop(_module: nn.Module, _args: tuple[Any, ...], output: Tensor) -> Tensor:
        return functional.dropout(output, share)

    adding = [model.model.embed_tokens]
    for block in model.model.layers:
        adding += [block.self_attn.o_proj, block.mlp.down_proj]
    handles = [module.register_forward_hook(drop) for module in adding]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def learning_rate(step: int, settings: Settings) -> float:
    """Return the rate of one step: a straight warm-up, then half a cosine."""
    if step < settings.warm_up:
        return settings.peak_rate * (step + 1) / settings.warm_up
    done = (step - settings.warm_up) / max(1, settings.steps - settings.warm_up)
    return settings.last_rate + (settings.peak_rate - settings.last_rate) * (1 + math.cos(math.pi * done)) / 2
