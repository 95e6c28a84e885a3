"""From what a user calls a checkpoint to an opened one.

Must not know: what is done with it.
"""

import os.path
from pathlib import Path

from tracer import data
from tracer.checkpoint.checkpoint import SHIPPED, Checkpoint
from tracer.checkpoint.hub import is_hub_id, open_repository
from tracer.checkpoint.places import Folder, Place
from tracer.checkpoint.wording import shown
from tracer.errors import InputError


def open_checkpoint(where: str | None = None, *, revision: str | None = None) -> Checkpoint:
    """Return the checkpoint at ``where``: a folder, a hub id ``organisation/name``, or None for the one shipped.

    A folder wins over a hub id of the same name; the network is used for a hub id only, and each shard is downloaded
    when one of its tensors is first asked for. ``revision`` is a hub id's commit, branch or tag.
    Raises InputError for whatever is missing, damaged or not a Qwen3 checkpoint; Unsupported for another kind of model.
    """
    return Checkpoint(_place(where, revision))


def _place(where: str | None, revision: str | None) -> Place:
    if where is None or (where == SHIPPED and not os.path.isdir(where)):
        folder = data.shipped_checkpoint(SHIPPED)
    elif "\0" in where or not where:
        raise InputError("checkpoint.no_folder", where=shown(where))
    else:
        folder = Path(where)
        if os.path.isfile(folder):
            raise InputError("checkpoint.not_a_folder", where=str(folder), parent=str(folder.parent))
        if not os.path.isdir(folder):
            if is_hub_id(where):
                return open_repository(where, revision)
            raise InputError("checkpoint.no_folder", where=shown(where))
    if revision is not None:
        raise InputError("checkpoint.revision_of_folder", folder=str(folder), revision=shown(revision))
    return Folder(folder, folder.resolve().name)
