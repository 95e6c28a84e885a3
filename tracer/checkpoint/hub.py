"""A repository on the Hugging Face hub, each file downloaded into the hub's own cache when it is first asked for.

Must not know: what the files mean.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from tracer.checkpoint.places import checked
from tracer.checkpoint.wording import shown
from tracer.errors import InputError

CONFIG = "config.json"
SECONDS = 5.0  # to wait for the hub's first answer
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[\w.][\w./-]{0,200}", re.ASCII)


def is_hub_id(text: str) -> bool:
    """Return whether ``text`` has the form ``organisation/name``."""
    return _HUB_ID.fullmatch(text) is not None


@dataclass(frozen=True)
class Repository:
    """One commit of a hub repository. ``online`` False: only what the cache holds."""

    name: str
    revision: str | None
    folder: Path  # the commit's snapshot in the cache
    online: bool
    complete: bool = False

    def names(self) -> tuple[str, ...]:
        """Return the names of the files downloaded so far, sorted."""
        return tuple(sorted(path.name for path in self.folder.iterdir()))

    def find(self, name: str) -> Path | None:
        """Return the path of the file ``name`` in the cache, downloaded if need be; None where the hub has none."""
        path = self.folder / name
        if not path.exists():
            if not self.online or _ask(self.name, name, self.revision) is None:
                return None
            _download(self.name, name, self.revision)
        return checked(path, self.folder)

    def absent(self, file: str, fault: InputError) -> InputError:
        """Return the error for the absence of ``file``: offline the hub may have it, ``fault`` would mislead."""
        return fault if self.online else InputError("checkpoint.hub_missing_here", name=self.name, file=shown(file))


def open_repository(name: str, revision: str | None) -> Repository:
    """Return the repository ``name`` at ``revision`` (a commit, branch or tag; None: main), config.json in the cache.

    Without network, or with HF_HUB_OFFLINE set, the cached snapshot is taken; raises InputError where there is none.
    """
    from huggingface_hub import constants

    if revision is not None and (_REVISION.fullmatch(revision) is None or ".." in revision):
        raise InputError("checkpoint.revision_form", found=shown(revision))
    if constants.HF_HUB_OFFLINE:
        return _cached(name, revision, InputError("checkpoint.hub_offline", name=name))
    try:
        commit = _ask(name, CONFIG, revision)
    except InputError as fault:
        return _cached(name, revision, fault)
    if commit is None:
        raise InputError("checkpoint.hub_no_config", name=name)
    # By the name of the branch, so that the cache notes which commit it is now and can serve it offline.
    folder = _download(name, CONFIG, revision).parent
    return Repository(name, folder.name, folder, online=True)


def _ask(name: str, file: str, revision: str | None) -> str | None:
    """Return the commit that ``revision`` is now, or None where it has no file ``file``; raises InputError otherwise.

    Asked once and with a short timeout: where there is no network, hf_hub_download by itself tries for a minute.
    """
    import huggingface_hub as hub
    from huggingface_hub import errors

    try:
        metadata = hub.get_hf_file_metadata(hub.hf_hub_url(name, file, revision=revision), timeout=SECONDS)
    except errors.RemoteEntryNotFoundError:
        return None
    except errors.GatedRepoError:
        raise InputError("checkpoint.hub_gated", name=name) from None
    except errors.RepositoryNotFoundError:
        raise InputError("checkpoint.hub_unknown", name=name) from None
    except errors.RevisionNotFoundError:
        raise InputError("checkpoint.hub_revision", name=name, revision=shown(revision)) from None
    except errors.HFValidationError:
        raise InputError("checkpoint.no_folder", where=shown(name)) from None
    except (errors.HTTPError, OSError) as fault:
        raise _unreachable(name, fault) from fault
    if metadata.commit_hash is None:  # some other server, or a proxy's own page
        raise InputError("checkpoint.hub_unreachable", name=name, fault="no X-Repo-Commit")
    return str(metadata.commit_hash)


def _download(name: str, file: str, revision: str | None) -> Path:
    """Return the path in the hub's cache of ``file``, downloaded if it is not there."""
    import huggingface_hub as hub
    from huggingface_hub import errors

    try:
        return Path(hub.hf_hub_download(name, file, revision=revision, etag_timeout=SECONDS))
    except (errors.HTTPError, OSError) as fault:
        raise _unreachable(name, fault) from fault


def _cached(name: str, revision: str | None, otherwise: InputError) -> Repository:
    """Return the cached snapshot; raises ``otherwise`` where the cache has none of this revision."""
    import huggingface_hub as hub
    from huggingface_hub import errors

    try:
        file = hub.try_to_load_from_cache(name, CONFIG, revision=revision)
    except errors.HFValidationError:
        raise InputError("checkpoint.no_folder", where=shown(name)) from None
    if not isinstance(file, str):
        raise otherwise
    folder = Path(file).parent
    return Repository(name, folder.name, folder, online=False)


def _unreachable(name: str, fault: Exception) -> InputError:
    return InputError("checkpoint.hub_unreachable", name=name, fault=shown(str(fault) or type(fault).__name__))
