"""How many threads NumPy's matrix products use, and work on all cores. Must not know: what is computed."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

_Part = TypeVar("_Part")
_Made = TypeVar("_Made")


@contextmanager
def one_thread_a_product() -> Iterator[None]:
    """Let each of NumPy's matrix products run on the thread that asks for it, for one ``with``.

    For small products, and for many side by side: threads of NumPy's that wait for more work would take the cores from
    those of torch, or from one another.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


def side_by_side(work: Callable[[_Part], _Made], parts: Iterable[_Part]) -> list[_Made]:
    """Return what ``work`` makes of each of ``parts``, in their order; it is done on all cores, each product on one."""
    with one_thread_a_product(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, parts))
