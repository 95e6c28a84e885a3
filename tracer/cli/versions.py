"""The versions of everything a result may depend on, read from the installed packages' records, importing none of them.

Must not know: what the packages do.
"""

import platform
import sys
from importlib import metadata

import tracer.texts as texts

PACKAGES = (
    "torch", "transformers", "safetensors", "tokenizers", "huggingface-hub", "libcst", "numpy", "flash-attn",
    "flash-attn-3", "flash-attn-4",
)  # fmt: skip


def page(language: str) -> str:
    """Return one line for each: trace, Python, the packages (those not installed say so), the platform."""
    lines = [
        ("trace", _version("tracer", language)),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()})"),
        *((name, _version(name, language)) for name in PACKAGES),
        (texts.message("cli.platform").text(language), _platform()),
    ]
    return "".join(f"{name} {version}\n" for name, version in lines)


def _platform() -> str:
    """Return system, release and machine, and the C library where one is known: ``Linux-6.8-x86_64-glibc2.39``.

    Not platform.platform(): that asks for the processor too, which starts the program ``uname``.
    """
    machine = platform.uname()
    release = (platform.mac_ver()[0] if sys.platform == "darwin" else "") or machine.release
    system = "macOS" if sys.platform == "darwin" else machine.system
    library = "".join(platform.libc_ver()) if sys.platform == "linux" else ""
    return "-".join(part for part in (system, release, machine.machine, library) if part)


def _version(name: str, language: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return texts.message("cli.not_installed").text(language)
