"""What an opened checkpoint says and reads: its facts, and only the bytes that are asked for."""

import hashlib
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from tracer.checkpoint.open import open_checkpoint
from tracer.errors import InputError, Unsupported

EMBEDDING = "model.embed_tokens.weight"
Q_PROJ = "model.layers.0.self_attn.q_proj.weight"


def test_facts_say_which_checkpoint_it_was(maker):
    folder = maker.write()
    facts = open_checkpoint(str(folder)).facts()
    assert (facts.name, facts.revision, facts.dtype, facts.tied) == ("small", None, "F32", True)
    assert facts.config_sha256 == hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()


def test_the_header_hash_changes_with_a_header_and_not_with_a_number(maker):
    before = open_checkpoint(str(maker.write())).facts().headers_sha256
    maker.values[Q_PROJ] += 1
    assert open_checkpoint(str(maker.write())).facts().headers_sha256 == before
    maker.dtype = "F16"
    assert open_checkpoint(str(maker.write())).facts().headers_sha256 != before


def test_model_facts_are_those_of_config_json(maker):
    facts = open_checkpoint(str(maker.write())).model_facts(3)
    assert (facts.layers, facts.heads, facts.kv_heads, facts.head_dim, facts.hidden_size) == (4, 4, 2, 8, 16)
    assert (facts.layer_type, facts.window, facts.max_positions, facts.norm_eps) == ("full_attention", None, 64, 1e-6)
    assert facts.kv_head(2) == 1


@pytest.mark.parametrize("dtype", ["F32", "F64", "F16", "BF16"])
@pytest.mark.parametrize("sharded", [False, True])
def test_loaded_tensors_have_the_bits_that_safetensors_reads(maker, dtype, sharded):
    maker.dtype = dtype
    folder = maker.shard() if sharded else maker.write()
    checkpoint = open_checkpoint(str(folder))
    reference = {}
    for file in folder.glob("*.safetensors"):
        reference |= load_file(file)
    loaded = checkpoint.load(checkpoint.tensors)
    assert loaded.keys() == reference.keys()
    for name, tensor in loaded.items():
        assert tensor.dtype == reference[name].dtype
        assert torch.equal(tensor, reference[name])


def test_load_converts_where_a_dtype_is_asked(maker):
    checkpoint = open_checkpoint(str(maker.write()))
    native = checkpoint.load([Q_PROJ])[Q_PROJ]
    assert torch.equal(checkpoint.load([Q_PROJ], torch.bfloat16)[Q_PROJ], native.to(torch.bfloat16))


def test_load_reads_the_asked_tensor_and_no_more(maker):
    checkpoint = open_checkpoint(str(maker.write()))
    assert checkpoint.bytes_read == 0
    checkpoint.load([Q_PROJ])
    assert checkpoint.bytes_read == 32 * 16 * 4


def test_embedding_rows_read_each_row_once(maker):
    checkpoint = open_checkpoint(str(maker.write()))
    rows = checkpoint.embedding_rows([7, 3, 7, 39, 0])
    assert torch.equal(rows, torch.from_numpy(maker.values[EMBEDDING])[[7, 3, 7, 39, 0]])
    assert checkpoint.bytes_read == 4 * 16 * 4


def test_a_nan_weight_is_read_as_it_is(maker):
    maker.values[Q_PROJ][0, 0] = float("nan")
    maker.values[Q_PROJ][0, 1] = float("inf")
    loaded = open_checkpoint(str(maker.write())).load([Q_PROJ])[Q_PROJ]
    assert loaded[0, 0].isnan()
    assert loaded[0, 1].isinf()


def test_a_checkpoint_of_the_bare_model_is_read_under_the_same_names(maker):
    maker.values = {name.removeprefix("model."): values for name, values in maker.values.items()}
    checkpoint = open_checkpoint(str(maker.write()))
    checkpoint.require_layers(3)
    assert checkpoint.tensors[Q_PROJ].stored_name == "layers.0.self_attn.q_proj.weight"
    assert torch.equal(
        checkpoint.load([Q_PROJ])[Q_PROJ], torch.from_numpy(maker.values["layers.0.self_attn.q_proj.weight"])
    )


def test_nothing_is_written_into_the_folder(maker):
    folder = maker.shard()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    checkpoint = open_checkpoint(str(folder))
    checkpoint.require_layers(3)
    checkpoint.load(checkpoint.tensors)
    checkpoint.embedding_rows([1])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_config_gives_only_checked_fields_and_a_new_dictionary_each_time(maker):
    maker.config |= {"attn_implementation": "someone/kernel", "use_kernels": True, "id2label": {"0": "x"}}
    checkpoint = open_checkpoint(str(maker.write()))
    assert not {"attn_implementation", "use_kernels", "id2label"} & checkpoint.config.keys()
    checkpoint.config["rope_parameters"]["rope_theta"] = 1.0
    assert checkpoint.config["rope_parameters"]["rope_theta"] == 1000000.0


def test_a_layer_needs_what_its_attention_depends_on(maker):
    for name in list(maker.values):
        later = name.startswith(("model.layers.2.", "model.layers.3.", "model.norm"))
        if later or name.startswith(("model.layers.1.mlp", "model.layers.1.post_attention_layernorm")):
            del maker.values[name]
    checkpoint = open_checkpoint(str(maker.write()))
    checkpoint.require_layers(1)
    with pytest.raises(InputError, match=r'lacks tensors .* "model\.layers\.1\.post_attention_layernorm\.weight"'):
        checkpoint.require_layers(1, attention_only_for_last=False)
    with pytest.raises(InputError, match=r'"model\.layers\.1\.post_attention_layernorm\.weight".*\(\+\d+\)'):
        checkpoint.require_layers(2)


@pytest.mark.parametrize("part", ["q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"])
def test_a_missing_tensor_is_named(maker, part):
    name = f"model.layers.2.self_attn.{part}.weight"
    del maker.values[name]
    checkpoint = open_checkpoint(str(maker.write()))
    checkpoint.require_layers(1)
    with pytest.raises(InputError) as caught:
        checkpoint.require_layers(2)
    assert str(caught.value).startswith(f'{maker.folder} lacks tensors that the asked layer needs: "{name}". ')


def test_a_missing_embedding_is_named(maker):
    del maker.values[EMBEDDING]
    checkpoint = open_checkpoint(str(maker.write()))
    for needing in (lambda: checkpoint.require_layers(0), lambda: checkpoint.embedding_rows([0])):
        with pytest.raises(InputError, match=r'lacks tensors .* "model\.embed_tokens\.weight"'):
            needing()


def test_a_wrong_shape_is_named_with_both_shapes(maker):
    name = "model.layers.0.self_attn.k_proj.weight"
    maker.values[name] = maker.values[name][:8]
    with pytest.raises(InputError) as caught:
        open_checkpoint(str(maker.write())).require_layers(0)
    assert str(caught.value) == (
        f"Tensor {name} in {maker.folder / 'model.safetensors'} has the shape [8, 16], but config.json makes it "
        "[16, 16]. Check that config.json belongs to these weights."
    )


@pytest.mark.parametrize("extra", ["q_proj.bias", "q_proj.lora_A.weight", "rotary_emb.factor"])
def test_an_attention_tensor_that_would_be_left_out_is_refused(maker, extra):
    maker.values[f"model.layers.0.self_attn.{extra}"] = maker.values["model.layers.0.self_attn.q_norm.weight"]
    with pytest.raises(InputError, match=f"no place for: .*{extra}.*attention_bias"):
        open_checkpoint(str(maker.write())).require_layers(0)


def test_biases_are_needed_where_the_config_has_them(maker):
    maker.config["attention_bias"] = True
    with pytest.raises(InputError, match=r"q_proj\.bias"):
        open_checkpoint(str(maker.write())).require_layers(0)


def test_old_rotary_frequencies_are_let_be(maker):
    maker.values["model.layers.0.self_attn.rotary_emb.inv_freq"] = maker.values[
        "model.layers.0.self_attn.q_norm.weight"
    ]
    open_checkpoint(str(maker.write())).require_layers(0)


@pytest.mark.parametrize("layer", [-1, 4, 10**9])
def test_a_layer_out_of_range_is_told_the_range(maker, layer):
    checkpoint = open_checkpoint(str(maker.write()))
    for asking in (checkpoint.model_facts, checkpoint.require_layers, checkpoint.check_layer):
        with pytest.raises(
            InputError, match=f"no layer {layer}: .* layers are 0 to 3. Choose one of them with --layer"
        ):
            asking(layer)


@pytest.mark.parametrize("head", [-1, 4])
def test_a_head_out_of_range_is_told_the_range(maker, head):
    with pytest.raises(InputError, match=f"no query head {head}: .* heads are 0 to 3. Choose one of them with --head"):
        open_checkpoint(str(maker.write())).check_head(head)


def test_a_file_that_shrinks_after_it_was_checked_is_an_error(maker):
    folder = maker.write()
    checkpoint = open_checkpoint(str(folder))
    name = list(checkpoint.tensors)[-1]
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate((folder / "model.safetensors").stat().st_size - 1)
    with pytest.raises(InputError, match=f"has become shorter since it was checked: tensor {name}"):
        checkpoint.load([name])


def test_a_file_that_vanishes_after_it_was_checked_is_an_error(maker):
    folder = maker.write()
    checkpoint = open_checkpoint(str(folder))
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"cannot be read: No such file"):
        checkpoint.load([Q_PROJ])


def test_a_tensor_larger_than_memory_is_told(maker, monkeypatch):
    checkpoint = open_checkpoint(str(maker.write()))

    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("numpy.empty", no_memory)
    with pytest.raises(Unsupported, match=f"Tensor {Q_PROJ} takes 2048 bytes, more than this machine has memory for"):
        checkpoint.load([Q_PROJ])


def test_opening_imports_neither_torch_nor_any_other_slow_library(maker):
    code = (
        "import sys; from tracer.checkpoint.open import open_checkpoint\n"
        "checkpoint = open_checkpoint(sys.argv[1]); checkpoint.require_layers(3); checkpoint.facts()\n"
        "slow = {'torch', 'transformers', 'huggingface_hub', 'tokenizers', 'jinja2', 'safetensors'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(maker.write())], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# W2: the output layer


def test_tied_embeddings_need_no_output_layer(maker):
    assert open_checkpoint(str(maker.write())).warnings == ()


def test_untied_without_output_layer_is_a_warning(maker):
    maker.config["tie_word_embeddings"] = False
    checkpoint = open_checkpoint(str(maker.write()))
    checkpoint.require_layers(3)
    (warning,) = checkpoint.warnings
    assert "no lm_head.weight although tie_word_embeddings is not true" in str(warning)
    assert not checkpoint.facts().tied


def test_untied_with_output_layer_is_silent(maker):
    maker.config["tie_word_embeddings"] = False
    maker.values["lm_head.weight"] = maker.values[EMBEDDING]
    assert open_checkpoint(str(maker.write())).warnings == ()


def test_a_dtype_other_than_the_config_says_is_a_warning(maker):
    maker.dtype = "BF16"
    (warning,) = open_checkpoint(str(maker.write())).warnings
    assert str(warning) == "config.json says dtype float32, but the weights are stored as BF16."


# the prompt


def test_the_default_prompt_is_the_folders_own(maker):
    folder = maker.write()
    (folder / "default_prompt.txt").write_text("Good morning, 西.\n", encoding="utf-8")
    assert open_checkpoint(str(folder)).default_prompt() == "Good morning, 西."


NO_TOKEN = (
    "is not in the vocabulary: this model's ids are 0 to 39. Give ids that its own tokenizer makes, or the text itself "
    "with --prompt."
)


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([], "The prompt has no tokens. Give some text with --prompt, or ids with --tokens 1,2,3."),
        ([0, 40], f"Token id 40 at position 1 {NO_TOKEN}"),
        ([-1], f"Token id -1 at position 0 {NO_TOKEN}"),
        (
            [1] * 65,
            "The prompt has 65 tokens, but this model has positions for 64 (max_position_embeddings). Shorten it.",
        ),
    ],
)
def test_a_prompt_the_model_cannot_take_is_refused(maker, ids, sentence):
    checkpoint = open_checkpoint(str(maker.write()))
    for asking in (checkpoint.check_token_ids, checkpoint.embedding_rows):
        with pytest.raises(InputError) as caught:
            asking(ids)
        assert str(caught.value) == sentence


def test_a_prompt_of_exactly_all_positions_is_taken(maker):
    assert open_checkpoint(str(maker.write())).embedding_rows([39] * 64).shape == (64, 16)


# where


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r'no checkpoint at ".*nowhere": expected a folder .* or a hub id'):
        open_checkpoint(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("where", ["", "a\0b", "x" * 5000, "nothing-here/", "a/b/c", "../b", "-/b"])
def test_a_name_that_is_neither_folder_nor_hub_id(where):
    with pytest.raises(InputError, match="There is no checkpoint at") as caught:
        open_checkpoint(where)
    assert len(str(caught.value)) < 400


def test_a_file_in_place_of_a_folder(maker):
    folder = maker.write()
    with pytest.raises(InputError, match=f"is a file, .* Give the folder instead: {folder}"):
        open_checkpoint(str(folder / "model.safetensors"))


def test_a_folder_without_config(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r'has no config\.json.*found there: "notes\.txt"'):
        open_checkpoint(str(tmp_path))


def test_an_empty_folder_is_called_empty(tmp_path):
    with pytest.raises(InputError, match=r"has no config\.json.*\(the folder is empty\)") as caught:
        open_checkpoint(str(tmp_path))
    assert "（文件夹是空的）" in caught.value.text("zh")


def test_a_revision_belongs_to_a_hub_id(maker):
    with pytest.raises(InputError, match='--revision "main" was given with the folder'):
        open_checkpoint(str(maker.write()), revision="main")


def test_a_folder_with_spaces_and_chinese_in_its_name(maker, tmp_path):
    maker.folder = tmp_path / "我的 模型"
    assert open_checkpoint(str(maker.write())).name == "我的 模型"


def test_a_trailing_slash_changes_no_name(maker):
    assert open_checkpoint(f"{maker.write()}/").name == "small"
