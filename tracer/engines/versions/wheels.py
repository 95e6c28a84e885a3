"""A release of a package laid out in a folder of its own, with whatever it requires that is not installed here.

Wheels come from the places that pip would ask, hashes checked; nothing is built, and nothing that is installed changes.
Requirements are taken one by one, newest first, without going back on a choice. Must not know: what is run with it.
"""

import hashlib
import importlib.metadata
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from tracer.errors import InputError, Unsupported
from tracer.source.pins import is_inside

if TYPE_CHECKING:
    from tracer.vendoring.client import Client
    from tracer.vendoring.pipconfig import Settings
    from tracer.vendoring.records import Archive

Report = Callable[[str, int, int | None], None]  # what is fetched, bytes so far, bytes in all
_MOST_BYTES = 1 << 30
_MOST_PACKAGES = 40


def laid_out(package: str, version: str, report: Report | None = None) -> Path:
    """Return the folder that holds ``package`` at ``version``; fetched where it is not there yet.

    Raises InputError where no place has a wheel that fits, or one is damaged.
    """
    root = platformdirs.user_cache_path("tracer") / "wheels" / package
    folder = root / f"{version}-{_environment()}"
    if folder.is_dir():
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".incoming-", dir=root) as scratch:
            content = Path(scratch) / "content"
            _fill(content, Requirement(f"{package}=={version}"), report)
            os.rename(content, folder)
    except OSError as error:
        if folder.is_dir():  # another process was faster
            return folder
        raise InputError("vendor.unwritable", folder=str(root), reason=error.strerror or str(error)) from error
    return folder


def _environment() -> str:
    """Return a name for what is installed here: what is missing depends on it."""
    installed = sorted({f"{dist.name}=={dist.version}" for dist in importlib.metadata.distributions()})
    return hashlib.sha256("\n".join([sys.version, *installed]).encode()).hexdigest()[:12]


def _fill(target: Path, root: Requirement, report: Report | None) -> None:
    # the client and the index take half a second to import: only where something has to be fetched
    from tracer.vendoring import pipconfig
    from tracer.vendoring.client import connect

    settings = pipconfig.read(None)
    pending, chosen = [root], dict[str, str]()
    with connect(settings) as client:
        index = _Index(settings, client, report)
        while pending:
            wanted = pending.pop(0)
            name = canonicalize_name(wanted.name)
            if name in chosen:
                if not wanted.specifier.contains(chosen[name], prereleases=True):
                    raise Unsupported("versions.conflict", requirement=str(wanted), chosen=chosen[name])
                continue
            if wanted is not root and _installed(wanted):
                continue
            if len(chosen) >= _MOST_PACKAGES:
                raise Unsupported("versions.too_many", package=root.name, count=_MOST_PACKAGES)
            chosen[name], required = index.lay_out(wanted, target)
            pending += required


def _installed(wanted: Requirement) -> bool:
    try:
        return wanted.specifier.contains(importlib.metadata.version(wanted.name), prereleases=True)
    except importlib.metadata.PackageNotFoundError:
        return False


@dataclass(frozen=True)
class _Index:
    """The places to ask, over one connection pool."""

    settings: "Settings"
    client: "Client"
    report: Report | None

    def lay_out(self, wanted: Requirement, target: Path) -> tuple[str, list[Requirement]]:
        """Unpack the newest wheel that fits into ``target``; return its version and what it requires itself."""
        version, archive = self._find(wanted)
        with tempfile.TemporaryDirectory(prefix=".wheel-", dir=target.parent) as scratch:
            wheel = Path(scratch) / "wheel.whl"
            self._download(archive, wheel, f"{wanted.name} {version}")
            try:
                with zipfile.ZipFile(wheel) as content:
                    _unpack(content, target, archive.filename)
                    return version, list(_required(content))
            except zipfile.BadZipFile as error:
                raise InputError("vendor.broken", url=archive.shown, detail=str(error)) from error

    def _find(self, wanted: Requirement) -> "tuple[str, Archive]":
        import httpx2
        from unearth import PackageFinder

        from tracer.vendoring.pipconfig import without_credentials
        from tracer.vendoring.records import Archive

        places = self.settings.places
        finder = PackageFinder(
            session=self.client.http,  # type: ignore[arg-type]  # its own client class does not fit its protocol
            index_urls=[place.url for place in places if place.is_index],
            find_links=[place.url for place in places if not place.is_index],
            trusted_hosts=self.settings.trusted_hosts,
            only_binary=[":all:"],
        )
        shown = ", ".join(place.shown for place in places)
        try:
            best = finder.find_best_match(wanted).best
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise InputError(
                "versions.unreachable", requirement=str(wanted), places=shown, detail=str(error)
            ) from error
        except httpx2.HTTPError as error:
            raise InputError("vendor.failed", url=shown, detail=str(error) or type(error).__name__) from error
        if best is None or best.version is None:
            raise InputError("versions.no_wheel", requirement=str(wanted), places=shown)
        link = best.link
        hashes = {name: values[0] for name, values in (link.hash_option or {}).items()}
        return best.version, Archive(
            kind="wheel",
            url=link.url_without_fragment,
            shown=without_credentials(link.url),
            filename=link.filename,
            hashes=tuple(sorted(hashes.items())),
            origin=shown,
            local=link.file_path if link.is_file else None,
        )

    def _download(self, archive: "Archive", wheel: Path, what: str) -> None:
        import httpx2

        from tracer.vendoring import ranges

        last = -1

        def count(done: int, total: int | None) -> None:
            nonlocal last
            if self.report is not None and done >> 20 != last:
                last = done >> 20
                self.report(what, done, total)

        try:
            if archive.local is not None:
                shutil.copyfile(archive.local, wheel)
            else:
                ranges.download(self.client, archive, wheel, count)
        except httpx2.HTTPError as error:
            raise InputError("vendor.failed", url=archive.shown, detail=str(error) or type(error).__name__) from error
        ranges.check_hash(archive, wheel)


def _unpack(wheel: zipfile.ZipFile, target: Path, name: str) -> None:
    members = [member for member in wheel.infolist() if not member.is_dir()]
    bad = next((member.filename for member in members if not is_inside(member.filename)), None)
    if bad is not None:
        raise InputError("vendor.outside", member=bad, archive=name)
    size = sum(member.file_size for member in members)
    if size > _MOST_BYTES:
        raise InputError("vendor.oversize", place=name, found=size, limit=_MOST_BYTES)
    wheel.extractall(target, members)


def _required(wheel: zipfile.ZipFile) -> Iterator[Requirement]:
    """Yield what a wheel requires here, without its extras."""
    name = next(
        (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1), None
    )
    if name is None:
        raise zipfile.BadZipFile("no METADATA")
    for text in HeaderParser().parsestr(wheel.read(name).decode("utf-8", "replace")).get_all("Requires-Dist", []):
        try:
            wanted = Requirement(text)
        except InvalidRequirement as error:
            raise zipfile.BadZipFile(str(error)) from error
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            yield wanted
