"""Names that several parts must spell alike: the model family, the dtypes as torch and as safetensors call them, and
a list of numbers.

Must not know: what is done with them.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

MODEL = "qwen3"
# torch's name → safetensors' name, and back
SHORT_DTYPES: Mapping[str, str] = MappingProxyType(
    {"float64": "F64", "float32": "F32", "bfloat16": "BF16", "float16": "F16"}
)
LONG_DTYPES: Mapping[str, str] = MappingProxyType({short: long for long, short in SHORT_DTYPES.items()})


def spans(numbers: Sequence[int], most: int | None = None) -> str:
    """Return numbers as a list in which runs are joined: 0–3, 7; only the first ``most`` runs, then an ellipsis."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    return ", ".join(told if most is None or len(told) <= most else [*told[:most], "…"])
