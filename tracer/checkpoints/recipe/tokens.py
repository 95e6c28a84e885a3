"""The tokenizer: byte-level BPE in Qwen2's manner, trained on the project's own text."""

import json
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerBase, Qwen2Tokenizer
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
MAX_LENGTH = 2048
SPECIAL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END)

CHAT_TEMPLATE = (
    "{%- for message in messages -%}\n"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "{{- '<|im_start|>assistant\\n' -}}\n"
    "{%- endif -%}\n"
)


def trained_tokenizer(texts: Iterable[str], vocabulary: int) -> Qwen2Tokenizer:
    """Return a Qwen2 tokenizer with ``vocabulary`` tokens, the special ones last, as Qwen's own have them."""
    bpe = Tokenizer(BPE())
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL_TOKENS),
        # Every byte is a token, so that any text can be written, also text the trainer never saw.
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    words, merges = _words_and_merges(bpe)
    tokenizer = Qwen2Tokenizer(
        vocab=words,
        merges=merges,
        # Only <|endoftext|> may fill every role here: special tokens are numbered in the order they are met.
        extra_special_tokens=[TURN_START, TURN_END],
        add_prefix_space=False,
        model_max_length=MAX_LENGTH,
    )
    tokenizer.eos_token = TURN_END
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def shown_token(tokenizer: PreTrainedTokenizerBase, token: int) -> str:
    """Return a token as a reader can see it: its text with blanks marked, or its bytes if a letter is cut."""
    text = str(tokenizer.decode([token]))
    if "\ufffd" not in text:
        return text.replace(" ", "␣").replace("\n", "↵")
    return " ".join(f"{byte:02X}" for byte in token_bytes(tokenizer, token))


def token_bytes(tokenizer: PreTrainedTokenizerBase, token: int) -> bytes:
    """Return the bytes that an ordinary token stands for."""
    letters = byte_letters()
    return bytes(letters[letter] for letter in tokenizer.convert_ids_to_tokens(token))


def byte_letters() -> dict[str, int]:
    """Return the byte that each letter of a byte-level vocabulary stands for.

    The bytes that print stand for themselves, and the others, in order, for the letters from U+0100 on.
    """
    printing = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in printing]
    return {chr(byte): byte for byte in printing} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


def _words_and_merges(bpe: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the vocabulary and the merges of a trained BPE tokenizer."""
    model = json.loads(bpe.to_str())["model"]
    return model["vocab"], [(left, right) for left, right in model["merges"]]
