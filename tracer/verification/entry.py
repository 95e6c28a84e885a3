"""From what was asked for to a verification: of a checkpoint on transformers' own code, or of a live model.

Must not know: command lines, how results are shown.
"""

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracer.checkpoint.checkpoint import Checkpoint
from tracer.checkpoint.open import open_checkpoint
from tracer.engines.ambient import autocast_dtype
from tracer.engines.transformers.live import FromCheckpoint, Live
from tracer.errors import InputError, Unsupported
from tracer.kernels.choose import choose
from tracer.kernels.interfaces import INTERFACES
from tracer.names import LONG_DTYPES, spans
from tracer.pipeline import read_dtype, read_prompt
from tracer.records import CheckpointFacts, Choice
from tracer.texts import Message, message
from tracer.verification import outcomes
from tracer.verification.records import Verification
from tracer.verification.run import Examination, Examined, Progress, examine
from tracer.verification.scenarios import NAMES

ENGINE = "transformers"
_PACKAGES = ("tracer", "torch", "transformers", "numpy", "safetensors")
# Enough tokens for every check, few enough to be quick; not a dimension of any known model.
_LIVE_TOKENS = 43
_MOST_TOKENS = 1024
_FLASH_NAMES = {each.implementation: each.kind for each in INTERFACES}


def verify_checkpoint(
    checkpoint: str | None = None,
    *,
    revision: str | None = None,
    layers: Sequence[int] | None = (0,),
    heads: Sequence[int] | None = None,
    prompt: str | None = None,
    tokens: Sequence[int] | None = None,
    chat: bool = False,
    engine: str = ENGINE,
    kernel: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    scenarios: Sequence[str] | None = None,
    thorough: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Return the verification of a checkpoint's attention on transformers' own code.

    ``layers`` and ``heads`` None: all of them. ``thorough`` changes every token in turn and reads every weight.
    Raises InputError for what cannot be done as asked, Unsupported for what cannot be done here.
    """
    if engine != ENGINE:
        raise Unsupported("verify.engine", engine=engine, known=ENGINE)
    _refuse_nothing(layers=layers, heads=heads, scenarios=scenarios)
    opened = open_checkpoint(checkpoint, revision=revision)
    settings = opened.settings
    looked = tuple(range(settings.layers)) if layers is None else tuple(sorted(set(layers)))
    for layer in looked:
        opened.check_layer(layer)
    chosen_heads = tuple(range(settings.heads)) if heads is None else tuple(sorted(set(heads)))
    for head in chosen_heads:
        opened.check_head(head)
    ids, chosen_ids = _prompt_ids(opened, prompt, tokens, chat)
    run_dtype = read_dtype(opened, dtype)
    chosen = choose(kernel, device=device, dtype=LONG_DTYPES[run_dtype.value], head_dim=settings.head_dim)
    live = FromCheckpoint(opened, max(looked), chosen, run_dtype.value)
    cut, shortened = _shortened(ids, thorough)
    wanted = Examination(looked, chosen_heads, cut, 0, _known(scenarios), thorough, progress)
    result = examine(live, chosen.kind, wanted)
    return _verification(
        live,
        wanted,
        result,
        subject=opened.name,
        facts=opened.facts(),
        choices={
            "engine": Choice(ENGINE, message("pipeline.engine_default")),
            "kernel": Choice(chosen.kind, chosen.reason),
            "device": Choice(chosen.device, chosen.device_reason),
            "dtype": run_dtype,
        },
        warnings=(*opened.warnings, *chosen_ids, *shortened),
    )


def _prompt_ids(
    opened: Checkpoint, prompt: str | None, tokens: Sequence[int] | None, chat: bool
) -> tuple[tuple[int, ...], tuple[Message, ...]]:
    """Return the ids of the prompt and warnings about them. Ids that are given need no tokenizer; where neither a
    prompt nor ids are asked for and there is no tokenizer, ids are chosen as for a live model."""
    if tokens is not None and prompt is None:
        ids = tuple(tokens)
        opened.check_token_ids(ids)
        return ids, ()
    if tokens is None and prompt is None and not chat:
        try:
            opened.tokenizer()
        except InputError as fault:
            if fault.id != "checkpoint.no_tokenizer":
                raise
            ids = _chosen(opened.settings.vocab_size, opened.settings.max_positions)
            return ids, (message("verify.chosen_tokens", count=len(ids)),)
    return tuple(token.id for token in read_prompt(opened, prompt, tokens, chat)), ()


def verify_model(
    model: Any,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    tokens: Sequence[int] | None = None,
    scenarios: Sequence[str] | None = None,
    thorough: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Return the verification of a live Qwen3 model's attention, whatever code and attention function it has.

    ``layers`` and ``heads`` None: all; ``tokens`` None: a fixed pseudo-random prompt. The model, torch and transformers
    are as before afterwards. Raises InputError, Unsupported.
    """
    _refuse_nothing(layers=layers, heads=heads, scenarios=scenarios)
    live = Live(model)
    _refuse_hollow(live)
    facts = live.facts(0)
    looked = _within("layer", layers, len(live.attentions))
    chosen_heads = _within("head", heads, facts.heads)
    vocabulary = live.config.vocab_size
    given = _chosen(vocabulary, facts.max_positions) if tokens is None else _ids(tokens, vocabulary)
    ids, shortened = _shortened(given, thorough)
    wanted = Examination(
        looked, chosen_heads, ids, live.config.pad_token_id or 0, _known(scenarios), thorough, progress
    )
    result = examine(live, live_kind(live), wanted)
    own = message("verify.as_the_model_is")
    values = {"engine": ENGINE, "kernel": live_kind(live), "device": str(live.device), "dtype": live.dtype}
    return _verification(
        live,
        wanted,
        result,
        subject=type(live.model).__name__,
        facts=None,
        choices={name: Choice(value, own) for name, value in values.items()},
        warnings=(
            *_autocast_warnings(live),
            *_compiler_warnings(live),
            *_hook_warnings(live),
            *_window_warnings(live),
            *_frequency_warnings(live),
            *shortened,
        ),
    )


def _refuse_nothing(**asked: Sequence[object] | None) -> None:
    """Raise InputError where none of something is asked for: None means all, an empty list means nothing."""
    for name, some in asked.items():
        if some is not None and not len(some):
            raise InputError("verify.none_asked", name=name)


def _refuse_hollow(live: Live) -> None:
    """Raise Unsupported where a weight has a shape but no numbers; what accelerate holds comes when it is needed."""
    hollow = [name for name, weight in live.model.named_parameters() if weight.is_meta]
    if hollow and not hasattr(live.model, "_hf_hook"):
        raise Unsupported("engine.hollow", weight=hollow[0])


def live_kind(live: Live) -> str:
    """Return the name of the kernel a live model uses, as in ``--kernel``; its own name for any other function."""
    return _FLASH_NAMES.get(live.implementation, live.implementation)


def _verification(
    live: Live,
    wanted: Examination,
    result: Examined,
    *,
    subject: str,
    facts: CheckpointFacts | None,
    choices: Mapping[str, Choice],
    warnings: tuple[Message, ...],
) -> Verification:
    versions = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}}
    return Verification(
        subject=subject,
        checkpoint=facts,
        model=live.facts(wanted.layers[0]),
        versions=versions,
        tokens=wanted.ids,
        layers=wanted.layers,
        heads=wanted.heads,
        scenarios=result.scenarios,
        thorough=wanted.thorough,
        outcomes=outcomes.outcomes(result.findings, result.scenarios),
        windows=result.windows,
        warnings=warnings,
        seconds=result.seconds,
        plain_seconds=result.plain_seconds,
        **choices,
    )


def _within(kind: str, asked: Sequence[int] | None, count: int) -> tuple[int, ...]:
    if asked is None:
        return tuple(range(count))
    for number in asked:
        if not 0 <= number < count:
            raise InputError(f"verify.{kind}_range", found=number, last=count - 1)
    return tuple(sorted(set(asked)))


def _chosen(vocabulary: int, longest: int) -> tuple[int, ...]:
    """Return a fixed pseudo-random prompt."""
    return tuple(int(id) for id in np.random.default_rng(0).integers(0, vocabulary, min(_LIVE_TOKENS, longest)))


def _ids(tokens: Sequence[int], vocabulary: int) -> tuple[int, ...]:
    if not tokens:
        raise InputError("verify.no_tokens")
    for id in tokens:
        if not 0 <= id < vocabulary:
            raise InputError("verify.token_range", found=id, last=vocabulary - 1)
    return tuple(tokens)


def _shortened(ids: tuple[int, ...], thorough: bool) -> tuple[tuple[int, ...], tuple[Message, ...]]:
    """Return the tokens that are used, and a warning where those are not all: the reference costs their square."""
    if thorough or len(ids) <= _MOST_TOKENS:
        return ids, ()
    return ids[:_MOST_TOKENS], (message("verify.shortened", count=len(ids), used=_MOST_TOKENS),)


def _known(scenarios: Sequence[str] | None) -> tuple[str, ...] | None:
    for name in scenarios or ():
        if name not in NAMES:
            raise InputError("verify.unknown_scenario", found=name, known=", ".join(NAMES))
    return None if scenarios is None else tuple(scenarios)


def _autocast_warnings(live: Live) -> tuple[Message, ...]:
    """Return a warning where the caller's autocast would compute in another dtype than what was verified."""
    cast = autocast_dtype(str(live.device))
    return () if cast is None else (message("verify.autocast", cast=cast, dtype=LONG_DTYPES[live.dtype]),)


def _compiler_warnings(live: Live) -> tuple[Message, ...]:
    """Return a warning where what was verified is not what the compiler makes of it."""
    return (message("verify.compiled"),) if live.compiled else ()


def _hook_warnings(live: Live) -> tuple[Message, ...]:
    """Return a warning for each part of an attention that the user's hooks may change."""
    return tuple(message("verify.hooked", name=name, layers=spans(layers)) for name, layers in live.hooked.items())


def _frequency_warnings(live: Live) -> tuple[Message, ...]:
    """Return a warning where the rotary frequencies were rounded with the weights, as ``model.to(dtype)`` does."""
    frequencies = getattr(getattr(live.base, "rotary_emb", None), "inv_freq", None)
    dtype = None if frequencies is None else str(frequencies.dtype).removeprefix("torch.")
    return (message("verify.rounded_frequencies", dtype=dtype),) if dtype in ("bfloat16", "float16") else ()


def _window_warnings(live: Live) -> tuple[Message, ...]:
    """Return a warning where the config sets a window that no layer has."""
    window = getattr(live.config, "sliding_window", None)
    if window is None or "sliding_attention" in live.config.layer_types:
        return ()
    return (message("verify.window_unused", window=window),)
