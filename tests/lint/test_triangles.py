"""Which tokens a mask hides is worked out from the calls that make it; what it is called decides nothing."""

import pytest

from tests.lint.conftest import Lint, rules
from tracer.lint.records import CausalStatus, KernelStatus

TRUE, FALSE, DEPENDS = CausalStatus.TRUE, CausalStatus.FALSE, CausalStatus.DEPENDS
WRITTEN = """
def f(q, k, v, n, m, given):
    s = q @ k.mT * q.shape[-1] ** -0.5
    {mask}
    return F.softmax(s, -1) @ v
"""
CAUSAL = [
    "s = s + torch.triu(torch.full((n, n), float('-inf')), 1)",
    "s = s + torch.full((n, n), -math.inf).triu(diagonal=1)",
    "s = s.masked_fill(torch.tril(torch.ones(n, n)) == 0, float('-inf'))",
    "s = s.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), torch.finfo(s.dtype).min)",
    "s = s.masked_fill(torch.triu(torch.ones(n, n), diagonal=1).bool(), -1e9)",
    "s = torch.where(torch.tril(torch.ones(n, n, dtype=torch.bool)), s, -1e9)",
    "s = torch.where(torch.triu(torch.ones(n, n, dtype=torch.bool), 1), float('-inf'), s)",
    "s = s + (1.0 - torch.tril(torch.ones(n, n))) * -10000.0",
    "s = s - 1e9 * torch.triu(torch.ones(n, n), 1)",
    "s = s + torch.log(torch.tril(torch.ones(n, n)))",
    "i = torch.arange(n)\n    s = s.masked_fill(i[None, :] > i[:, None], float('-inf'))",
    "i = torch.arange(n)\n    s = torch.where(i.view(-1, 1) >= i.view(1, -1), s, float('-inf'))",
    "i = torch.arange(n)\n    s = s.masked_fill(i.unsqueeze(0) - i.unsqueeze(1) >= 1, float('-inf'))",
    "t = torch.ones(n, n).tril()\n    s = s.masked_fill(t[None, None, :m, :m] == 0, float('-inf'))",
    "t = torch.ones(n, n).triu(1)\n    s = s.masked_fill(t.T.transpose(0, 1).bool(), float('-inf'))",
    "s = s + given\n    s = s + torch.triu(torch.full((n, n), float('-inf')), 1)",  # more hidden stays hidden
    "s = s + nn.Transformer.generate_square_subsequent_mask(n)",
    "s[torch.triu(torch.ones(n, n), 1) == 1] = float('-inf')",
    "w = torch.tril(torch.ones(n, n)) * torch.triu(torch.ones(n, n), -1)\n    s = s.masked_fill(w == 0, float('-inf'))",
]
WRONG = [
    "s = s.masked_fill(torch.tril(torch.ones(n, n, dtype=torch.bool)), float('-inf'))",
    "s = s.masked_fill(torch.tril(torch.ones(n, n), -1).bool(), float('-inf'))",
    "s = s + torch.triu(torch.full((n, n), float('-inf')), diagonal=0)",
    "s = s.masked_fill(torch.triu(torch.ones(n, n)).bool(), float('-inf'))",
    "s = s + torch.triu(torch.full((n, n), float('-inf')), 2)",
    "s = torch.where(torch.triu(torch.ones(n, n, dtype=torch.bool), 1), s, float('-inf'))",
    "i = torch.arange(n)\n    s = s.masked_fill(i[None, :] < i[:, None], float('-inf'))",
    "s = s.masked_fill(torch.triu(torch.ones(n, n), 1) == 0, float('-inf'))",
    "s = s - 1e9 * torch.tril(torch.ones(n, n), -1)",
]
NOT_SHOWN = [
    "non_causal_mask = given\n    s = s + non_causal_mask",
    "causal_mask = given\n    s = s.masked_fill(causal_mask, float('-inf'))",
    "s = s + tril_of(n)",
    "s[given] += -1e9",
    "s = s + torch.triu(torch.full((n, n), float('-inf')), diagonal=m)",
    "s = s + torch.triu(torch.full((n, n), given), 1)",
    "t = torch.zeros(n, n)\n    t[given] = float('-inf')\n    s = s + t",
    "s[given] = float('-inf')",
    "t = torch.tril(torch.ones(n, n)) if given else None\n    s = s.masked_fill(t == 0, float('-inf'))",
    "if given:\n        s = s + torch.triu(torch.full((n, n), float('-inf')), 1)",
]


@pytest.mark.parametrize("mask", CAUSAL)
def test_a_right_triangle_is_causal_however_it_is_written(linted: Lint, mask: str) -> None:
    (kernel,) = linted(WRITTEN.format(mask=mask)).kernels
    assert (kernel.causal.status, kernel.status) == (TRUE, KernelStatus.RIGHT)


@pytest.mark.parametrize("mask", WRONG)
def test_a_planted_wrong_triangle_is_a_fault(linted: Lint, mask: str) -> None:
    report = linted(WRITTEN.format(mask=mask))
    assert rules(report) == ["causal-triangle"]
    assert report.kernels[0].status is KernelStatus.FAULT


@pytest.mark.parametrize("mask", NOT_SHOWN)
def test_what_the_source_does_not_show_depends_and_is_not_counted_as_right(linted: Lint, mask: str) -> None:
    report = linted(WRITTEN.format(mask=mask))
    (kernel,) = report.kernels
    assert (kernel.causal.status, kernel.status, report.findings) == (DEPENDS, KernelStatus.DEPENDS, ())
    assert kernel.causal.depends_on


@pytest.mark.parametrize("mask", ["pass", "s = s + torch.zeros(n, n)"])
def test_no_mask_is_not_right_either(linted: Lint, mask: str) -> None:
    (kernel,) = linted(WRITTEN.format(mask=mask)).kernels
    assert (kernel.causal.status, kernel.status) == (FALSE, KernelStatus.UNKNOWN)
    assert "is_causal = False in the class declares it" in str(kernel.causal.why)


@pytest.mark.parametrize(
    ("mask", "status"),
    [
        ("torch.ones(n, n, dtype=torch.bool).tril()", TRUE),  # torch's kernel: True keeps
        ("torch.triu(torch.full((n, n), float('-inf')), 1)", TRUE),
        ("torch.nn.attention.bias.causal_lower_right(n, m)", TRUE),
        ("given", DEPENDS),
        ("torch.ones(n, n).tril()", DEPENDS),  # numbers are added: this hides nothing
    ],
)
def test_the_mask_of_torchs_kernel(linted: Lint, mask: str, status: CausalStatus) -> None:
    call = f"F.scaled_dot_product_attention(q, k, v, attn_mask={mask})"
    (kernel,) = linted(f"def f(q, k, v, n, m, given):\n    return {call}\n").kernels
    assert kernel.causal.status is status


@pytest.mark.parametrize(
    "mask",
    ["torch.ones(n, n, dtype=torch.bool).triu(1)", "torch.full((n, n), float('-inf')).tril(-1)"],
)
def test_a_wrong_mask_of_torchs_kernel_is_a_fault(linted: Lint, mask: str) -> None:
    report = linted(f"def f(q, k, v, n):\n    return F.scaled_dot_product_attention(q, k, v, {mask})\n")
    assert rules(report) == ["causal-triangle"]


def test_a_buffer_is_looked_into(linted: Lint) -> None:
    report = linted("""
        class Attention(nn.Module):
            def __init__(self, config):
                self.register_buffer("bias", torch.tril(torch.ones(config.n, config.n)).view(1, 1, config.n, config.n))

            def forward(self, q, k, v, T):
                att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
                att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
                att = F.softmax(att, dim=-1)
                return att @ v
    """)
    assert [kernel.status for kernel in report.kernels] == [KernelStatus.RIGHT]


def test_weights_multiplied_after_the_softmax_stay_spoiled(linted: Lint) -> None:
    report = linted("""
        def f(q, k, v, n):
            w = F.softmax(q @ k.mT, -1)
            w = w * torch.tril(torch.ones(n, n))
            return w @ v
    """)
    assert rules(report) == ["softmax-before-mask"]
