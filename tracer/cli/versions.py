"""The versions of everything a result may depend on, read from the installed packages' records, importing none of them.

Must not know: what the packages do.
"""

import platform
from importlib import metadata

import tracer.texts as texts

PACKAGES = ("torch", "transformers", "safetensors", "tokenizers", "huggingface-hub", "libcst", "numpy", "flash-attn")


def page(language: str) -> str:
    """Return one line for each: trace, Python, the packages (those not installed say so), the platform."""
    lines = [
        ("trace", _version("tracer", language)),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()})"),
        *((name, _version(name, language)) for name in PACKAGES),
        (texts.message("cli.platform").text(language), platform.platform()),
    ]
    return "".join(f"{name} {version}\n" for name, version in lines)


def _version(name: str, language: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return texts.message("cli.not_installed").text(language)
