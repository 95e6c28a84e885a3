"""Every version of flash-attn, called in flash-attn 2's words: each argument arrives under the version's own name, the
logsumexp comes back in one layout, and what a version has no word for is refused."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import standins
import torch
from torch import Tensor

from tracer.capture.recorder import Recorder
from tracer.engines.nanovllm.kernels import Watched
from tracer.engines.transformers.lending import KernelWatch
from tracer.errors import Unsupported
from tracer.kernels import adapter, cpu_flash
from tracer.kernels.adapter import Adapted

VARLEN, DENSE, CACHE = "flash_attn_varlen_func", "flash_attn_func", "flash_attn_with_kvcache"
VERSIONS = {
    "2.1": standins.two_1,
    "2.5": standins.two_5,
    "2.8": standins.two_8,
    "3": standins.three,
    "4.0.0b0": standins.four_first,
    "4.0.0b27": standins.four,
}
NEWER = {name: function for name, function in VERSIONS.items() if name[0] in "34"}
STARTS = torch.tensor([0, 3, 8], dtype=torch.int32)
SCALE = 0.25


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    standins.calls.clear()


def packed(heads: int = 4, kv_heads: int = 2, tokens: int = 8, size: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(tokens, heads, size, generator=generator)
    k, v = (torch.randn(tokens, kv_heads, size, generator=generator) for _ in range(2))
    return q, k, v


def lengths() -> dict[str, Any]:
    return {"cu_seqlens_q": STARTS, "cu_seqlens_k": STARTS, "max_seqlen_q": 5, "max_seqlen_k": 5}


def expected(**more: Any) -> tuple[Tensor, Tensor]:
    output, lse, _ = cpu_flash.flash_attn_varlen_func(
        *packed(), **lengths(), softmax_scale=SCALE, causal=True, **more, return_attn_probs=True
    )
    return output, lse


@pytest.mark.parametrize("version", VERSIONS)
def test_each_argument_arrives_under_the_versions_own_name(version: str) -> None:
    adapted = Adapted(VERSIONS[version], version, VARLEN)
    output, lse, nothing = adapted(*packed(), **lengths(), softmax_scale=SCALE, causal=True, return_attn_probs=True)
    wanted = expected()
    assert torch.equal(output, wanted[0])
    assert torch.equal(lse, wanted[1])  # [H, total_q] for every version, padded as 2.1 to 2.5 have it
    assert nothing is None
    (call,) = standins.calls
    assert (call["softmax_scale"], call["causal"], call["max_seqlen_q"]) == (SCALE, True, 5)
    assert call["cu_seqlens_q"] is STARTS


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_request_the_output_comes_alone(version: str) -> None:
    """FlashAttention 4 gives a pair in any case; transformers' code reads both."""
    output = Adapted(VERSIONS[version], version, VARLEN)(*packed(), **lengths(), softmax_scale=SCALE, causal=True)
    assert torch.equal(output, expected()[0])


@pytest.mark.parametrize("version", [each for each in VERSIONS if each != "2.1"])
@pytest.mark.parametrize("window", [(2, 0), (2, -1), (-1, 0), (-1, -1)])
def test_a_window_means_the_same_in_every_version(version: str, window: tuple[int, int]) -> None:
    adapted = Adapted(VERSIONS[version], version, VARLEN)
    output = adapted(*packed(), **lengths(), softmax_scale=SCALE, causal=True, window_size=window)
    assert torch.equal(output, expected(window_size=window)[0])


def test_flash_attention_4_is_never_given_a_negative_window() -> None:
    """There -1 is a bound; called with it directly the stand-in refuses, as the real one would compute otherwise."""
    with pytest.raises(ValueError, match="means something else"):
        standins.four(*packed(), **lengths(), softmax_scale=SCALE, causal=True, window_size=(2, -1))


@pytest.mark.parametrize(("version", "function"), [("2.8", "two_8_dense"), ("3", "three_dense"), ("4", "four_dense")])
def test_a_batch_keeps_its_layout(version: str, function: str) -> None:
    q, k, v = (x[None] for x in packed())
    adapted = Adapted(getattr(standins, function), version, DENSE)
    output, lse, _ = adapted(q, k, v, softmax_scale=SCALE, causal=True, return_attn_probs=True)
    wanted = cpu_flash.flash_attn_func(q, k, v, softmax_scale=SCALE, causal=True, return_attn_probs=True)
    assert torch.equal(output, wanted[0])
    assert torch.equal(lse, wanted[1])
    assert lse.shape == (1, 4, 8)


@pytest.mark.parametrize(("version", "function"), [("2.8", "two_8_cache"), ("3", "three_cache")])
def test_pages_of_a_cache_are_found_under_both_names(version: str, function: str) -> None:
    """FlashAttention 3 says page_table for what flash-attn 2 and nano-vllm call block_table."""
    q, k, v = packed()
    caches = [torch.stack([x[:4], x[4:]]) for x in (k, v)]
    table = torch.tensor([[1, 0]], dtype=torch.int32)
    asked = {"cache_seqlens": torch.tensor([7], dtype=torch.int32), "softmax_scale": SCALE, "causal": True}
    adapted = Adapted(getattr(standins, function), version, CACHE)
    output, lse = adapted(q[None, :1], *caches, block_table=table, **asked, return_softmax_lse=True)
    wanted = cpu_flash.flash_attn_with_kvcache(
        q[None, :1], *caches, block_table=table, **asked, return_softmax_lse=True
    )
    assert torch.equal(output, wanted[0])
    assert torch.equal(lse, wanted[1])


# -------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("version", NEWER)
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("dropout_p", 0.1, "dropout_p = 0.1"),
        ("alibi_slopes", torch.ones(4), r"alibi_slopes = Tensor\[4\]"),
        ("sliding_window", None, "sliding_window = None"),
    ],
)
def test_what_a_version_has_no_word_for_is_refused_and_not_left_out(
    version: str, name: str, value: object, told: str
) -> None:
    adapted = Adapted(VERSIONS[version], f"flash-attn-{version[0]}", VARLEN)
    with pytest.raises(Unsupported, match=f"flash-attn-{version[0]} has no argument {name}.*{told}.*softmax_scale"):
        adapted(*packed(), **lengths(), causal=True, **{name: value})
    assert standins.calls == []


@pytest.mark.parametrize("version", NEWER)
def test_what_asks_for_nothing_may_be_given_to_every_version(version: str) -> None:
    """flash-attn 2's defaults for words that others lack; nano-vllm always gives block_table, None without a cache."""
    nothing = {"dropout_p": 0.0, "alibi_slopes": None, "block_table": None}
    output = Adapted(VERSIONS[version], version, VARLEN)(
        *packed(), **lengths(), softmax_scale=SCALE, causal=True, **nothing
    )
    assert torch.equal(output, expected()[0])
    assert not {"dropout_p", "alibi_slopes", "block_table"} & standins.calls[0].keys()


def test_pages_are_refused_by_flash_attention_3s_packed_function() -> None:
    with pytest.raises(Unsupported, match="has no argument block_table") as refused:
        Adapted(standins.three, "flash-attn-3", VARLEN)(*packed(), **lengths(), block_table=torch.zeros(1, 1))
    assert refused.value.exit_code == 3
    assert "没有参数 block_table" in refused.value.text("zh")


@pytest.mark.parametrize("version", NEWER)
def test_positions_end_where_the_versions_part(version: str) -> None:
    """The eighth is dropout_p in flash-attn 2, which 3 and 4 lack: by position what follows would mix up. Up to there
    flash-attn 2's order holds, also where 4 has others in between."""
    adapted = Adapted(VERSIONS[version], version, VARLEN)
    output = adapted(*packed(), STARTS, STARTS, 5, 5, softmax_scale=SCALE, causal=True)
    assert torch.equal(output, expected()[0])
    with pytest.raises(Unsupported, match="too many positional arguments"):
        adapted(*packed(), STARTS, STARTS, 5, 5, 0.0, SCALE, True)


def test_flash_attn_2_is_called_by_position_as_far_as_all_its_versions_agree() -> None:
    for version in ("2.1", "2.5", "2.8"):
        adapted = Adapted(VERSIONS[version], version, VARLEN)
        assert torch.equal(adapted(*packed(), STARTS, STARTS, 5, 5, 0.0, SCALE, True), expected()[0])


def test_a_function_without_names_is_refused() -> None:
    def hidden(*args: object, **kwargs: object) -> None: ...

    with pytest.raises(Unsupported, match="does not tell the names"):
        Adapted(hidden, "flash-attn", VARLEN)


def test_a_version_that_hands_out_no_logsumexp_says_so() -> None:
    def before(q, k, v, softmax_scale=None, causal=False):  # type: ignore[no-untyped-def]
        return q

    adapted = Adapted(before, "flash-attn-3", DENSE)
    assert not adapted.gives_lse
    with pytest.raises(Unsupported, match="cannot be asked for the logsumexp"):
        adapted(*packed(), return_attn_probs=True)


def test_a_logsumexp_of_another_shape_is_refused() -> None:
    def turned(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_attn_probs=False):  # type: ignore[no-untyped-def]
        return q, torch.zeros(q.shape[0], q.shape[1])  # [total, H], as FlashAttention 4 has it with qv

    with pytest.raises(Unsupported, match=r"shape \(8, 4\), where \(4, 8\) was expected"):
        Adapted(turned, "flash-attn-4", VARLEN)(*packed(), **lengths(), return_attn_probs=True)


# --------------------------------------------------------------- wrong names fail: the stand-ins are no rubber stamp


def test_a_wrong_name_for_pages_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_OTHER_WORDS", {"block_table": "pages"})
    with pytest.raises(Unsupported, match="has no argument block_table"):
        test_pages_of_a_cache_are_found_under_both_names("3", "three_cache")


@pytest.mark.parametrize("version", NEWER)
def test_a_wrong_name_for_the_logsumexp_fails(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_ASKS", ("return_softmax",))
    with pytest.raises(Unsupported, match="cannot be asked for the logsumexp"):
        test_each_argument_arrives_under_the_versions_own_name(version)


def test_names_exchanged_inside_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    adapted = Adapted(standins.four, "4", VARLEN)
    adapted._theirs = {"cu_seqlens_q": "max_seqlen_q", "max_seqlen_q": "cu_seqlens_q"}  # type: ignore[assignment]
    with pytest.raises((TypeError, AttributeError)):
        adapted(*packed(), **lengths(), softmax_scale=SCALE, causal=True)


@pytest.mark.parametrize("version", NEWER)
def test_by_position_in_flash_attn_2s_order_the_version_itself_computes_something_else(version: str) -> None:
    """What the names protect from."""
    given = (*packed(), STARTS, STARTS, 5, 5, 0.0, SCALE, True)
    try:
        output = VERSIONS[version](*given)
    except (TypeError, ValueError, AttributeError):
        return
    output = output[0] if isinstance(output, tuple) else output
    assert not torch.equal(output, expected()[0])


# ----------------------------------------------------------------------------------------- who watches the calls


@pytest.mark.parametrize("version", VERSIONS)
def test_a_watched_call_is_told_in_the_same_words(version: str) -> None:
    recorder = Recorder()
    watch = KernelWatch(Adapted(VERSIONS[version], version, VARLEN), recorder)
    lent = watch.lent(None)
    with recorder.during("attention"):
        output = lent(*packed(), **lengths(), softmax_scale=SCALE, causal=True)
    (seen,) = watch.drain()
    assert (seen.arguments["softmax_scale"], seen.arguments["causal"]) == (SCALE, True)
    assert torch.equal(seen.output, output)
    assert torch.equal(seen.lse, expected()[1])
    assert seen.arguments.get("window_size", (-1, -1)) == (-1, -1)
    assert ("dropout_p" in seen.arguments) == version.startswith("2")


@pytest.mark.parametrize("version", VERSIONS)
def test_one_head_alone_can_be_computed_in_every_version(version: str) -> None:
    watch = KernelWatch(Adapted(VERSIONS[version], version, VARLEN), Recorder())
    with watch.only(3, 1, keep=True):
        whole = watch.lent(None)(*packed(), **lengths(), softmax_scale=SCALE, causal=True)
        assert watch.narrow is not None
        assert torch.allclose(watch.narrow.lse, expected()[1][3], atol=1e-6)
    assert torch.allclose(whole[:, 3], expected()[0][:, 3], atol=1e-6)
    assert not whole[:, :3].any()


def test_nano_vllms_calls_reach_flash_attention_3() -> None:
    """It gives every argument by name, block_table always."""
    recorder = Recorder()
    watched = Watched(VARLEN, Adapted(standins.three, "flash-attn-3", VARLEN), recorder)
    q, k, v = packed()
    with recorder.during("attention"):
        output = watched(q, k, v, **lengths(), softmax_scale=SCALE, causal=True, block_table=None)
    (seen,) = watched.drain()
    assert torch.equal(output, expected()[0])
    assert torch.equal(seen.lse, expected()[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_transformers_finds_in_the_signature_what_it_would_find_in_the_versions_own(version: str) -> None:
    from transformers import modeling_flash_attention_utils as utils

    def supported(function: Callable[..., Any]) -> dict[str, bool]:
        found: dict[str, bool] = utils._lazy_define_process_function(function).keywords["supports_mapping"]
        return found

    function = VERSIONS[version]
    own, ours = supported(function), supported(Adapted(function, version, VARLEN))
    pages = {"block_table", "page_table"}  # told in one word here
    assert {key: value for key, value in own.items() if key not in pages} == {
        key: value for key, value in ours.items() if key not in pages
    }
    assert any(own.get(key) for key in pages) == any(ours.get(key) for key in pages)
    assert "return_attn_probs" in inspect.signature(Adapted(function, version, VARLEN)).parameters
