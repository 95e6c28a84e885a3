"""Which of the processes that torchrun started this one is, and which heads it holds.

Must not know: torch, models.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tracer.errors import InputError

_NUMBERS = ("WORLD_SIZE", "RANK", "LOCAL_RANK")
_PLACES = ("MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Ranks:
    """This process among those that torchrun started: number ``rank`` of ``count``; ``local``: on its own machine."""

    rank: int
    count: int
    local: int

    def share(self, heads: int, rank: int | None = None) -> range:
        """Return which of ``heads`` heads, numbered as in the whole model, lie on ``rank`` (None: on this one).

        transformers' plan splits q_proj, k_proj and v_proj by their output columns, in order and evenly.
        """
        each = heads // self.count
        start = each * (self.rank if rank is None else rank)
        return range(start, start + each)

    def owner(self, head: int, heads: int) -> int:
        """Return the rank that ``head`` of ``heads`` lies on."""
        return head // (heads // self.count)


def ranks_of(environ: Mapping[str, str]) -> Ranks | None:
    """Return this process's place among those that torchrun started; None where it is on its own.

    Raises InputError where WORLD_SIZE says that there are several, but not all that torchrun sets is there.
    """
    if environ.get("WORLD_SIZE", "1").strip() in ("", "1"):
        return None
    missing = [name for name in (*_NUMBERS, *_PLACES) if not environ.get(name)]
    wrong = [name for name in _NUMBERS if name not in missing and not environ[name].strip().isdecimal()]
    if missing or wrong:
        named = ", ".join([*missing, *(f"{name}={environ[name]}" for name in wrong)])
        raise InputError("parallel.environment", count=environ["WORLD_SIZE"], names=named)
    count, rank, local = (int(environ[name]) for name in _NUMBERS)
    if not 0 <= rank < count:
        raise InputError("parallel.environment", count=count, names=f"RANK={rank}")
    return Ranks(rank, count, local)


def check_alone(environ: Mapping[str, str], command: str) -> None:
    """Raise InputError where torchrun started several processes for ``command``, which is for one."""
    ranks = ranks_of(environ)
    if ranks is not None:
        raise InputError("parallel.one_process", command=command, count=ranks.count)
