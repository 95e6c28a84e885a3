"""How many threads NumPy's matrix products use, and work on all cores. Must not know: what is computed."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

_Part = TypeVar("_Part")
_Made = TypeVar("_Made")


@dataclass
class _Limit:
    """The one limit of this process, and how many ask for it: who comes first sets it, who goes last takes it away."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    held: ExitStack = field(default_factory=ExitStack)


_LIMIT = _Limit()


@contextmanager
def one_thread_a_product() -> Iterator[None]:
    """Let each of NumPy's matrix products run on the thread that asks for it, for one ``with``, or for several at once
    on several threads.

    For small products, and for many side by side: threads of NumPy's that wait for more work would take the cores from
    those of torch, or from one another.
    """
    from threadpoolctl import threadpool_limits

    with _LIMIT.lock:
        if not _LIMIT.users:
            _LIMIT.held.enter_context(threadpool_limits(limits=1, user_api="blas"))
        _LIMIT.users += 1
    try:
        yield
    finally:
        with _LIMIT.lock:
            _LIMIT.users -= 1
            if not _LIMIT.users:
                _LIMIT.held.close()


def side_by_side(work: Callable[[_Part], _Made], parts: Iterable[_Part]) -> list[_Made]:
    """Return what ``work`` makes of each of ``parts``, in their order; it is done on all cores, each product on one."""
    with one_thread_a_product(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, parts))
