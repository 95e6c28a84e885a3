"""transformers has called its kernel in five ways since 4.51: of the given forms exactly one fits each of them.

The programs are invented and as small as the form allows. The real releases 4.51.0, 4.51.3, 4.52.4, 4.53.0, 4.53.3,
4.54.1, 4.55.4, 4.56.2, 4.57.6, 5.0.0, 5.4.0, 5.10.0, 5.15.0, 5.16.1, 5.17.0, 5.18.0 and 5.24.0 were followed once,
every value to its definition, with one assumption each: the table that the attention function is looked up in.
"""

import pytest

from tracer.lineage.definitions import definition
from tracer.source.patterns import Module, Pattern

HEAD = "def _flash_attention_forward(q, mask, position_ids, softmax_scale, causal):\n"
LAYOUTS = {
    "4.51": """
    if mask is not None:
        out = flash_attn_varlen_func(u, softmax_scale=softmax_scale)
    elif position_ids is not None and not increasing(position_ids):
        out = flash_attn_varlen_func(q, softmax_scale=softmax_scale)  # this one
    else:
        out = flash_attn_func(q)
    """,
    "4.53": """
    if mask is not None:
        attn_output_unpad = _flash_attn_varlen_func(u, softmax_scale=softmax_scale)
    elif is_fa2_with_varlen_kwargs or is_fa2_with_position_ids:
        attn_output = _flash_attn_varlen_func(q, softmax_scale=softmax_scale)  # this one
    else:
        attn_output = _flash_attn_func(q)
    """,
    "4.54": """
    if mask is not None:
        out = flash_varlen_fn(u, softmax_scale=softmax_scale)
    elif use_mask:
        out = flash_varlen_fn(q, softmax_scale=softmax_scale)  # this one
    else:
        out = flash_fn(q)
    """,
    "4.55": """
    if mask is not None:
        out = flash_varlen_fn(u, **flash_kwargs(a=1))
    elif is_fa_with_varlen_kwargs or is_fa_with_position_ids:
        out = flash_varlen_fn(q, **flash_kwargs(a=1))  # this one
    else:
        out = flash_fn(q, **flash_kwargs())
    """,
    "5.24": """
    if mask is not None:
        out = flash_varlen_fn(u, **flash_kwargs)
        return out
    if is_fa_with_varlen_kwargs:
        out = flash_varlen_fn(q, **flash_kwargs)  # this one
        return out
    if _is_packed_sequence(position_ids, 1):
        out = flash_varlen_fn(q, **flash_kwargs)
        return out
    """,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_exactly_one_form_fits_each_layout(layout: str) -> None:
    source = HEAD + LAYOUTS[layout]
    module = Module(source)
    found = {
        hit.span
        for wanted in definition("transformers").calls
        for scope in wanted.scopes
        for hit in module.find(Pattern(wanted.pattern), scope, wanted.under)
    }
    assert [source.splitlines()[span.line - 1].endswith("# this one") for span in found] == [True]
