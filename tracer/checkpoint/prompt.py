"""Whether a sequence of token ids is a prompt the model can take.

Must not know: where the ids came from.
"""

from collections.abc import Sequence

from tracer.checkpoint.settings import Settings
from tracer.errors import InputError


def check_token_ids(ids: Sequence[int], settings: Settings) -> None:
    """Raise InputError where ``ids`` is empty, longer than the model's positions, or leaves the vocabulary."""
    if not ids:
        raise InputError("checkpoint.prompt_empty")
    if len(ids) > settings.max_positions:
        raise InputError("checkpoint.prompt_long", found=len(ids), limit=settings.max_positions)
    for position, id in enumerate(ids):
        if not 0 <= id < settings.vocab_size:
            raise InputError("checkpoint.token_range", token=id, position=position, last=settings.vocab_size - 1)
