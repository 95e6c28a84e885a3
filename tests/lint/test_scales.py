"""Where a scale comes from, and whether it equals head_dim**-0.5: proven, something else, or unknown."""

from pathlib import Path

import pytest

from tests.lint.conftest import Lint, rules
from tracer.lint.records import CausalStatus, KernelStatus, ScaleStatus

EQUAL, OTHER, UNKNOWN = ScaleStatus.EQUAL, ScaleStatus.OTHER, ScaleStatus.UNKNOWN


@pytest.mark.parametrize(
    "scale",
    [
        "head_dim ** -0.5",
        "head_dim ** -.5",
        "1 / head_dim ** 0.5",
        "1.0 / math.sqrt(head_dim)",
        "1 / torch.sqrt(torch.tensor(head_dim))",
        "torch.rsqrt(torch.tensor(head_dim))",
        "math.sqrt(1 / head_dim)",
        "math.pow(head_dim, -0.5)",
        "pow(head_dim, -0.5)",
        "float(head_dim) ** -0.5",
        "head_dim ** -0.25 * head_dim ** -0.25",
        "q.shape[-1] ** -0.5",
        "q.size(-1) ** -0.5",
        "2 / (2 * math.sqrt(head_dim))",
        "None",
    ],
)
def test_every_way_to_write_the_scale_is_the_same(linted: Lint, scale: str) -> None:
    report = linted(
        f"def f(q, k, v, head_dim):\n    return flash_attn_func(q, k, v, softmax_scale={scale}, causal=True)\n"
    )
    (kernel,) = report.kernels
    assert [(each.status, each.normal) for each in kernel.scales] == [(EQUAL, "head_dim**-0.5")]
    assert (kernel.status, report.exit_code) == (KernelStatus.RIGHT, 0)


def test_no_scale_at_all_is_the_default_and_never_missing(linted: Lint) -> None:
    (kernel,) = linted("def f(q, k, v):\n    return flash_attn_func(q, k, v, causal=True)\n").kernels
    (scale,) = kernel.scales
    assert (scale.status, scale.by_default, scale.expression) == (EQUAL, True, "")


@pytest.mark.parametrize(
    ("scale", "normal"),
    [
        ("1.0", "1"),
        ("0.125", "0.125"),
        ("config.query_pre_attn_scalar ** -0.5", "config.query_pre_attn_scalar**-0.5"),
        ("head_dim ** -0.5 * 2", "2 * head_dim**-0.5"),
    ],
)
def test_a_known_other_scale_is_reported_and_not_judged_right(linted: Lint, scale: str, normal: str) -> None:
    report = linted(f"def f(q, k, v, head_dim, config):\n    return flash_attn_func(q, k, v, softmax_scale={scale})\n")
    (kernel,) = report.kernels
    assert [(each.status, each.normal) for each in kernel.scales] == [(OTHER, normal)]
    assert (kernel.status, report.findings, report.exit_code) == (KernelStatus.UNKNOWN, (), 3)


@pytest.mark.parametrize("scale", ["scale", "self.unseen", "lookup()", "table[name]", "head_dim ** power", "*args"])
def test_what_the_source_does_not_say_is_unknown_and_never_passed(linted: Lint, scale: str) -> None:
    given = scale if scale.startswith("*") else f"0.0, {scale}"
    code = f"def f(self, q, k, v, scale, name, power, head_dim, args):\n    return flash_attn_func(q, k, v, {given})\n"
    report = linted(code)
    (kernel,) = report.kernels
    assert [each.status for each in kernel.scales] == [UNKNOWN]
    assert (kernel.status, report.exit_code) == (KernelStatus.UNKNOWN, 3)


FILES = {
    "model/__init__.py": "",
    "model/attention.py": """
        from flash_attn import flash_attn_varlen_func

        class Attention:
            def __init__(self, heads, scale, kv_heads):
                self.scale = scale

            def forward(self, q, k, v, lengths, longest):
                return flash_attn_varlen_func(q, k, v, lengths, lengths, longest, longest, 0.0, self.scale, True)
        """,
    "model/qwen3.py": """
        from .attention import Attention

        class Qwen3Attention:
            def __init__(self, config):
                self.head_dim = config.head_dim
                self.scaling = self.head_dim ** -0.5
                self.attn = Attention(config.heads, self.scaling, kv_heads=config.kv_heads)
        """,
}


def test_a_scale_is_followed_across_files_constructors_and_positions(linted: Lint) -> None:
    (kernel,) = linted(files=FILES).kernels
    (scale,) = kernel.scales
    assert scale.status is EQUAL
    assert [(Path(hop.place.path).name, hop.place.code, hop.binds) for hop in scale.hops] == [
        ("qwen3.py", "self.head_dim ** -0.5", "self.scaling"),
        ("qwen3.py", "self.scaling", "scale"),
        ("attention.py", "scale", "self.scale"),
        ("attention.py", "self.scale", "softmax_scale"),
    ]
    assert dict(kernel.arguments)["causal"] == "True"


@pytest.mark.parametrize(
    "code",
    [
        (
            "def f(q, k, v, head_dim):\n"
            "    kw = {'softmax_scale': head_dim ** -0.5, 'causal': True}\n"
            "    return flash_attn_func(q, k, v, **kw)\n"
        ),
        (
            "def f(q, k, v, head_dim):\n"
            "    kw = dict(causal=True)\n"
            "    kw['softmax_scale'] = head_dim ** -0.5\n"
            "    return flash_attn_func(q, k, v, **kw)\n"
        ),
        (
            "def f(q, k, v, head_dim):\n"
            "    kernel_attn = partial(flash_attn_func, softmax_scale=head_dim ** -0.5, causal=True)\n"
            "    return kernel_attn(q, k, v)\n"
        ),
        (
            "HEAD_DIM = 128\n"
            "SCALE = HEAD_DIM ** -0.5\n"
            "def f(q, k, v):\n"
            "    return flash_attn_func(q, k, v, softmax_scale=SCALE, causal=True)\n"
        ),
        (
            "def inner(q, k, v, **kw):\n"
            "    return flash_attn_func(q, k, v, **kw)\n"
            "def f(q, k, v, head_dim):\n"
            "    return inner(q, k, v, softmax_scale=head_dim ** -0.5, causal=True)\n"
        ),
        (
            "def scale_of(head_dim):\n"
            "    return head_dim ** -0.5\n"
            "def f(q, k, v, head_dim):\n"
            "    return flash_attn_func(q, k, v, softmax_scale=scale_of(head_dim), causal=True)\n"
        ),
        (
            "def f(q, k, v, head_dim, flash):\n"
            "    attn_fn = flash_attn_func if flash else F.scaled_dot_product_attention\n"
            "    return attn_fn(q, k, v, causal=True)\n"
        ),
    ],
    ids=["dict", "entry", "partial", "constants", "kwargs", "return", "variable"],
)
def test_a_scale_is_followed_through(linted: Lint, code: str) -> None:
    report = linted(code)
    assert [kernel.status for kernel in report.kernels] == [KernelStatus.RIGHT]


def test_a_call_through_a_table_is_inferred_and_therefore_unknown(linted: Lint) -> None:
    report = linted("""
        def my_attention(module, query, key, value, attention_mask, scaling=None, is_causal=True):
            return F.scaled_dot_product_attention(query, key, value, scale=scaling, is_causal=is_causal)

        TABLE = {"mine": my_attention}

        class Model(nn.Module):
            def __init__(self, head_dim):
                self.scaling = head_dim ** -0.5

            def forward(self, query, key, value, attention_mask):
                run = TABLE[self.name]
                return run(self, query, key, value, attention_mask, scaling=self.scaling)
    """)
    (kernel,) = report.kernels
    (scale,) = kernel.scales
    assert (scale.status, scale.normal) == (UNKNOWN, "head_dim**-0.5")
    assert scale.why is not None
    assert scale.why.id == "lint.through_table"
    assert report.exit_code == 3


def test_a_parameter_with_no_caller_says_so(linted: Lint) -> None:
    (kernel,) = linted("def f(q, k, v, scale):\n    return flash_attn_func(q, k, v, softmax_scale=scale)\n").kernels
    assert "the parameter scale of f" in str(kernel.scales[0].why)


def test_a_configurations_default_is_not_its_value(linted: Lint) -> None:
    report = linted("""
        class Config:
            hidden_size: int = 64
            heads: int = 4

        def f(q, k, v, config: Config):
            return flash_attn_func(q, k, v, softmax_scale=config.heads ** -0.5)
    """)
    assert [scale.normal for scale in report.kernels[0].scales] == ["num_heads**-0.5"]


def test_what_depends_on_none_is_told_apart_by_caller(linted: Lint) -> None:
    report = linted("""
        def attend(q, k, v, scaling=None):
            if scaling is None:
                scaling = q.size(-1) ** -0.5
            return F.scaled_dot_product_attention(q, k, v, scale=scaling, is_causal=True)

        def whisper(q, k, v, head_dim):
            return attend(q * head_dim ** -0.5, k, v, scaling=1.0)

        def llama(q, k, v):
            return attend(q, k, v)
    """)
    (kernel,) = report.kernels
    assert {scale.status for scale in kernel.scales} == {EQUAL}
    assert rules(report) == []


@pytest.mark.parametrize(
    "code",
    [
        "w = F.softmax(q @ k.transpose(-1, -2) * head_dim ** -0.5, dim=-1)\n    return w @ v",
        "w = torch.softmax(torch.matmul(q, k.mT) / math.sqrt(head_dim), dim=-1)\n    return torch.matmul(w, v)",
        (
            "s = torch.einsum('bhid,bhjd->bhij', q, k)\n"
            "    w = (s / head_dim ** 0.5).softmax(-1)\n"
            "    return torch.einsum('bhij,bhjd->bhid', w, v)"
        ),
        "q = q * head_dim ** -0.5\n    s = q @ k.mT\n    s = s + mask\n    w = nn.Softmax(dim=-1)(s)\n    return w @ v",
        "q = q * head_dim ** -0.25\n    k = k * head_dim ** -0.25\n    return F.softmax(q @ k.mT, -1).to(v.dtype) @ v",
        "s = torch.baddbmm(mask, q, k.mT, alpha=head_dim ** -0.5)\n    return torch.bmm(F.softmax(s, -1), v)",
        "s = q @ k.mT\n    s *= head_dim ** -0.5\n    return F.softmax(s.float(), -1).to(v.dtype) @ v",
    ],
    ids=["at", "matmul", "einsum", "queries", "both", "baddbmm", "in-place"],
)
def test_attention_written_out_is_found_with_its_scale(linted: Lint, code: str) -> None:
    report = linted(f"def f(q, k, v, mask, head_dim):\n    {code}\n")
    (kernel,) = report.kernels
    assert (kernel.kind, kernel.status) in (("explicit", KernelStatus.DEPENDS), ("explicit", KernelStatus.UNKNOWN))
    assert (kernel.causal.status, kernel.why) in ((CausalStatus.DEPENDS, None), (CausalStatus.FALSE, None))
    assert {scale.status for scale in kernel.scales} == {EQUAL}


@pytest.mark.parametrize(
    "code",
    [
        "return torch.softmax(self.router(x), dim=-1)",
        "logits = x @ self.weight.T\n    return F.softmax(logits, dim=-1).topk(2)",
        "return F.log_softmax(x @ x.T, dim=-1)",
    ],
)
def test_a_softmax_that_is_no_attention_is_left_alone(linted: Lint, code: str) -> None:
    assert linted(f"def f(self, x):\n    {code}\n").kernels == ()
