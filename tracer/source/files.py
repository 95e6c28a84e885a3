"""Source files whose bytes are known: read once, hashed, and never spoken of without that hash.

Must not know: anchors, or what the files are for. Nothing here imports the package whose files it reads.
"""

import hashlib
import importlib.metadata
import importlib.util
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tracer.errors import Unsupported
from tracer.records import Site, Span
from tracer.source import pins
from tracer.source.text import Text


@dataclass(frozen=True)
class SourceFile:
    """One file of one version of a project. ``member`` is its path inside the package."""

    project: str
    version: str
    member: str
    file: Path
    source: str
    sha256: str

    @cached_property
    def text(self) -> Text:
        """The text with its line starts."""
        return Text.of(self.source)

    def site(self, span: Span, scope: str) -> Site:
        """Return the Site of ``span``, with an upstream link where a pin knows this file's sha256."""
        pin = pins.lookup(self.sha256)
        link, kind = pins.permalink(pin, span.line, span.end_line) if pin else (None, "none")
        return Site(
            project=self.project,
            version=self.version,
            path=pin.path if pin else self.member,
            span=span,
            scope=scope,
            code=self.text.code(span),
            sha256=self.sha256,
            permalink=link,
            link_kind=kind,
            file=self.file,
        )


def read(project: str, version: str, member: str, file: Path) -> SourceFile:
    """Return the SourceFile at ``file``; raises Unsupported where it is absent or not UTF-8."""
    try:
        content = file.read_bytes()
        source = content.decode("utf-8")
    except OSError as error:
        raise Unsupported("source.unreadable", file=str(file), why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise Unsupported("source.not_utf8", file=str(file), offset=error.start) from error
    return SourceFile(project, version, member, file, source, hashlib.sha256(content).hexdigest())


def installed(package: str, member: str) -> SourceFile:
    """Return a file of an installed package without importing it; raises Unsupported where it is not installed."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise Unsupported("source.not_installed", package=package)
    root = Path(found.submodule_search_locations[0]).parent
    return read(package, importlib.metadata.version(package), member, root / member)
