"""How many threads NumPy's matrix products use. Must not know: what is computed."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread_a_product() -> Iterator[None]:
    """Let each of NumPy's matrix products run on the thread that asks for it, for one ``with``.

    For small products, and for many side by side: threads of NumPy's that wait for more work would take the cores from
    those of torch, or from one another.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
