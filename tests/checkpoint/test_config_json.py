"""config.json is checked field by field; whatever would change the numbers in silence is said aloud."""

import json

import pytest

from tracer.checkpoint.open import open_checkpoint
from tracer.errors import InputError, Unsupported

ABSENT = object()


def opened(maker, **changes):
    for field, value in changes.items():
        if value is ABSENT:
            maker.config.pop(field, None)
        else:
            maker.config[field] = value
    return open_checkpoint(str(maker.write()))


def refusal(maker, **changes) -> str:
    with pytest.raises(InputError) as caught:
        opened(maker, **changes)
    return str(caught.value).replace(str(maker.folder / "config.json"), "FILE")


def sentences(checkpoint) -> list[str]:
    return [str(warning) for warning in checkpoint.warnings]


# W7: what kind of model


@pytest.mark.parametrize("other", ["llama", "qwen2", "qwen3_moe", "qwen3_vl", "qwen3_next", "Qwen3"])
def test_another_model_is_not_supported(maker, other):
    with pytest.raises(Unsupported) as caught:
        opened(maker, model_type=other)
    assert caught.value.exit_code == 3
    assert f'says model_type "{other}": only dense Qwen3 text models' in str(caught.value)


def test_no_model_type_is_bad_input(maker):
    assert refusal(maker, model_type=ABSENT) == (
        "FILE has no model_type (found: null), so this is not known to be a Qwen3 checkpoint. "
        'If it is one, add "model_type": "qwen3".'
    )


@pytest.mark.parametrize("value", [3, [], {"a": 1}, True, ""])
def test_a_model_type_that_is_no_name_is_bad_input(maker, value):
    assert "not a Qwen3 checkpoint" in refusal(maker, model_type=value)


def test_another_model_is_told_before_its_other_fields_are_looked_at(maker):
    maker.config = {"model_type": "qwen3_moe"}
    with pytest.raises(Unsupported):
        opened(maker)


def test_head_dim_absent_is_a_warning_with_the_value_used(maker):
    del maker.values["model.layers.0.self_attn.q_norm.weight"]  # irrelevant to opening
    checkpoint = opened(maker, head_dim=ABSENT)
    assert checkpoint.model_facts(0).head_dim == 128
    assert checkpoint.config["head_dim"] == 128
    (warning,) = checkpoint.settings.warnings
    assert "has no head_dim; 128 is used, as transformers does." in str(warning)


def test_head_dim_null_is_an_error(maker):
    assert refusal(maker, head_dim=None) == (
        "head_dim in FILE is null, where a whole number from 2 to 2048 is expected. "
        "Correct it, or get the file again from where the checkpoint came from."
    )


# fields


@pytest.mark.parametrize(
    "field", ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"]
)
def test_a_field_without_which_nothing_can_be_built(maker, field):
    assert refusal(maker, **{field: ABSENT}).startswith(f"FILE has no {field}, which the model cannot be built without")


@pytest.mark.parametrize("field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim", "vocab_size"])
@pytest.mark.parametrize("value", [None, 0, -1, 10**9, 10**100, 8.0, "8", True, [8], {"a": 8}])
def test_a_whole_number_must_be_one_and_within_bounds(maker, field, value):
    assert refusal(maker, **{field: value}).startswith(f"{field} in FILE is ")


def test_a_hostile_number_is_not_printed_whole(maker):
    assert "hidden_size in FILE is ≈ 10^" in refusal(maker, hidden_size=10**4000)


def test_a_hostile_string_cannot_steer_a_terminal(maker):
    sentence = refusal(maker, hidden_act="\x1b]0;owned\x07\u202e\n" + "x" * 10**6)
    assert sentence.isprintable()
    assert len(sentence) < 500


def test_key_value_heads_null_means_as_many_as_query_heads(maker):
    assert opened(maker, num_key_value_heads=None).model_facts(0).kv_heads == 4


def test_key_value_heads_absent_is_a_warning(maker):
    checkpoint = opened(maker, num_key_value_heads=ABSENT, num_attention_heads=32)
    assert "has no num_key_value_heads; 32 is used" in str(checkpoint.settings.warnings[0])


def test_heads_must_be_a_multiple_of_key_value_heads(maker):
    assert refusal(maker, num_key_value_heads=3).startswith("FILE has 4 query heads and 3 key/value heads: the first")


def test_an_odd_head_dim_cannot_be_rotated(maker):
    assert refusal(maker, head_dim=7).startswith("head_dim in FILE is 7, an odd number")


@pytest.mark.parametrize("value", [-1e-6, 1, "1e-6", None, True, 10**400])
def test_norm_eps_must_be_a_small_number(maker, value):
    assert "rms_norm_eps in FILE is " in refusal(maker, rms_norm_eps=value)


def test_infinity_written_as_an_overflow_is_refused(maker):
    maker.write()
    text = json.dumps(maker.config).replace("1e-06", "1e999")
    (maker.folder / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"rms_norm_eps in .* is inf"):
        open_checkpoint(str(maker.folder))


@pytest.mark.parametrize("field", ["tie_word_embeddings", "attention_bias", "use_sliding_window"])
@pytest.mark.parametrize("value", [None, 0, "false"])
def test_a_flag_must_be_true_or_false(maker, field, value):
    assert f"{field} in FILE is " in refusal(maker, **{field: value})


def test_an_activation_must_be_known(maker):
    assert 'hidden_act in FILE is "exec", which is none of those known here: silu' in refusal(maker, hidden_act="exec")


@pytest.mark.parametrize("value", [1, -0.1, "0", None])
def test_attention_dropout_must_be_a_probability_below_one(maker, value):
    assert "attention_dropout in FILE is " in refusal(maker, attention_dropout=value)


@pytest.mark.parametrize("field", ["dtype", "torch_dtype"])
def test_the_dtype_is_read_in_either_spelling(maker, field):
    maker.config.pop("dtype")
    assert opened(maker, **{field: "bfloat16"}).settings.dtype == "bfloat16"
    assert opened(maker, **{field: "torch.float16"}).settings.dtype == "float16"
    assert "none of those known here: float32" in refusal(maker, **{field: "int8"})


def test_remote_code_is_never_followed(maker):
    checkpoint = opened(maker, auto_map={"AutoModelForCausalLM": "evil.Model"})
    assert "auto_map" not in checkpoint.config
    assert "It was not run and never is" in sentences(checkpoint)[0]


# W5: quantised


@pytest.mark.parametrize("field", ["quantization_config", "compression_config"])
@pytest.mark.parametrize("method", ["fp8", "awq", "gptq"])
def test_quantised_weights_are_refused(maker, field, method):
    sentence = refusal(maker, **{field: {"quant_method": method}})
    assert sentence.startswith(f'FILE has {field} ("{method}"): quantised weights are not supported')


# W1: where rope_theta may be

FORMS = {
    "top level": {"rope_parameters": ABSENT, "rope_theta": 1000000.0},
    "whole number": {"rope_parameters": ABSENT, "rope_theta": 1000000},
    "rope_parameters": {"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}},
    "null scaling": {"rope_parameters": ABSENT, "rope_theta": 1000000.0, "rope_scaling": None},
    "no type": {"rope_parameters": {"rope_theta": 1000000.0}},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_both_forms_of_rope_theta_are_one(maker, form):
    checkpoint = opened(maker, **form)
    assert checkpoint.model_facts(0).rope == {"rope_theta": 1000000.0, "rope_type": "default"}
    assert checkpoint.warnings == ()


def test_rope_theta_in_neither_form_is_a_loud_warning(maker):
    checkpoint = opened(maker, rope_parameters=ABSENT)
    assert checkpoint.model_facts(0).rope == {"rope_theta": 10000.0, "rope_type": "default"}
    (sentence,) = sentences(checkpoint)
    assert "no rope_theta" in sentence
    assert "takes 10000.0 in silence" in sentence
    assert "published models have 1000000" in sentence


def test_two_values_of_rope_theta_are_a_warning(maker):
    checkpoint = opened(maker, rope_theta=5000.0)
    assert checkpoint.model_facts(0).rope["rope_theta"] == 1000000.0
    assert (
        "two values of rope_theta: 1000000.0 in rope_parameters, which is used, and 5000.0" in sentences(checkpoint)[0]
    )


def test_the_old_form_of_yarn(maker):
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    rope = opened(maker, rope_parameters=ABSENT, rope_theta=1e6, rope_scaling=scaling).model_facts(0).rope
    assert rope == {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "rope_theta": 1000000.0,
    }


@pytest.mark.parametrize("theta", [0, -1.0, "1e6", True, {"a": 1}, 10**400])
def test_rope_theta_must_be_a_number_above_zero(maker, theta):
    assert "rope_theta of the rope parameters in FILE is " in refusal(
        maker, rope_parameters={"rope_theta": theta, "rope_type": "default"}
    )


@pytest.mark.parametrize("rope_type", ["su", "proportional", 3, None, ["yarn"]])
def test_an_unknown_rope_type_is_not_supported(maker, rope_type):
    with pytest.raises(Unsupported, match=r"The rope type in .*; supported are default, linear"):
        opened(maker, rope_parameters={"rope_theta": 1e6, "rope_type": rope_type})


@pytest.mark.parametrize("rope_type", ["linear", "dynamic", "yarn", "llama3", "longrope"])
def test_a_rope_type_needs_its_own_parameters(maker, rope_type):
    sentence = refusal(maker, rope_parameters={"rope_theta": 1e6, "rope_type": rope_type})
    assert sentence.startswith(f'FILE has rope type "{rope_type}" but no ')


def test_longrope_has_a_factor_for_each_pair_of_dimensions(maker):
    lists = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    opened(maker, rope_parameters={"rope_theta": 1e6, "rope_type": "longrope", **lists})
    lists["long_factor"] = [2.0] * 3
    sentence = refusal(maker, rope_parameters={"rope_theta": 1e6, "rope_type": "longrope", **lists})
    assert sentence.startswith("long_factor of the rope parameters in FILE must be a list of 4 numbers above 0")


@pytest.mark.parametrize("value", [[], [1], "yarn", 3])
def test_rope_parameters_must_be_an_object(maker, value):
    if value:
        assert "where a JSON object {…} is expected" in refusal(maker, rope_parameters=value)
    else:
        assert opened(maker, rope_parameters=value).model_facts(0).rope["rope_theta"] == 10000.0


def test_rope_parameters_for_each_layer_type_are_not_supported(maker):
    nested = {"full_attention": {"rope_theta": 1e6, "rope_type": "default"}}
    with pytest.raises(Unsupported, match="other rope parameters for each type of layer"):
        opened(maker, rope_parameters=nested)


def test_a_partly_rotated_head_is_not_supported(maker):
    with pytest.raises(Unsupported, match=r"partial_rotary_factor 0\.5"):
        opened(maker, partial_rotary_factor=0.5)


# P5: which layers slide

FULL, SLIDING = "full_attention", "sliding_attention"
WINDOWS = {
    "window alone": ({"sliding_window": 2048}, [FULL] * 4, "use_sliding_window is not true: the window has no effect"),
    "and used": (
        {"sliding_window": 2048, "use_sliding_window": True},
        [FULL] * 4,
        "only layers from max_window_layers = 28 on slide and the model has 4 layers",
    ),
    "and reached": (
        {"sliding_window": 2048, "use_sliding_window": True, "max_window_layers": 2},
        [FULL, FULL, SLIDING, SLIDING],
        None,
    ),
}


@pytest.mark.parametrize(("changes", "types", "warning"), WINDOWS.values(), ids=WINDOWS)
def test_the_effective_window_of_each_layer(maker, changes, types, warning):
    checkpoint = opened(maker, **changes)
    facts = [checkpoint.model_facts(layer) for layer in range(4)]
    assert [each.layer_type for each in facts] == types
    assert [each.window for each in facts] == [2048 if layer_type == SLIDING else None for layer_type in types]
    assert len(checkpoint.warnings) == (warning is not None)
    assert warning is None or warning in sentences(checkpoint)[0]


def test_explicit_layer_types_win(maker):
    types = [SLIDING, FULL, SLIDING, FULL]
    checkpoint = opened(maker, sliding_window=8, use_sliding_window=True, max_window_layers=4, layer_types=types)
    assert [checkpoint.model_facts(layer).window for layer in range(4)] == [8, None, 8, None]
    assert checkpoint.warnings == ()


def test_explicit_layer_types_that_use_no_window_are_a_warning(maker):
    checkpoint = opened(maker, sliding_window=8, use_sliding_window=True, layer_types=[FULL] * 4)
    assert 'layer_types makes every layer "full_attention": no layer slides' in sentences(checkpoint)[0]


def test_a_config_as_qwen_publishes_it_has_no_warning(maker):
    assert opened(maker, sliding_window=None, use_sliding_window=False, max_window_layers=4).warnings == ()


@pytest.mark.parametrize(
    ("types", "sentence"),
    [
        ([FULL] * 3, "a list with one entry for each of the 4 layers"),
        ("full_attention", "a list with one entry for each of the 4 layers"),
        ([FULL, "chunked_attention", FULL, FULL], 'layer_types in FILE says "chunked_attention" for layer 1'),
        ([FULL, FULL, SLIDING, FULL], "layer_types in FILE makes layer 2 slide, but there is no window"),
        ([FULL, None, [], {}], "layer_types in FILE says null for layer 1"),
    ],
)
def test_layer_types_must_fit(maker, types, sentence):
    assert sentence in refusal(maker, layer_types=types)


@pytest.mark.parametrize("value", [0, -1, "8", 2.5, True])
def test_a_window_must_be_a_whole_number(maker, value):
    assert "sliding_window in FILE is " in refusal(maker, sliding_window=value, use_sliding_window=True)


# JSON as such


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "cannot be read at line 1, column 1"),
        (b'{"a": 1,\n "b" 2}', "cannot be read at line 2, column 6"),
        (b"[1, 2]", "FILE holds [1, 2] where a JSON object {…} is expected"),
        (b'{"a": NaN}', "FILE holds NaN, which is not a JSON number"),
        (b'{"a": 1, "a": 2}', 'FILE has the key "a" twice'),
        (b'{"a": "\xff"}', "FILE is not UTF-8 text: byte 7 cannot be decoded"),
        (b'{"a": ' + b"[" * 100_000, "FILE is nested too deeply"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "FILE holds a number of thousands of digits"),
        (b" " * (2 << 20), "FILE has more than 1048576 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "FILE is a Git LFS pointer"),
        (b"<!DOCTYPE html><html></html>", "FILE is a web page (HTML or XML)"),
    ],
)
def test_a_config_that_is_not_json(maker, text, sentence):
    maker.write()
    (maker.folder / "config.json").write_bytes(text)
    with pytest.raises(InputError) as caught:
        open_checkpoint(str(maker.folder))
    assert sentence in str(caught.value).replace(str(maker.folder / "config.json"), "FILE").replace(
        "JSON in FILE", "FILE"
    )


# The point is equality with the library.

EQUAL = {
    **{name: changes for name, (changes, _, _) in WINDOWS.items()},
    **FORMS,
    "neither": {"rope_parameters": ABSENT},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e6}},
    "old yarn": {"rope_parameters": ABSENT, "rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0}},
    "outer theta": {"rope_parameters": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 500.0},
}


@pytest.mark.parametrize("changes", EQUAL.values(), ids=EQUAL)
def test_transformers_reads_the_same(maker, changes):
    from transformers.models.qwen3.configuration_qwen3 import Qwen3Config

    checkpoint = opened(maker, **changes)
    theirs = Qwen3Config.from_dict(json.loads((maker.folder / "config.json").read_text()))
    ours = Qwen3Config.from_dict(checkpoint.config)
    assert list(checkpoint.settings.layer_types) == theirs.layer_types == ours.layer_types
    theirs.rope_parameters.pop("type", None)  # the old name of rope_type, which transformers leaves beside it
    assert checkpoint.model_facts(0).rope == theirs.rope_parameters == ours.rope_parameters
    assert checkpoint.settings.window == theirs.sliding_window == ours.sliding_window
