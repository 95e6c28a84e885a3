"""A checkpoint's tokenizer, through the ``tokenizers`` library alone: text to ids, ids to exact bytes.

Must not know: transformers, whose tokenizer classes take seconds to import and give the same ids.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tracer.checkpoint import chat, strictjson
from tracer.checkpoint.characters import bare_token, joined, text_of, token_bytes
from tracer.checkpoint.places import Place
from tracer.checkpoint.wording import found_there, shown
from tracer.errors import InputError
from tracer.records import Token

FILE = "tokenizer.json"
CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
LARGEST_FILE = 32 * strictjson.MEGABYTE  # Qwen3's has 11; parsed, hostile JSON takes 25 times its size

_SURELY_SHORT = 1 << 16  # bytes of text that are split at once, whatever comes of it
_COMPOSED = 4  # a normaliser composes characters: at most this many bytes become one


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A byte-level BPE tokenizer. ``chat_template`` is None where the checkpoint has none."""

    file: Path
    chat_template: str | None
    special_tokens: dict[str, str]  # "eos_token" → "<|im_end|>", for the chat template
    _inner: Any

    def encode(self, text: str, most: int | None = None) -> tuple[int, ...]:
        """Return the ids of ``text``, nothing added; raises InputError where it holds half a surrogate pair.

        ``most``: how many tokens the model has places for. A text that is sure to have more is refused before it is
        split, which takes megabytes longer than anybody waits for a refusal.
        """
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError as fault:
            raise InputError("checkpoint.text_surrogate", position=fault.start) from None
        if most is not None and size > _SURELY_SHORT and (least := self._least(size)) > most:
            raise InputError("checkpoint.prompt_bytes", size=size, least=least, limit=most)
        return tuple(self._inner.encode(text, add_special_tokens=False).ids)

    def tokens(self, ids: Sequence[int]) -> tuple[Token, ...]:
        """Return each id with its exact bytes; an id that the tokenizer has no token for (padding rows of the
        embedding) has none. Raises InputError for a token that is not written in byte-level characters."""
        return tuple(self._token(id) for id in ids)

    def joined(self, tokens: Sequence[Token]) -> list[tuple[int, int, str | None]]:
        """Return (first, last, text) groups of ``tokens`` that are whole characters (tracer.checkpoint.characters)."""
        return joined(tokens)

    def chat(self, text: str) -> str:
        """Return ``text`` as one user turn in the checkpoint's own chat template, ready for the assistant's answer.

        Raises InputError where there is no template or it does not render.
        """
        if self.chat_template is None:
            raise InputError("checkpoint.no_chat_template", folder=str(self.file.parent))
        return chat.render(self.chat_template, text, self.special_tokens, self.file.parent)

    def _least(self, size: int) -> int:
        """Return a number of tokens that a text of ``size`` bytes has at least; 0 where a token may take in any number
        of spaces."""
        added = self._inner.get_added_tokens_decoder().values()
        if any(token.lstrip or token.rstrip for token in added):
            return 0
        longest = max(len(token.encode("utf-8")) for token in self._inner.get_vocab())
        return size // (longest * _COMPOSED)

    @cached_property
    def _added(self) -> dict[int, str]:
        return {id: token.content for id, token in self._inner.get_added_tokens_decoder().items()}

    def _token(self, id: int) -> Token:
        if id in self._added:  # written as it is, not in byte-level characters
            literal = self._added[id]
            return Token(id, literal.encode("utf-8"), literal)
        written = self._inner.id_to_token(id) if 0 <= id < 1 << 32 else None
        if written is None:
            return bare_token(id)
        data = token_bytes(written)
        if data is None:
            raise InputError("checkpoint.token_not_bytes", file=str(self.file), token=id, found=shown(written))
        return Token(id, data, text_of(data))


def read_tokenizer(place: Place) -> Tokenizer:
    """Return the tokenizer at ``place``; raises InputError where it is missing or is not byte-level BPE."""
    file = place.find(FILE)
    if file is None:
        fault = InputError("checkpoint.no_tokenizer", folder=str(place.folder), found=found_there(place.names()))
        raise place.absent(FILE, fault)
    data = strictjson.read_bytes(file, LARGEST_FILE)
    _check_kind(strictjson.parse_object(data, file), file)
    config_file = place.find(CONFIG)
    config = strictjson.read_object(config_file) if config_file is not None else {}
    return Tokenizer(file, _template(place, config, config_file), _special_tokens(config), _parsed(data, file))


def _check_kind(content: dict[str, Any], file: Path) -> None:
    model = content.get("model")
    kind = model.get("type", "BPE") if isinstance(model, dict) and "merges" in model else None
    if kind != "BPE" or not _mentions_byte_level(content.get("decoder")):
        raise InputError("checkpoint.tokenizer_kind", file=str(file))


def _mentions_byte_level(decoder: object) -> bool:
    if not isinstance(decoder, dict):
        return False
    parts = decoder.get("decoders")
    return decoder.get("type") == "ByteLevel" or (isinstance(parts, list) and any(map(_mentions_byte_level, parts)))


def _parsed(data: bytes, file: Path) -> Any:
    import tokenizers

    try:
        return tokenizers.Tokenizer.from_str(data.decode("utf-8"))
    except Exception as fault:  # the library raises nothing narrower
        raise InputError("checkpoint.tokenizer_invalid", file=str(file), fault=shown(str(fault))) from fault


def _template(place: Place, config: dict[str, Any], config_file: Path | None) -> str | None:
    """Return the chat template: a file of its own, or the entry in tokenizer_config.json (text, or a list of them)."""
    own = place.find(TEMPLATE)
    if own is not None:
        return strictjson.read_text(own, strictjson.MEGABYTE)
    entry = config.get("chat_template")
    if isinstance(entry, list):
        named = {item.get("name"): item.get("template") for item in entry if isinstance(item, dict)}
        entry = named.get("default")
    if entry is not None and not isinstance(entry, str):
        raise InputError("checkpoint.template_kind", file=str(config_file), found=shown(json.dumps(entry)[:100]))
    return entry


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        value = config.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            found[name] = value
    return found
