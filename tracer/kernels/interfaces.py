"""What is known of flash-attn's major versions: where each is found, on which devices it runs, what it takes.

The facts are those of github.com/Dao-AILab/flash-attention: flash_attn/ (2), hopper/ (3) and flash_attn/cute (4). How
each version's functions are called is in its own signatures (see adapter). Must not know: what is installed here.
"""

from dataclasses import dataclass

CPU_FLASH = "cpu-flash"


@dataclass(frozen=True)
class Interface:
    """One major version of flash-attn. ``kind`` is its name for ``--kernel``, and that of the package that brings it.

    ``module`` holds the functions; ``implementation`` is transformers' name for calling them. It runs on compute
    capabilities from ``oldest_device`` to major ``newest_device`` (None: no end), and takes float16 and bfloat16 with a
    head_dim up to ``largest`` that 8 divides; on the majors ``narrow`` only up to 128, or ``largest`` itself.
    ``oldest`` is the first version whose causal mask is aligned to the bottom right (None: every one).
    """

    kind: str
    module: str
    implementation: str
    oldest_device: tuple[int, int]
    newest_device: int | None = None
    largest: int = 256
    narrow: tuple[int, ...] = ()
    oldest: tuple[int, int] | None = None

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Return whether it runs on a device of this compute capability."""
        end = capability[0] if self.newest_device is None else self.newest_device
        return capability >= self.oldest_device and capability[0] <= end

    def takes(self, head_dim: int, capability: tuple[int, int]) -> bool:
        """Return whether it takes this head_dim there."""
        if head_dim % 8 or head_dim > self.largest:
            return False
        return capability[0] not in self.narrow or head_dim <= NARROW or head_dim == self.largest


NARROW = 128
DTYPES = ("float16", "bfloat16")
# 2.0 aligned causal masks to the top left.
TWO = Interface("flash-attn", "flash_attn", "flash_attention_2", (8, 0), oldest=(2, 1))
# Made for Hopper (its requirement: H100, H800); its wgmma kernels are compiled for 9.0a, which no later device runs.
THREE = Interface("flash-attn-3", "flash_attn_interface", "flash_attention_3", (9, 0), newest_device=9)
# Hopper and Blackwell; head_dims as its own _validate_head_dims has them (192 with 128 is no shape of Qwen3).
FOUR = Interface("flash-attn-4", "flash_attn.cute", "flash_attention_4", (9, 0), newest_device=11, narrow=(10, 11))
# In the order in which auto looks: 2 is the only one with a final release, and the one that both traced code bases name
# (transformers' flash_attention_2, nano-vllm's import); 3 and 4 are betas, taken where 2 cannot be had.
INTERFACES = (TWO, THREE, FOUR)
# Every kernel with flash-attn's functions.
FLASH = (*(each.kind for each in INTERFACES), CPU_FLASH)


def of(kind: str) -> Interface | None:
    """Return the version that ``--kernel`` calls ``kind``; None for another kernel."""
    return next((each for each in INTERFACES if each.kind == kind), None)


def implementing(implementation: str) -> Interface | None:
    """Return the version that transformers calls ``implementation``; None for another attention implementation."""
    return next((each for each in INTERFACES if each.implementation == implementation), None)
