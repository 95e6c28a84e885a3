"""Which language a reader is spoken to in: the one asked for, else the one of the environment, else English.

Read from the raw arguments, because help and usage errors need it before the arguments can be understood.
Must not know: click, the texts.
"""

from collections.abc import Mapping, Sequence

from tracer.language import of_environment
from tracer.texts import DEFAULT_LANGUAGE, LANGUAGES

OPTION = "--lang"
_SAMPLES = {"zh": "中文"}  # what a stream must be able to carry to be of any use in that language


def asked(arguments: Sequence[str]) -> str | None:
    """Return the language that the last ``--lang`` before a ``--`` asks for; None without one or for an unknown one."""
    found = None
    options = list(arguments)
    if "--" in options:
        options = options[: options.index("--")]
    for position, word in enumerate(options):
        if word == OPTION and position + 1 < len(options):
            found = options[position + 1]
        elif word.startswith(f"{OPTION}="):
            found = word.removeprefix(f"{OPTION}=")
    return found if found in LANGUAGES else None


def choose(arguments: Sequence[str], environ: Mapping[str, str], encoding: str) -> str:
    """Return the language to speak. The environment's language gives way where ``encoding`` cannot carry it."""
    wanted = asked(arguments)
    if wanted is not None:
        return wanted
    language = of_environment(environ)
    return language if can_carry(encoding, language) else DEFAULT_LANGUAGE


def can_carry(encoding: str, language: str) -> bool:
    """Return whether text in ``language`` survives being written in ``encoding``."""
    try:
        _SAMPLES.get(language, "").encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
