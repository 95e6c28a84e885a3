"""Which package indexes to ask, and how, as pip's own configuration on this machine says.

Order, weakest first: the sections ``global``, ``install`` and ``download``, each from all configuration files (system,
user, environment, the one PIP_CONFIG_FILE names), then the PIP_… variables. As in pip, a stronger setting replaces a
weaker one, lists too. Source: pip's documentation, "Configuration". Must not know: what is asked of an index.
"""

import configparser
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import platformdirs

from tracer.errors import InputError
from tracer.texts import Message, message

PYPI = "https://pypi.org/simple"
_SECTIONS = ("global", "install", "download")
_TIMEOUT = 15.0  # seconds, pip's default


@dataclass(frozen=True)
class Place:
    """Somewhere to look for archives, a package index or a find-links page or folder, and who named it."""

    url: str
    is_index: bool
    named_by: Message

    @property
    def shown(self) -> str:
        """Its address without credentials."""
        return without_credentials(self.url)

    @property
    def is_remote(self) -> bool:
        """Whether it is asked over the network."""
        return self.url.startswith(("http://", "https://"))


@dataclass(frozen=True)
class Settings:
    """Where to look for archives, in that order, and how to connect."""

    places: tuple[Place, ...]
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    timeout: float = _TIMEOUT  # seconds


def read(
    index: str | None = None, *, environ: Mapping[str, str] | None = None, files: Iterable[Path] | None = None
) -> Settings:
    """Return the settings pip would use here, with ``index`` in place of the index-url if it is given.

    Raises InputError where a configuration file cannot be read or a value makes no sense.
    """
    variables = os.environ if environ is None else environ
    options: dict[str, tuple[str, str]] = {}  # name → value, where it was set
    for section in _merged(config_files(variables) if files is None else files):
        options.update(section)
    for name, value in variables.items():
        if name.startswith("PIP_") and value:
            options[name[4:].lower().replace("_", "-")] = (value, name)
    if index:
        options["index-url"] = (index, "--index")
        options.pop("no-index", None)
    return _settings(options)


def without_credentials(url: str) -> str:
    """Return ``url`` without user, password, query and fragment, fit to be shown."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _settings(options: Mapping[str, tuple[str, str]]) -> Settings:
    def one(name: str) -> str | None:
        return options[name][0].strip() if name in options else None

    def several(name: str) -> tuple[str, ...]:
        return tuple((one(name) or "").split())

    def named_by(name: str) -> Message:
        return message("vendor.by", where=options[name][1]) if name in options else message("vendor.by_default")

    links = (os.path.expanduser(link) if link.startswith("~") else link for link in several("find-links"))
    found = [Place(link, False, named_by("find-links")) for link in links]
    if not _is_true("no-index", options):
        found.append(Place((one("index-url") or PYPI).rstrip("/"), True, named_by("index-url")))
        found += [Place(url.rstrip("/"), True, named_by("extra-index-url")) for url in several("extra-index-url")]
    return Settings(
        places=tuple(found),
        trusted_hosts=several("trusted-host"),
        cert=one("cert"),
        client_cert=one("client-cert"),
        proxy=one("proxy"),
        timeout=_seconds(options),
    )


def _is_true(name: str, options: Mapping[str, tuple[str, str]]) -> bool:
    value, where = options.get(name, ("no", ""))
    word = value.strip().lower()
    if word not in ("y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0"):
        raise InputError("vendor.pip_value", name=name, value=value, where=where, expected="true | false")
    return word in ("y", "yes", "t", "true", "on", "1")


def _seconds(options: Mapping[str, tuple[str, str]]) -> float:
    value, where = options.get("timeout", (str(_TIMEOUT), ""))
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise InputError("vendor.pip_value", name="timeout", value=value, where=where, expected="15")
    return seconds


def _merged(files: Iterable[Path]) -> list[dict[str, tuple[str, str]]]:
    sections: dict[str, dict[str, tuple[str, str]]] = {section: {} for section in _SECTIONS}
    for file in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")  # an absent file is no error
        except (configparser.Error, UnicodeDecodeError, OSError) as error:
            detail = " ".join(str(error).split())
            raise InputError("vendor.pip_config", file=str(file), detail=detail) from error
        for section in filter(parser.has_section, _SECTIONS):
            for name, value in parser.items(section):
                if value:
                    sections[section][name.lower().replace("_", "-").removeprefix("--")] = (value, str(file))
    return list(sections.values())


def config_files(environ: Mapping[str, str]) -> list[Path]:
    """Return the configuration files pip reads on this machine, weakest first (they may not exist)."""
    name = "pip.ini" if sys.platform == "win32" else "pip.conf"
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    files = [folder / name for folder in _system_folders()]
    if not (named and Path(named).exists()):
        files += [folder / name for folder in _user_folders()]
    files.append(Path(sys.prefix) / name)
    return [*files, Path(named)] if named else files


def _system_folders() -> list[Path]:
    if sys.platform == "darwin":
        listed = platformdirs.site_data_dir("pip", appauthor=False, multipath=True)
    else:
        listed = platformdirs.site_config_dir("pip", appauthor=False, multipath=True)
    folders = [Path(folder) for folder in listed.split(os.pathsep)]
    return folders if sys.platform in ("darwin", "win32") else [*folders, Path("/etc")]


def _user_folders() -> list[Path]:
    legacy = Path.home() / ("pip" if sys.platform == "win32" else ".pip")
    folder = Path(platformdirs.user_config_dir("pip", appauthor=False, roaming=True))
    if sys.platform == "darwin" and not folder.is_dir():
        folder = Path.home() / ".config" / "pip"
    return [legacy, folder]
