"""Names that several parts must spell alike: the model family, and the dtypes as torch and as safetensors call them.

Must not know: what is done with them.
"""

from collections.abc import Mapping
from types import MappingProxyType

MODEL = "qwen3"
# torch's name → safetensors' name, and back
SHORT_DTYPES: Mapping[str, str] = MappingProxyType(
    {"float64": "F64", "float32": "F32", "bfloat16": "BF16", "float16": "F16"}
)
LONG_DTYPES: Mapping[str, str] = MappingProxyType({short: long for long, short in SHORT_DTYPES.items()})
