"""The hand-written script with the lines about Python's garbage collector that this tool's command has: held while
everything large is imported, and spared a last look at the end."""

import gc

gc.disable()
import atexit  # noqa: E402

import transformers.models.qwen3.modeling_qwen3  # noqa: E402, F401

gc.freeze()
gc.enable()
atexit.register(gc.freeze)

import hooks  # noqa: E402, F401
