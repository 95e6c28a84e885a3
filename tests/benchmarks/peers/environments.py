"""A virtual environment for each peer, made once: each gets exactly the packages it asks for, and none of the others'.

Must not know: what is run in them.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# The same numbers come from the same torch and transformers.
SHARED = ("torch==2.13.0", "transformers==5.24.0")


@dataclass(frozen=True)
class Environment:
    """A virtual environment, named after the package it is for, and what pip installs into it beside SHARED."""

    name: str
    packages: tuple[str, ...] = ()

    def python(self, folder: Path) -> Path:
        """Return the interpreter of this environment under ``folder``; it is made where it is not there yet."""
        home = folder / self.name
        python = home / "bin" / "python"
        done = home / "installed.txt"
        wanted = "\n".join((*SHARED, *self.packages))
        if not (done.is_file() and done.read_text() == wanted):
            print(f"installing {', '.join(self.packages) or 'transformers'} into {home} ...", file=sys.stderr)
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "-q", *SHARED, *self.packages], check=True)
            done.write_text(wanted)
        return python

    def version(self, folder: Path) -> str:
        """Return the installed version of what the environment is named after: ``name version``."""
        code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
        command = [str(self.python(folder)), "-c", code, self.name]
        return f"{self.name} {subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()}"
