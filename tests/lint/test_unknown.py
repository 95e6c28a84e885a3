"""What the source does not settle is unknown, with a reason, and never counted as right."""

import pytest

from tests.lint.conftest import Lint
from tracer.lint.records import KernelStatus, ScaleStatus

UNKNOWN = KernelStatus.UNKNOWN
CLASS = """\
class Attention(nn.Module):
    def __init__(self, config, head_dim):
        {init}

    def forward(self, query, key, value, s):
        {before}
        return F.scaled_dot_product_attention(query, key, value, is_causal=True{scale})
"""
OWN = "self.head_dim = head_dim\n        self.scale = head_dim ** -0.5"


def attention(init: str = OWN, before: str = "pass", scale: str = ", scale=self.scale") -> str:
    return CLASS.format(init=init, before=before, scale=scale)


def test_the_class_that_the_others_vary_is_right(linted: Lint) -> None:
    assert [kernel.status for kernel in linted(attention()).kernels] == [KernelStatus.RIGHT]


@pytest.mark.parametrize(
    "before",
    [
        "query = query * self.gain",
        "query = query * s",
        "query = boost(query)",
        "query = query.boost()",
        "key = key / self.temperature",
        "query = boost(self.to_q(query))",
        "query = torch.cat([query, query * 8.0], dim=-1)",
        "query = query ** 2",
        "query[:] = query * 2",
        "query[..., :4] *= 2",
        "torch.mul(query, 2, out=query)",
        "query = query + query",
    ],
)
def test_a_factor_that_is_not_known_is_not_one(linted: Lint, before: str) -> None:
    (kernel,) = linted(attention(before=before)).kernels
    assert kernel.status is UNKNOWN
    assert "multiplies the queries or keys" in str(kernel.reasons[0]) or kernel.scales[0].status is ScaleStatus.OTHER


@pytest.mark.parametrize(
    "before",
    [
        "query = self.q_norm(self.q_proj(query))",
        "query = query.view(1, 2, 3).transpose(1, 2)",
        "query = torch.transpose(query, 1, 2)",
        "query = query * self.cos + turn(query) * self.sin",
        "query, key = apply_rotary_pos_emb(query, key, self.cos, self.sin)",
    ],
)
def test_what_keeps_the_size_of_queries_is_seen_through(linted: Lint, before: str) -> None:
    assert [kernel.status for kernel in linted(attention(before=before)).kernels] == [KernelStatus.RIGHT]


@pytest.mark.parametrize(
    "made",
    ["config.hidden_size", "2 * config.head_dim", "boost(config)", "head_dim * 2", "config.key_dim + config.bonus"],
)
@pytest.mark.parametrize("name", ["head_dim", "key_dim"])
def test_a_name_alone_does_not_make_head_dim(linted: Lint, made: str, name: str) -> None:
    init = f"self.{name} = {made}\n        self.scale = self.{name} ** -0.5"
    (kernel,) = linted(attention(init=init)).kernels
    assert kernel.status is UNKNOWN
    assert kernel.reasons


@pytest.mark.parametrize(
    "made",
    [
        "config.head_dim",
        "getattr(config, 'head_dim', None) or config.hidden_size // config.num_attention_heads",
        "config.hidden_size // config.num_attention_heads",
        "int(config.inner / config.num_heads)",
        "128",
        "config.qk_nope_head_dim + config.qk_rope_head_dim",
    ],
)
def test_head_dim_has_an_origin_of_its_own(linted: Lint, made: str) -> None:
    init = f"self.head_dim = {made}\n        self.scale = self.head_dim ** -0.5"
    assert [kernel.status for kernel in linted(attention(init=init)).kernels] == [KernelStatus.RIGHT]


def test_a_local_name_bound_anew_is_not_the_parameter(linted: Lint) -> None:
    report = linted("""
        def f(q, k, v, head_dim):
            head_dim = head_dim * 2
            return flash_attn_func(q, k, v, softmax_scale=head_dim ** -0.5, causal=True)
    """)
    assert report.kernels[0].scales[0].normal == "0.707107 * head_dim**-0.5"


@pytest.mark.parametrize(
    ("before", "scale", "status"),
    [
        ("query, key = F.pad(query, (0, 64)), F.pad(key, (0, 64))", "", UNKNOWN),
        ("query, key = F.pad(query, (0, 64)), F.pad(key, (0, 64))", ", scale=query.shape[-1] ** -0.5", UNKNOWN),
        ("query = torch.cat([query, torch.zeros(1, 64)], -1)", "", UNKNOWN),
        ("query, key = F.pad(query, (0, 64)), F.pad(key, (0, 64))", ", scale=self.scale", KernelStatus.RIGHT),
        ("query = F.pad(query, (0, 0, 0, 8))", "", KernelStatus.RIGHT),
    ],
)
def test_padding_widens_the_default_scale(linted: Lint, before: str, scale: str, status: KernelStatus) -> None:
    assert [kernel.status for kernel in linted(attention(before=before, scale=scale)).kernels] == [status]


@pytest.mark.parametrize(
    "written",
    [
        "class Model:\n    def __init__(self):\n        self.attn = Attention(1, 64)\n        self.attn.scale = 1.0\n",
        "def patch(model):\n    model.layers[0].mixer.scale = 1.0\n",
        "def patch(model):\n    for layer in model.layers:\n        setattr(layer.mixer, 'scale', 1.0)\n",
        "Attention.scale = 1.0\n",
        "def patch(m):\n    if isinstance(m, Attention):\n        m.scale = 1.0\n",
        "class Sub(Attention):\n    def more(self):\n        self.scale = 1.0\n",
        "class Sub(Attention):\n    @property\n    def scale(self):\n        return 1.0\n",
    ],
)
def test_an_attribute_written_from_elsewhere_is_not_what_init_left(linted: Lint, written: str) -> None:
    kernel = linted(attention() + written).kernels[0]
    assert kernel.status is UNKNOWN
    assert kernel.reasons


@pytest.mark.parametrize(
    "written",
    [
        "class Other:\n    def __init__(self):\n        self.scale = 1.0\n",
        "def patch(config):\n    config.scale = 1.0\n",
        "class Other: pass\ndef patch():\n    other = Other()\n    other.scale = 1.0\n",
        "class Other: pass\ndef patch(m):\n    if isinstance(m, Other):\n        m.scale = 1.0\n",
        "class Sub(Attention):\n    scale = 1.0\n    def forward(self, x):\n        pass\n",
    ],
)
def test_a_write_to_something_else_changes_nothing(linted: Lint, written: str) -> None:
    assert linted(attention() + written).kernels[0].status is KernelStatus.RIGHT


@pytest.mark.parametrize("more", ['setattr(self, "scale", 1.0)', "setattr(self, config.name, 1.0)", "self.scale *= 2"])
def test_init_itself_may_write_it_anew(linted: Lint, more: str) -> None:
    (kernel,) = linted(attention(init=f"{OWN}\n        {more}")).kernels
    assert kernel.status is UNKNOWN
    assert kernel.reasons


def test_what_is_overwritten_is_no_origin_any_more(linted: Lint) -> None:
    (kernel,) = linted(attention(init=f"{OWN}\n        self.scale *= 2")).kernels
    assert [scale.normal for scale in kernel.scales] == ["2 * head_dim**-0.5"]


@pytest.mark.parametrize("scale", ["0.125", "head_dim ** -1", "1.0"])
def test_a_scale_known_to_be_another_says_so(linted: Lint, scale: str) -> None:
    call = f"flash_attn_func(q, k, v, softmax_scale={scale}, causal=True)"
    (kernel,) = linted(f"def f(q, k, v, head_dim):\n    return {call}\n").kernels
    assert (kernel.status, kernel.scales[0].status) == (UNKNOWN, ScaleStatus.OTHER)
    assert "proven to be" in str(kernel.scales[0].why)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("F.softmax(q @ k.mT, dim=axis) @ v", UNKNOWN),
        ("F.softmax(q @ k.mT) @ v", UNKNOWN),
        ("F.softmax(k @ q.mT * q.shape[-1] ** -0.5 + mask, dim=-1) @ v", UNKNOWN),
        ("F.softmax((q @ k.mT).transpose(-1, -2), dim=-1) @ v", UNKNOWN),
        ("softmax(q @ k.mT, -1) @ v", UNKNOWN),
        ("torch.bmm(F.softmax(torch.bmm(q, k.mT), dim=2), v)", KernelStatus.DEPENDS),
        ("F.softmax(q @ k.mT, dim=-1) @ v", KernelStatus.DEPENDS),
        ("E('bijh,bjhd->bihd', F.softmax(E('bihd,bjhd->bijh', q, k), dim=2), v)", KernelStatus.DEPENDS),
        ("E('bijh,bjhd->bihd', F.softmax(E('bihd,bjhd->bijh', q, k), dim=1), v)", KernelStatus.FAULT),
    ],
)
def test_the_softmax_has_to_run_over_the_keys(linted: Lint, code: str, status: KernelStatus) -> None:
    scaled = "{0} * q.shape[-1] ** -0.5 + mask"
    for scores in ("q @ k.mT", "E('bihd,bjhd->bijh', q, k)"):
        code = code.replace(scores, scaled.format(scores))
    code = code.replace("torch.bmm(q, k.mT)", "torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5)")
    code = code.replace("E(", "torch.einsum(")
    own = "def softmax(x, axis):\n    return x\n"
    report = linted(f"{own}def f(q, k, v, axis, mask):\n    return {code}\n")
    assert [kernel.status for kernel in report.kernels] == [status]


def test_a_function_of_the_files_is_not_the_kernel_it_is_named_like(linted: Lint) -> None:
    files = {
        "a.py": "def flash_attn_func(q, k, v):\n    return q\ndef f(q, k, v):\n    return flash_attn_func(q, k, v)\n"
    }
    (kernel,) = linted(files=files).kernels
    assert (kernel.status, kernel.signature) == (UNKNOWN, "a.py:1: flash_attn_func")
    assert "is defined in the files themselves (a.py:1)" in str(kernel.reasons[0])


def test_a_false_that_nobody_declares_is_not_right(linted: Lint) -> None:
    call = "F.scaled_dot_product_attention(q, k, v)"
    code = f"class Encoder(nn.Module):\n{{init}}    def forward(self, q, k, v):\n        return {call}\n"
    declared = "    def __init__(self):\n        self.is_causal = False\n"
    assert linted(code.format(init="")).kernels[0].status is UNKNOWN
    assert linted(code.format(init=declared)).kernels[0].status is KernelStatus.RIGHT


@pytest.mark.parametrize(
    ("q", "status"),
    [
        ("self.q_proj(x)", UNKNOWN),  # all heads side by side: hidden_size
        ("self.q_proj(x).view(b, t, heads, -1).transpose(1, 2)", KernelStatus.RIGHT),
    ],
)
def test_a_width_measured_before_the_split_is_not_head_dim(linted: Lint, q: str, status: KernelStatus) -> None:
    report = linted(f"""
        def f(self, x, k, v, b, t, heads):
            q = {q}
            scale = q.shape[-1] ** -0.5
            q = q.view(b, t, heads, -1)
            return flash_attn_func(q, k, v, softmax_scale=scale, causal=True)
    """)
    assert [kernel.status for kernel in report.kernels] == [status]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("@double\ndef made(head_dim):\n    return head_dim ** -0.5\n", "decorated by double"),
        ("def made(head_dim):\n    return head_dim ** -0.5\nF.scaled_dot_product_attention = mine\n", "in place of"),
    ],
)
def test_a_decorator_or_a_patch_may_change_everything(linted: Lint, more: str, reason: str) -> None:
    call = "F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=made(head_dim))"
    (kernel,) = linted(f"{more}def f(q, k, v, head_dim):\n    return {call}\n").kernels
    assert kernel.status is UNKNOWN
    assert reason in str(kernel.reasons[0])


def test_scores_that_are_not_followed_are_told(linted: Lint) -> None:
    (kernel,) = linted("def f(q, k, v):\n    return F.softmax(boost(q @ k.mT), dim=-1) @ v\n").kernels
    assert (kernel.kind, kernel.status) == ("explicit", UNKNOWN)
    assert "could not be followed" in str(kernel.why)


# ------------------------------------------------------------------------------------------- kernels by other names


@pytest.mark.parametrize(
    ("code", "function"),
    [
        ("flex_attention(q, k, v, scale=1.0)", "flex_attention"),
        ("xformers.ops.memory_efficient_attention(q, k, v, scale=7.0)", "memory_efficient_attention"),
        ("sageattn(q, k, v, is_causal=True)", "sageattn"),
        ("torch.ops.mine.paged_attention_v1(out, q, k_cache, v_cache)", "paged_attention_v1"),
        ("nn.MultiheadAttention(64, 4)", "MultiheadAttention"),
        ("_attn_fwd[grid](q, k, v)", "_attn_fwd"),
        ("self.core_attention(query=q, key=k, value=v)", "core_attention"),
        ("AttnFunction.apply(q, k, v)", "AttnFunction"),
    ],
)
def test_a_kernel_that_is_not_known_is_told_as_unknown(linted: Lint, code: str, function: str) -> None:
    good = "def g(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
    report = linted(f"{good}def f(self, q, k, v, out, k_cache, v_cache, grid):\n    return {code}\n")
    assert [(kernel.function, kernel.status) for kernel in report.kernels] == [
        ("scaled_dot_product_attention", KernelStatus.RIGHT),
        (function, UNKNOWN),
    ]
    assert "was judged" in str(report.kernels[1].why)


@pytest.mark.parametrize(
    "code",
    ["make_attention_mask(q, k, v)", "self.attn(x, mask)", "attention_scores(q, k)", "mine_attention(q, k, v)"],
)
def test_what_is_no_kernel_is_left_alone(linted: Lint, code: str) -> None:
    own = "def mine_attention(q, k, v):\n    return q\n"
    assert linted(f"{own}def f(self, q, k, v, x, mask):\n    return {code}\n").kernels == ()


RENAMED = """\
from torch.nn.functional import scaled_dot_product_attention as sdpa
from flash_attn import flash_attn_varlen_func as fa
try:
    from flash_attn_interface import flash_attn_func
except ImportError:
    from flash_attn import flash_attn_func
from functools import partial
p = partial(fa, causal=False)
class A:
    def __init__(self):
        self.fn = flash_attn_func
    def forward(self, q, k, v, c, m):
        return {call}
"""


@pytest.mark.parametrize(
    ("call", "causal"),
    [
        ("sdpa(q, k, v, is_causal=True)", "true"),
        ("fa(q, k, v, c, c, m, m, causal=True)", "true"),
        ("p(q, k, v, c, c, m, m)", "false"),
        ("self.fn(q, k, v, causal=True)", "true"),
        ("flash_attn_func(q, k, v, causal=True)", "true"),
        ("flash_attn_func(q, k, v, causal=not True)", "false"),
        ("{'a': sdpa}['a'](q, k, v, is_causal=True)", "true"),
    ],
)
def test_a_kernel_is_followed_by_every_name(linted: Lint, call: str, causal: str) -> None:
    kernels = [kernel for kernel in linted(files={"a.py": RENAMED.format(call=call)}).kernels if kernel.signature]
    assert [kernel.causal.status for kernel in kernels] == [causal]


def test_a_kernel_is_followed_through_a_file_that_renames_it(linted: Lint) -> None:
    files = {
        "port/__init__.py": "",
        "port/kernels.py": "from torch.nn.functional import scaled_dot_product_attention as fast\n",
        "port/model.py": "from .kernels import fast\ndef f(q, k, v):\n    return fast(q, k, v, is_causal=True)\n",
    }
    (kernel,) = linted(files=files).kernels
    assert (kernel.function, kernel.status) == ("fast", KernelStatus.RIGHT)


def test_a_kernel_that_is_handed_on_out_of_sight_is_told(linted: Lint) -> None:
    report = linted("def f(q, k, v, run):\n    return run(flash_attn_func, q, k, v)\n")
    (kernel,) = report.kernels
    assert (kernel.function, kernel.status) == ("flash_attn_func", UNKNOWN)
    assert "handed on here" in str(kernel.why)
