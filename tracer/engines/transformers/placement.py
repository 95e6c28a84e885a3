"""Where a model's weights lie during a run: on one device, a layer at a time (the default); spread over devices by
``--device-map auto``; or every layer split over the processes that torchrun started.

Must not know: how either is done, how a command line is read (it names the option that its errors are about).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracer.checkpoint import layout
from tracer.engines.transformers.ranks import Ranks
from tracer.errors import InputError, Unsupported
from tracer.memory import DTYPE_BYTES

if TYPE_CHECKING:  # the command reads this before it says that it prepares anything
    from tracer.checkpoint.checkpoint import Checkpoint
    from tracer.engines.transformers.engine import Wanted
    from tracer.kernels.choose import ChosenKernel
    from tracer.records import LayerTrace, Token

_MAP = "--device-map auto"
_RANKS = "torchrun"


@dataclass(frozen=True)
class Placement:
    """What was asked for: a device map for from_pretrained, or the processes that torchrun started."""

    device_map: str | None = None
    ranks: Ranks | None = None

    @property
    def streamed(self) -> bool:
        """Whether nothing was asked for: one layer at a time is in memory."""
        return self.device_map is None and self.ranks is None

    @property
    def renders(self) -> bool:
        """Whether this process is the one that is given the traces."""
        return self.ranks is None or self.ranks.rank == 0

    @property
    def _how(self) -> str:
        return _RANKS if self.device_map is None else _MAP

    def check(self, engine: str, device: str) -> None:
        """Raise InputError where this contradicts the engine or device that was asked for, or itself."""
        if self.streamed:
            return
        if self.device_map is not None and self.ranks is not None:
            raise InputError("parallel.both")
        if engine != "transformers":
            raise InputError("parallel.engine", how=self._how, engine=engine)
        if self.device_map is not None and device != "auto":
            raise InputError("parallel.device_and_map", device=device)

    def check_kernel(self, kernel: "ChosenKernel") -> None:
        """Raise Unsupported where transformers will put the model on a device that the kernel cannot follow it to."""
        if self.streamed or kernel.device != "cpu":
            return
        from tracer.engines.transformers.loading import accelerator

        found = accelerator()
        if found is not None:
            raise Unsupported(
                "parallel.kernel_place", how=self._how, device=found, kernel=kernel.kind, why=kernel.reason
            )

    def weight_bytes(self, checkpoint: "Checkpoint", last: int, dtype: str) -> int:
        """Return how much memory the weights take that are there at once: of what is streamed, one layer.

        Of several processes, the embedding is whole in each, everything else in one of them. Spread over devices they
        are for transformers to place.
        """
        first = self.ranks is None and last == 0  # of the last layer only what its attention needs is read
        shapes = layout.layer_shapes(checkpoint.settings, 0, attention_only=first)
        layer = sum(math.prod(shape) for shape in shapes.values())
        if self.ranks is None:
            return layer * DTYPE_BYTES[dtype]
        embedding = math.prod(layout.embedding_shape(checkpoint.settings))
        return (layer * (last + 1) + embedding * self.ranks.count) * DTYPE_BYTES[dtype]

    def trace_layers(
        self, checkpoint: "Checkpoint", tokens: "tuple[Token, ...]", wanted: "Wanted", layers: Sequence[int]
    ) -> "tuple[LayerTrace, ...]":
        """Return the trace of each of ``layers``; of several processes, on rank 0 alone. Not for what is streamed."""
        if self.ranks is not None:
            from tracer.engines.transformers import parallel  # only where it is asked for

            return parallel.trace_layers(checkpoint, tokens, wanted, layers, self.ranks)
        from tracer.engines.transformers import spreading

        return spreading.trace_layers(checkpoint, tokens, wanted, layers)
