"""Where the archive of a release is: the places pip would ask, in order, each asked once for a package.

Must not know: what is in an archive, where files go.
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import httpx2
from packaging.version import InvalidVersion, Version
from unearth import Link, Package, PackageFinder

from tracer.errors import InputError
from tracer.texts import Message, message
from tracer.vendoring.client import Answer, Client, patiently
from tracer.vendoring.pipconfig import Place, Settings, without_credentials
from tracer.vendoring.records import Archive, Release

_VERSIONS_SHOWN = 5


@dataclass(frozen=True)
class _Answered:
    """What one place has of one package; ``problem`` says why it has nothing."""

    packages: tuple[Package, ...] = ()
    problem: Message | None = None
    unreachable: bool = False


@dataclass
class Indexes:
    """The configured places, and what each of them has answered so far."""

    settings: Settings
    client: Client
    _answered: dict[tuple[str, str], _Answered] = field(default_factory=dict)
    _dead: dict[str, _Answered] = field(default_factory=dict)

    def archives(self, release: Release) -> Iterator[Archive]:
        """Yield an archive of ``release`` from each place that has one, in order: wheels before source archives where
        a wheel is pinned. Raises InputError, with what each place answered, where none has one."""
        found = False
        problems: list[Message] = []
        silent: list[Message] = []  # of places that cannot be reached
        for place in self.settings.places:
            answered = self._ask(place, release.package)
            package = _best(answered.packages, release)
            if package is not None:
                found = True
                yield _archive(package, place)
                continue
            problem = answered.problem or _without(place, release, answered.packages)
            problems.append(problem)
            if answered.unreachable:
                silent.append(problem)
        if found:
            return
        if silent and len(silent) == sum(place.is_remote for place in self.settings.places):
            raise InputError("vendor.no_network", places=in_a_row(silent))
        what = {"package": release.package, "version": release.version}
        raise InputError("vendor.not_found", places=in_a_row(problems), **what)

    def _ask(self, place: Place, package: str) -> _Answered:
        if place.url in self._dead:
            return self._dead[place.url]
        key = (place.url, package)
        if key not in self._answered:
            self._answered[key] = answered = self._ask_now(place, package)
            if answered.unreachable:
                self._dead[place.url] = answered
        return self._answered[key]

    def _ask_now(self, place: Place, package: str) -> _Answered:
        before = len(self.client.answers)
        try:
            packages = self._packages(place, package)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            return _Answered(problem=_problem("vendor.unreachable", place, error), unreachable=True)
        except OSError as error:
            return _Answered(problem=_problem("vendor.unreachable", place, error))
        except (httpx2.HTTPError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            # an index page that is no index page fails wherever its parser first looks
            return _Answered(problem=_problem("vendor.nonsense", place, error))
        if packages:
            return _Answered(packages)
        return _Answered(problem=_why_nothing(place, package, self.client.answers[before:]))

    def _packages(self, place: Place, package: str) -> tuple[Package, ...]:
        finder = PackageFinder(
            session=self.client.http,  # type: ignore[arg-type]  # its own client class does not fit its protocol
            index_urls=[place.url] if place.is_index else [],
            find_links=[] if place.is_index else [place.url],
            trusted_hosts=self.settings.trusted_hosts,
            ignore_compatibility=True,  # files are read, never run: any platform's wheel has them
        )
        with _quiet():
            return patiently(lambda: tuple(finder.find_all_packages(package, allow_yanked=True)))


def _problem(kind: str, place: Place, error: Exception) -> Message:
    detail = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
    return message(kind, place=place.shown, detail=detail)


def _why_nothing(place: Place, package: str, answers: Sequence[Answer]) -> Message:
    if not answers:  # a place that is not asked is one that pip would not trust either
        return message("vendor.untrusted" if place.is_remote else "vendor.has_no", place=place.shown, package=package)
    last = answers[-1]
    if last.status in (404, 410):
        return message("vendor.has_no", place=place.shown, package=package)
    if last.status >= 400:
        return message("vendor.refused", place=place.shown, status=last.status)
    return message("vendor.lists_none", place=place.shown, package=package, detail=last.content_type or "?")


def in_a_row(messages: list[Message]) -> Message:
    """Return one Message that says all of ``messages``, one after the other."""
    if not messages:
        return message("vendor.nothing_asked")
    first, *rest = messages
    return message("vendor.and_then", first=first, rest=in_a_row(rest)) if rest else first


def _best(packages: tuple[Package, ...], release: Release) -> Package | None:
    # Exactly this version: a "+cpu" or "+cu128" build is another one, though "==" would take it.
    exact = [package for package in packages if _is_version(package.version, release.version)]
    kinds = ("wheel", "sdist") if release.archive == "wheel" else ("sdist",)
    for kind in kinds:
        for package in exact:
            if _kind(package.link) == kind:
                return package
    return None


def _is_version(found: str | None, wanted: str) -> bool:
    try:
        return found is not None and Version(found) == Version(wanted)
    except InvalidVersion:
        return found == wanted


def _kind(link: Link) -> str | None:
    if link.is_wheel:
        return "wheel"
    return "sdist" if link.filename.endswith((".tar.gz", ".zip")) else None


def _archive(package: Package, place: Place) -> Archive:
    link = package.link
    hashes = {name: values[0] for name, values in (link.hash_option or {}).items() if isinstance(values[0], str)}
    return Archive(
        kind=_kind(link) or "",
        url=link.url_without_fragment,
        shown=without_credentials(link.url),
        filename=link.filename,
        hashes=tuple(sorted(hashes.items())),
        origin=place.shown,
        local=link.file_path if link.is_file else None,
    )


def _without(place: Place, release: Release, packages: tuple[Package, ...]) -> Message:
    versions = list(dict.fromkeys(package.version or "?" for package in packages))
    shown = ", ".join(versions[:_VERSIONS_SHOWN]) + (", …" if len(versions) > _VERSIONS_SHOWN else "")
    if not versions:
        return message("vendor.has_no", place=place.shown, package=release.package)
    if release.version in versions:
        return message("vendor.has_no_kind", place=place.shown, package=release.package, version=release.version)
    return message("vendor.has_others", place=place.shown, package=release.package, versions=shown)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    # unearth logs what it skips as warnings; the same is said here in the reader's language.
    log = logging.getLogger("unearth")
    propagate, handler = log.propagate, logging.NullHandler()
    log.propagate = False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.propagate = propagate
        log.removeHandler(handler)
