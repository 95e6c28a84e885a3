"""Every rule: a fault that it finds, and right code beside it that it leaves alone."""

import pytest

from tests.lint.conftest import Lint, rules
from tracer.lint.records import Severity
from tracer.lint.rules.table import IDS
from tracer.texts import LANGUAGES, catalogue

CLASS = (
    "class {name}(nn.Module):\n"
    "    def __init__(self, config):\n"
    "{init}\n"
    "    def forward(self, q, k, v, past=None):\n"
    "{body}\n"
)


def attention(*init: str, body: str, name: str = "Attention") -> str:
    lines = "\n".join(f"        {each}" for each in init) or "        pass"
    inner = "\n".join(f"        {each}" for each in body.split("\n"))
    return CLASS.format(name=name, init=lines, body=inner)


HIDDEN = "config.hidden_size // config.num_attention_heads"
STATED = f"self.head_dim = getattr(config, 'head_dim', {HIDDEN})"
CALL = "return flash_attn_func(q, k, v, softmax_scale=self.scaling, causal=True)"
VARLEN = "def f(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, lengths, longest):\n    return "

# rule, faulty code, right code as near to it as there is
CASES = {
    "scale-hidden-size": (
        attention(STATED, f"self.scaling = ({HIDDEN}) ** -0.5", body=CALL),
        attention(f"self.head_dim = {HIDDEN}", f"self.scaling = ({HIDDEN}) ** -0.5", body=CALL),
    ),
    "scale-derived-head-dim": (
        attention(
            f"self.head_dim = {HIDDEN}", "self.scaling = self.head_dim ** -0.5", body=CALL, name="Qwen3Attention"
        ),
        attention(f"self.head_dim = {HIDDEN}", "self.scaling = self.head_dim ** -0.5", body=CALL, name="BertAttention"),
    ),
    "scale-power": (
        attention(STATED, "self.scaling = math.sqrt(self.head_dim)", body=CALL),
        attention(STATED, "self.scaling = 1 / math.sqrt(self.head_dim)", body=CALL),
    ),
    "scale-twice": (
        attention(STATED, body="q = q * self.head_dim ** -0.5\nreturn F.scaled_dot_product_attention(q, k, v)"),
        attention(
            STATED, body=("q = q * self.head_dim ** -0.5\nreturn F.scaled_dot_product_attention(q, k, v, scale=1.0)")
        ),
    ),
    "scale-not-head-dim": (
        attention("self.scaling = 1.0", body=CALL, name="Qwen3Attention"),
        attention("self.scaling = 1.0", body=CALL, name="T5Attention"),
    ),
    "scale-hard-coded": (
        attention("self.scaling = 128 ** -0.5", body=CALL, name="Qwen3Attention"),
        attention("self.scaling = 128 ** -0.5", body=CALL, name="OtherAttention"),
    ),
    "scale-differs": (
        attention(
            "self.scaling = config.attention_multiplier",
            body=f"if past is None:\n    {CALL}\nreturn F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        ),
        attention(
            STATED,
            "self.scaling = self.head_dim ** -0.5",
            body=f"if past is None:\n    {CALL}\nreturn F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        ),
    ),
    "causal-mask-presence": (
        "def f(q, k, v, attention_mask=None):\n    return flash_attn_func(q, k, v, causal=attention_mask is None)\n",
        "def f(q, k, v, attention_mask=None):\n"
        "    return F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask,"
        " is_causal=attention_mask is None)\n",
    ),
    "causal-and-mask": (
        (
            "def f(q, k, v):\n"
            "    mask = torch.ones(4, 4)\n"
            "    return F.scaled_dot_product_attention(q, k, v, mask, 0.0, True)\n"
        ),
        "def f(q, k, v, mask=None):\n    return F.scaled_dot_product_attention(q, k, v, mask, 0.0, True)\n",
    ),
    "causal-alignment": (
        attention(body="k = torch.cat([past, k], 2)\nreturn F.scaled_dot_product_attention(q, k, v, is_causal=True)"),
        attention(body="k = torch.cat([past, k], 2)\nreturn flash_attn_func(q, k, v, causal=True)"),
    ),
    "causal-ignored": (
        attention("self.is_causal = True", body="return flash_attn_func(q, k, v)"),
        attention("self.is_causal = True", body="return flash_attn_func(q, k, v, causal=self.is_causal)"),
    ),
    "causal-off": (
        attention(body="return F.scaled_dot_product_attention(q, k, v, is_causal=False)", name="Qwen3Attention"),
        attention(
            "self.is_causal = False",
            body="return F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)",
            name="Qwen3Attention",
        ),
    ),
    "causal-triangle": (
        (
            "def f(q, k, v):\n"
            "    s = (q @ k.mT).masked_fill(torch.tril(torch.ones(4, 4)) == 1, float('-inf'))\n"
            "    return F.softmax(s, -1) @ v\n"
        ),
        (
            "def f(q, k, v):\n"
            "    s = (q @ k.mT).masked_fill(torch.tril(torch.ones(4, 4)) == 0, float('-inf'))\n"
            "    return F.softmax(s, -1) @ v\n"
        ),
    ),
    "argument-order": (
        VARLEN
        + "flash_attn_varlen_func(q, k, v, cu_seqlens_q, max_seqlen_q, cu_seqlens_k, max_seqlen_k, causal=True)\n",
        VARLEN
        + "flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=True)\n",
    ),
    "dropout-inference": (
        attention("self.p = config.dropout", body="return flash_attn_func(q, k, v, self.p, causal=True)"),
        attention(
            "self.p = config.dropout",
            body="return flash_attn_func(q, k, v, self.p if self.training else 0.0, causal=True)",
        ),
    ),
    "dropout-always": (
        "def f(q, k, v):\n    w = F.softmax(q @ k.mT, -1)\n    w = F.dropout(w, p=0.1)\n    return w @ v\n",
        (
            "def f(self, q, k, v):\n"
            "    w = F.softmax(q @ k.mT, -1)\n"
            "    w = F.dropout(w, p=0.1, training=self.training)\n"
            "    return w @ v\n"
        ),
    ),
    "window-off-by-one": (
        attention(body="return flash_attn_func(q, k, v, causal=True, window_size=(self.config.sliding_window, 0))"),
        attention(body="return flash_attn_func(q, k, v, causal=True, window_size=(self.config.sliding_window - 1, 0))"),
    ),
    "kv-head-order": (
        attention(
            body=("k = k.repeat(1, self.n_rep, 1, 1)\nreturn F.scaled_dot_product_attention(q, k, v, is_causal=True)")
        ),
        attention(
            body=(
                "k = k.repeat_interleave(self.n_rep, 1)\nreturn F.scaled_dot_product_attention(q, k, v, is_causal=True)"
            )
        ),
    ),
    "softmax-axis": (
        "def f(q, k, v):\n    return F.softmax(q @ k.mT, dim=-2) @ v\n",
        "def f(q, k, v):\n    return F.softmax(q @ k.mT, dim=-1) @ v\n",
    ),
    "softmax-before-mask": (
        "def f(q, k, v, mask):\n    w = F.softmax(q @ k.mT, -1)\n    w = w + mask\n    return w @ v\n",
        "def f(q, k, v, mask):\n    s = q @ k.mT\n    s = s + mask\n    return F.softmax(s, -1) @ v\n",
    ),
    "mask-constant-float16": (
        (
            "def f(q, k, v, mask):\n"
            "    s = (q.half() @ k.half().mT).masked_fill(mask, -1e9)\n"
            "    return F.softmax(s, -1) @ v\n"
        ),
        (
            "def f(q, k, v, mask):\n"
            "    s = (q.half() @ k.half().mT).masked_fill(mask, -1e4)\n"
            "    return F.softmax(s, -1) @ v\n"
        ),
    ),
    "norm-after-rope": (
        attention(
            body="q, k = apply_rotary_pos_emb(q, k)\nq = self.q_norm(q)\nk = self.k_norm(k)\n"
            "return flash_attn_func(q, k, v, causal=True)",
            name="Qwen3Attention",
        ),
        attention(
            body="q = self.q_norm(q)\nk = self.k_norm(k)\nq, k = apply_rotary_pos_emb(q, k)\n"
            "return flash_attn_func(q, k, v, causal=True)",
            name="Qwen3Attention",
        ),
    ),
}


def test_every_rule_has_its_cases_and_its_texts() -> None:
    assert set(CASES) == set(IDS)
    for rule in IDS:
        for part in ("", "_fix", "_what"):
            assert set(catalogue()[f"lint.{rule.replace('-', '_')}{part}"]) == set(LANGUAGES)


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_finds_its_fault(linted: Lint, rule: str) -> None:
    report = linted(CASES[rule][0])
    assert set(rules(report)) == {rule}
    assert report.exit_code == 1
    for finding in report.findings:
        for language in LANGUAGES:
            assert finding.message.text(language)
            assert finding.fix.text(language)


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_leaves_right_code_alone(linted: Lint, rule: str) -> None:
    assert rules(linted(CASES[rule][1])) == []


def test_the_fault_of_s1_names_both_and_the_way_to_the_kernel(linted: Lint) -> None:
    (finding,) = linted(CASES["scale-hidden-size"][0]).findings
    assert (finding.severity, finding.place.code) == (Severity.ERROR, f"({HIDDEN}) ** -0.5")
    assert [hop.place.code for hop in finding.hops] == [f"({HIDDEN}) ** -0.5", "self.scaling"]
    assert "1.41 times too large" in finding.message.text("en")
    assert "self.head_dim ** -0.5" in finding.fix.text("en")


def test_the_fault_of_s1_states_the_ratio_of_the_scale_that_is_there(linted: Lint) -> None:
    (finding,) = linted(attention(STATED, "self.scaling = config.hidden_size ** -0.5", body=CALL)).findings
    assert "2.83 times too small" in finding.message.text("en")  # 1024**-0.5 for 128**-0.5


@pytest.mark.parametrize("given", ["causal=False", "**{'causal': False}", ""])
def test_a_class_that_says_it_is_causal_is_held_to_it(linted: Lint, given: str) -> None:
    report = linted(attention("self.is_causal = True", body=f"return flash_attn_func(q, k, v, {given})"))
    assert rules(report) == ["causal-ignored"]


NANO = {
    "layers/attention.py": """
        from flash_attn import flash_attn_varlen_func, flash_attn_with_kvcache

        class Attention:
            def __init__(self, scale):
                self.scale = scale

            def forward(self, q, k, v, context):
                if context.is_prefill:
                    return flash_attn_varlen_func(q, k, v, softmax_scale=self.scale{causal})
                return flash_attn_with_kvcache(q, k, v, softmax_scale=self.scale{causal})
        """,
    "models/qwen3.py": """
        from layers.attention import Attention

        class Qwen3Attention:
            def __init__(self, head_dim):
                self.head_dim = head_dim
                self.attn = Attention(self.head_dim ** -0.5)

            def forward(self, q, k, v, context):
                return self.attn(q, k, v, context)
        """,
}


@pytest.mark.parametrize(
    ("causal", "found", "status"),
    [(", causal=True", [], ["right", "right"]), ("", ["causal-off"], ["fault", "unknown"])],
)
def test_causality_lost_below_qwen3_is_found(linted: Lint, causal: str, found: list[str], status: list[str]) -> None:
    report = linted(files={name: text.replace("{causal}", causal) for name, text in NANO.items()})
    assert rules(report) == found
    assert [kernel.status for kernel in report.kernels] == status  # a single new token has no future to see


def test_one_wrong_kernel_does_not_blame_its_siblings(linted: Lint) -> None:
    calls = "\n".join(f"if past == {n}:\n    return flash_attn_func(q, k, v, causal=True)" for n in range(4))
    body = f"{calls}\nreturn flash_attn_func(q, k, v, softmax_scale=0.5, causal=True)"
    (finding,) = linted(attention(body=body)).findings
    assert (finding.rule, finding.place.code) == ("scale-differs", "0.5")


def test_one_wrong_origin_of_two_kernels_is_told_once(linted: Lint) -> None:
    body = f"if past is None:\n    {CALL}\n{CALL}"
    report = linted(attention(STATED, f"self.scaling = ({HIDDEN}) ** -0.5", body=body))
    assert rules(report) == ["scale-hidden-size"]
    assert [kernel.status for kernel in report.kernels] == ["fault", "fault"]


def test_the_order_of_v6_names_place_and_parameter(linted: Lint) -> None:
    (finding,) = linted(CASES["argument-order"][0]).findings
    assert str(finding.message) == (
        "Argument 5 is max_seqlen_q, but there flash-attn 2.1–2.8: flash_attn_varlen_func expects cu_seqlens_k."
    )


def test_the_order_is_that_of_the_provider(linted: Lint) -> None:
    report = linted(
        files={
            "a.py": "from vllm.vllm_flash_attn import flash_attn_varlen_func\n"
            "def f(q, k, v, max_seqlen_q, cu_seqlens_q, max_seqlen_k, cu_seqlens_k):\n"
            "    return flash_attn_varlen_func(q, k, v, max_seqlen_q, cu_seqlens_q, max_seqlen_k, cu_seqlens_k)\n"
        }
    )
    assert rules(report) == []
    assert list(dict(report.kernels[0].arguments))[3:] == [
        "max_seqlen_q",
        "cu_seqlens_q",
        "max_seqlen_k",
        "cu_seqlens_k",
    ]


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("flash_attn_func(q, k, v, True)", True),
        ("F.scaled_dot_product_attention(q, k, v, mask, True)", True),
        ("flash_attn_func(q, k, v, 0.0, None, 0.1)", True),
        ("flash_attn_func(q, k, v, 0.0, None, True)", False),
        ("flash_attn_func(q, v, k)", True),
        ("F.scaled_dot_product_attention(k, q, v)", True),
        ("flash_attn_func(q, k, v, q.shape[-1] ** -0.5, causal=True)", True),
        ("flash_attn_func(q, k, v, rate, causal=True)", False),
        ("flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_q, max_seqlen_q, max_seqlen_q)", False),
    ],
)
def test_a_flag_in_a_numbers_place_is_found(linted: Lint, call: str, fault: bool) -> None:
    report = linted(f"def f(q, k, v, mask, rate, cu_seqlens_q, max_seqlen_q):\n    return {call}\n")
    assert rules(report) == (["argument-order"] if fault else [])


@pytest.mark.parametrize(
    "guard",
    [
        "causal = True\n    if attention_mask is not None:\n        causal = False",
        "causal = attention_mask is None and training",
    ],
)
def test_a_masks_presence_is_found_through_names(linted: Lint, guard: str) -> None:
    report = linted(
        f"def f(q, k, v, training, attention_mask=None):\n"
        f"    {guard}\n"
        f"    return flash_attn_func(q, k, v, causal=causal)\n"
    )
    assert rules(report) == ["causal-mask-presence"]


@pytest.mark.parametrize(("name", "found"), [("Qwen3Attention", ["scale-power"]), ("InklingAttention", [])])
def test_one_over_head_dim_is_a_fault_only_where_the_model_is_known(linted: Lint, name: str, found: list[str]) -> None:
    report = linted(attention(STATED, "self.scaling = 1 / self.head_dim", body=CALL, name=name))
    assert rules(report) == found
    assert [scale.normal for scale in report.kernels[0].scales] == ["head_dim**-1"]
    assert report.exit_code != 0


@pytest.mark.parametrize("rate", ["p", "0.0", "self.p if self.training else 0.0", "p()"])
def test_a_rate_that_may_be_zero_is_no_fault(linted: Lint, rate: str) -> None:
    code = f"def f(self, q, k, v, p):\n    w = F.dropout(F.softmax(q @ k.mT, -1), p={rate})\n    return w @ v\n"
    assert rules(linted(code)) == []


def test_scaling_twice_names_both_factors(linted: Lint) -> None:
    (finding,) = linted(CASES["scale-twice"][0]).findings
    text = str(finding.message)
    assert "q * self.head_dim ** -0.5" in text
    assert "given no scale" in text


def test_repeating_with_an_axis_of_its_own_is_right(linted: Lint) -> None:
    body = "k = k.unsqueeze(2).repeat(1, 1, self.n_rep, 1, 1)\nreturn F.scaled_dot_product_attention(q, k, v)"
    assert rules(linted(attention(body=body))) == []


# ------------------------------------------------------------------------------------------------------- waiving

FAULT = (
    "def f(q, k, v, attention_mask=None):\n"
    "{above}    return flash_attn_func(q, k, v, causal=attention_mask is None){beside}\n"
)


@pytest.mark.parametrize(
    ("above", "beside"),
    [
        ("", "  # tracer: ignore[causal-mask-presence] one document a row here"),
        ("    # tracer: ignore[argument-order, causal-mask-presence]: one document a row here\n", ""),
    ],
)
def test_a_finding_is_waived_with_a_reason(linted: Lint, above: str, beside: str) -> None:
    report = linted(FAULT.format(above=above, beside=beside))
    (finding,) = report.findings
    assert finding.suppressed == "one document a row here"
    assert (report.open_findings, report.notes) == ((), ())


@pytest.mark.parametrize(
    "beside",
    [
        "  # tracer: ignore[causal-mask-presence]",
        "  # tracer: ignore[scale-twice] a reason for something else",
        "  # ignore[causal-mask-presence] of another tool",
    ],
)
def test_a_waiver_without_reason_or_of_another_rule_waives_nothing(linted: Lint, beside: str) -> None:
    assert rules(linted(FAULT.format(above="", beside=beside))) == ["causal-mask-presence"]


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("# tracer: ignore[causal-mask-presence]", "a reason is missing"),
        ("# tracer: ignore[no-such-rule] a reason", "there is no rule no-such-rule"),
        ("# tracer: ignore causal-mask-presence a reason", "the form is"),
    ],
)
def test_a_waiver_that_waives_nothing_is_told(linted: Lint, beside: str, said: str) -> None:
    report = linted(FAULT.format(above="", beside=f"  {beside}"))
    (note,) = report.notes
    assert said in str(note.message)
    assert note.place.code == beside
