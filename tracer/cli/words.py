"""The words the command line knows: models, kernels, formats, languages, and how near a misspelt one comes.

Must not know: click, what a word leads to.
"""

from collections.abc import Iterable

from tracer.texts import LANGUAGES, Message, message

MODELS = ("qwen3",)
ENGINES = ("transformers", "nano-vllm")
KERNELS = ("auto", "flash-attn", "flash-attn-3", "flash-attn-4", "cpu-flash", "sdpa", "eager")
DEVICES = ("auto", "cpu", "cuda")
DEVICE_MAPS = ("auto",)
DTYPES = ("auto", "float64", "float32", "bfloat16", "float16")
FORMATS = ("terminal", "json")
SHELLS = ("bash", "zsh", "fish")
LANGS = LANGUAGES

# A word this much less alike than the likeliest one is not what was meant.
_NEARLY = 0.1
# What people call things elsewhere → the word used here.
ALSO_KNOWN_AS = {
    "double": "float64", "fp64": "float64", "f64": "float64", "float": "float32", "fp32": "float32", "f32": "float32",
    "bf16": "bfloat16", "half": "float16", "fp16": "float16", "f16": "float16",
    "gpu": "cuda", "flash": "flash-attn", "flash_attention_2": "flash-attn", "fa2": "flash-attn", "fa": "flash-attn",
    "flash_attention_3": "flash-attn-3", "fa3": "flash-attn-3", "flash_attention_4": "flash-attn-4",
    "fa4": "flash-attn-4",
    "hf": "transformers", "cn": "zh", "chinese": "zh", "english": "en", "text": "terminal",
}  # fmt: skip


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words that ``word`` may be a misspelling of, the likeliest first; often none."""
    from difflib import SequenceMatcher, get_close_matches  # only a mistake needs it

    choices = {_bare(choice): choice for choice in known}
    other_name = ALSO_KNOWN_AS.get(_bare(word))
    if other_name in choices:
        return [choices[other_name]]
    meant = _bare(word)[:64]
    likeness = {each: SequenceMatcher(None, each, meant).ratio() for each in get_close_matches(meant, choices)}
    best = max(likeness.values(), default=0.0)
    return [choices[each] for each, alike in likeness.items() if alike >= best - _NEARLY]


def _bare(word: str) -> str:
    """Without dashes before it, which would make any two options look alike."""
    return word.lstrip("-").lower()


def hint(word: str, known: Iterable[str], otherwise: Message) -> Message:
    """Return "Did you mean …?" where a known word is near ``word``, else ``otherwise``."""
    near = nearest(word, known)
    return message("cli.did_you_mean", words=_either(near)) if near else otherwise


def _either(words: list[str]) -> str | Message:
    """Return ``a, b or c``."""
    *before, last = words
    return message("cli.either", words=", ".join(before), last=last) if before else last
