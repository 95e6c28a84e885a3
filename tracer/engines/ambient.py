"""The modes of the thread that calls us: a run must give the numbers it says it gives, whatever they are.

Must not know: models, kernels.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


def autocast_dtype(device: str) -> str | None:
    """Return the dtype, such as bfloat16, that autocast computes in on ``device`` where it is on, else None."""
    import torch

    kind = device.partition(":")[0]
    return str(torch.get_autocast_dtype(kind)).removeprefix("torch.") if torch.is_autocast_enabled(kind) else None


@contextmanager
def plain(device: str) -> Iterator[None]:
    """Run one ``with`` without gradients, without autocast and with new tensors on ``device``; all modes come back.

    Autocast would compute in another dtype than the page names; a default device such as meta would make tensors that
    hold no numbers.
    """
    import torch

    kind = device.partition(":")[0]
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        if torch.is_autocast_enabled(kind):
            stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != kind:
            stack.enter_context(torch.device(device))
        yield
