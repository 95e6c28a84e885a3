"""Whether a kernel is causal: True, False, or what it depends on."""

import pytest

from tests.lint.conftest import Lint
from tracer.lint.records import CausalStatus

TRUE, FALSE, DEPENDS, UNKNOWN = CausalStatus.TRUE, CausalStatus.FALSE, CausalStatus.DEPENDS, CausalStatus.UNKNOWN


@pytest.mark.parametrize(
    ("call", "status", "depends"),
    [
        ("flash_attn_func(q, k, v, causal=True)", TRUE, ()),
        ("flash_attn_func(q, k, v, 0.0, None, True)", TRUE, ()),
        ("flash_attn_func(q, k, v, causal=False)", FALSE, ()),
        ("flash_attn_func(q, k, v)", FALSE, ()),
        ("flash_attn_func(q, k, v, causal=causal)", DEPENDS, ("causal",)),
        ("flash_attn_func(q, k, v, causal=causal and n > 1)", DEPENDS, ("causal", "n > 1")),
        ("flash_attn_func(q, k, v, causal=True if n > 1 else False)", DEPENDS, ("n > 1",)),
        ("flash_attn_func(q, k, v, causal=config.is_decoder)", DEPENDS, ("config.is_decoder",)),
        ("flash_attn_func(q, k, v, causal=decide(n))", UNKNOWN, ()),
        ("flash_attn_func(q, k, v, **unseen())", UNKNOWN, ()),
        ("F.scaled_dot_product_attention(q, k, v, is_causal=True)", TRUE, ()),
        ("F.scaled_dot_product_attention(q, k, v, mask)", DEPENDS, ("mask",)),
        ("F.scaled_dot_product_attention(q, k, v, None)", FALSE, ()),
    ],
)
def test_the_causal_argument(linted: Lint, call: str, status: CausalStatus, depends: tuple[str, ...]) -> None:
    report = linted(f"def f(q, k, v, mask, causal, n, config):\n    return {call}\n")
    (kernel,) = report.kernels
    assert (kernel.causal.status, kernel.causal.depends_on) == (status, depends)


def test_the_default_is_told_apart_from_a_given_false(linted: Lint) -> None:
    report = linted("def f(q, k, v):\n    flash_attn_func(q, k, v)\n    flash_attn_func(q, k, v, causal=False)\n")
    assert [kernel.causal.by_default for kernel in report.kernels] == [True, False]


@pytest.mark.parametrize(
    ("mask", "status"),
    [
        ("s = s + torch.triu(torch.full((4, 4), float('-inf')), 1)", TRUE),
        ("s = s.masked_fill(torch.tril(torch.ones(4, 4)) == 0, float('-inf'))", TRUE),
        ("s = torch.where(mask, s, -1e9)", DEPENDS),
        ("s = s + mask", DEPENDS),
        ("pass", FALSE),
    ],
)
def test_attention_written_out_is_causal_by_its_mask(linted: Lint, mask: str, status: CausalStatus) -> None:
    report = linted(f"def f(q, k, v, mask):\n    s = q @ k.mT\n    {mask}\n    return F.softmax(s, -1) @ v\n")
    assert report.kernels[0].causal.status is status


def test_the_flag_is_followed_across_attributes_and_calls(linted: Lint) -> None:
    report = linted("""
        class Attention(nn.Module):
            def __init__(self, config, causal=True):
                self.causal = causal

            def forward(self, q, k, v):
                return flash_attn_func(q, k, v, causal=self.causal)

        decoder = Attention(config)
    """)
    assert report.kernels[0].causal.status is TRUE
    assert [hop.place.code for hop in report.kernels[0].causal.hops] == ["True", "causal", "self.causal"]
