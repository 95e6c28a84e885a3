"""The language of the environment a process runs in.

Must not know: command lines, the texts.
"""

from collections.abc import Mapping

from tracer.texts import DEFAULT_LANGUAGE, LANGUAGES


def of_environment(environ: Mapping[str, str]) -> str:
    """Return the language of the locale, by the rules of gettext: LC_ALL, LC_MESSAGES, LANG; LANGUAGE ranks above them
    unless the locale is the plain C one."""
    locale = next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "C")
    wishes = [locale]
    if locale.split(".")[0] not in ("C", "POSIX"):
        wishes = [*environ.get("LANGUAGE", "").split(":"), locale]
    codes = (wish.replace("-", "_").split("_")[0].split(".")[0].lower() for wish in wishes)
    return next((code for code in codes if code in LANGUAGES), DEFAULT_LANGUAGE)
