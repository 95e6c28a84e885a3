"""What tracing adds to a forward pass: ``python -m tests.benchmarks.forward``.

A random model of Qwen3-0.6B's shape in bfloat16 (1.2 GB) runs whole, through transformers' own flash path on the CPU
kernel, plain and traced in turn; traced means every probe of one layer captures. Printed are medians of the ratio
within each pair. Nothing here is a test: timing never decides one.
"""

import argparse
import importlib
import statistics
import time
from typing import Any

import torch
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3Model

from tracer.capture.instrument import Instrumentation, instrument
from tracer.capture.recorder import Recorder
from tracer.engines.transformers import steps
from tracer.engines.transformers.lending import KernelWatch, lent
from tracer.kernels import cpu_flash
from tracer.source import anchors, files

LAYER = 14
SHAPE: dict[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
}


def model() -> Any:
    """Return a random Qwen3Model of the shape above, bfloat16, on the flash path."""
    torch.manual_seed(0)
    with torch.device("meta"):
        made = Qwen3Model(Qwen3Config(**SHAPE)).eval()
    weights = {name: (torch.randn(p.shape) * 0.02).bfloat16() for name, p in made.named_parameters()}
    made.load_state_dict(weights, assign=True)
    made.rotary_emb = type(made.rotary_emb)(made.config)
    made.config._attn_implementation = "flash_attention_2"
    return made


def forward(made: Any, ids: torch.Tensor) -> float:
    """Return the seconds of one forward pass."""
    length = ids.shape[1]
    bounds = torch.tensor([0, length], dtype=torch.int32)
    start = time.perf_counter()
    with torch.no_grad():
        made(ids, use_cache=False, cu_seq_lens_q=bounds, cu_seq_lens_k=bounds, max_length_q=length, max_length_k=length)
    return time.perf_counter() - start


def ratios(made: Any, code: Instrumentation, recorder: Recorder, length: int, pairs: int) -> list[float]:
    """Return traced / plain for each of ``pairs`` pairs of forward passes over ``length`` tokens."""
    ids = torch.randint(0, SHAPE["vocab_size"], (1, length))
    attention = made.layers[LAYER].self_attn
    forward(made, ids)
    found = []
    for _ in range(pairs):
        plain = forward(made, ids)
        hooks = [
            attention.register_forward_pre_hook(lambda *_: recorder.open("attention")),
            attention.register_forward_hook(lambda *_: recorder.close()),
        ]
        with code.swapped(recorder):
            traced = forward(made, ids)
        for hook in hooks:
            hook.remove()
        if not recorder.seen:
            raise RuntimeError("the traced forward captured nothing: the ratio would mean nothing")
        recorder.seen.clear()
        found.append(traced / plain)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--pairs", type=int, default=9)
    pairs = parser.parse_args().pairs
    utils = importlib.import_module("transformers.modeling_flash_attention_utils")
    defined = anchors.definitions("transformers")
    sources = {key: files.installed("transformers", member) for key, member in defined.files.items()}
    table = anchors.table(defined, sources, cache=None)
    recorder = Recorder()
    watch = KernelWatch(cpu_flash.flash_attn_varlen_func, recorder)
    made = model()
    with lent(utils, watch, cpu_flash.flash_attn_func):
        code = instrument(table, steps.probed(table, "flash"))
        for length in (64, 512):
            found = ratios(made, code, recorder, length, pairs)
            spread = f"{min(found):.3f} to {max(found):.3f}"
            print(f"{length:4} tokens: traced / plain {statistics.median(found):.3f}   ({spread}; wanted 1.05)")


if __name__ == "__main__":
    main()
