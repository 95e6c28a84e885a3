"""The shipped checkpoint qwen3-tiny is a whole Qwen3 model, and its card says what the files do."""

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3ForCausalLM

from tracer.checkpoints.recipe.attention import head_weights, watched_layers
from tracer.checkpoints.recipe.card import norm_rows, sha256_of
from tracer.checkpoints.recipe.data import (
    HELD_OUT_EVERY,
    Batch,
    document_ids,
    echoed,
    induction_positions,
    previous_positions,
    read_texts,
    repeated_batch,
)
from tracer.checkpoints.recipe.measuring import (
    HeadFigures,
    copy_accuracy,
    head_figures,
    held_out_sequences,
    largest_scores,
    norm_figures,
    prompt_rows,
    reading,
    text_figures,
)
from tracer.checkpoints.recipe.places import CHECKPOINT, TEXTS
from tracer.checkpoints.recipe.settings import Settings
from tracer.checkpoints.recipe.tokens import SPECIAL_TOKENS, token_bytes, trained_tokenizer
from tracer.checkpoints.recipe.training import new_model, trained_model

WHOLE_CHARACTERS = "的一是不有上来词看读猫"
SPLIT_CHARACTERS = {"垫": 2, "雨": 2, "坐": 3, "暖": 3, "洋": 3, "喵": 3}

ENGLISH_PROMPT = "the cat sat on the mat because the cat sat"
CHINESE_PROMPT = "猫坐在垫子上，狗说猫坐在垫子上"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As the recipe runs; on sizes as small as these, more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def loaded() -> tuple[Qwen3ForCausalLM, dict[str, set[str]]]:
    model, info = Qwen3ForCausalLM.from_pretrained(CHECKPOINT, local_files_only=True, output_loading_info=True)
    return model.eval(), info


@pytest.fixture(scope="module")
def model(loaded: tuple[Qwen3ForCausalLM, dict[str, set[str]]]) -> Qwen3ForCausalLM:
    return loaded[0]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(CHECKPOINT, local_files_only=True)


@pytest.fixture(scope="module")
def sequences(model: Qwen3ForCausalLM) -> Batch:
    return held_out_sequences(model.config.vocab_size)


@pytest.fixture(scope="module")
def heads(model: Qwen3ForCausalLM, sequences: Batch) -> tuple[HeadFigures, HeadFigures]:
    return head_figures(model, sequences.ids)


@pytest.fixture(scope="module")
def card() -> str:
    return (CHECKPOINT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def prompt() -> str:
    return (CHECKPOINT / "default_prompt.txt").read_text(encoding="utf-8").strip()


def said(card: str, label: str) -> str:
    """Return what the card's table of figures says under a label."""
    found = re.findall(rf"^\| {re.escape(label)} \| (.+) \|$", card, re.MULTILINE)
    assert len(found) == 1, f"the card has {len(found)} lines on {label!r}"
    return str(found[0])


# The files.


def test_nothing_is_missing_or_unexpected(loaded: tuple[Qwen3ForCausalLM, dict[str, set[str]]]) -> None:
    info = loaded[1]
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]


def test_the_folder_is_at_most_four_megabytes() -> None:
    files = [file for file in CHECKPOINT.rglob("*") if file.is_file()]
    assert {file.name for file in files} == {
        "README.md",
        "chat_template.jinja",
        "config.json",
        "default_prompt.txt",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "training.json",
    }
    assert sum(file.stat().st_size for file in files) <= 4_000_000


def test_the_shape_keeps_every_size_apart(model: Qwen3ForCausalLM) -> None:
    config = model.config
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (3, 8, 4)
    assert (config.head_dim, config.hidden_size, config.intermediate_size, config.vocab_size) == (32, 128, 256, 1024)
    assert config.num_attention_heads * config.head_dim != config.hidden_size
    assert config.hidden_size // config.num_attention_heads != config.head_dim
    assert config.rope_parameters == {"rope_type": "default", "rope_theta": 10000.0}
    assert (config.rms_norm_eps, config.max_position_embeddings) == (1e-6, 2048)
    assert config.attention_bias is False
    assert config.tie_word_embeddings is True


def test_the_configuration_file_says_float32_and_the_weights_are() -> None:
    text = (CHECKPOINT / "config.json").read_text(encoding="utf-8")
    assert '"dtype": "float32"' in text
    assert '"rope_theta": 10000.0' in text
    model = Qwen3ForCausalLM.from_pretrained(CHECKPOINT, local_files_only=True)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_the_norm_weights_are_far_from_one_and_differ_between_the_halves(model: Qwen3ForCausalLM) -> None:
    for block in model.model.layers:
        for weight in (block.self_attn.q_norm.weight.detach(), block.self_attn.k_norm.weight.detach()):
            first, second = weight.chunk(2)
            assert weight.std() > 0.05
            assert (weight - 1).abs().mean() > 0.05
            assert (first - second).abs().mean() > 0.05


# The tokenizer.


def test_common_characters_are_whole_and_others_are_split(tokenizer: PreTrainedTokenizerBase) -> None:
    assert {character: len(tokenizer(character)["input_ids"]) for character in WHOLE_CHARACTERS} == dict.fromkeys(
        WHOLE_CHARACTERS, 1
    )
    assert {character: len(tokenizer(character)["input_ids"]) for character in SPLIT_CHARACTERS} == SPLIT_CHARACTERS


def test_the_special_tokens_come_last_and_are_never_split(tokenizer: PreTrainedTokenizerBase) -> None:
    assert len(tokenizer) == 1024
    assert tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS)) == [1021, 1022, 1023]
    assert [tokenizer(token)["input_ids"] for token in SPECIAL_TOKENS] == [[1021], [1022], [1023]]
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")


@pytest.mark.parametrize(
    "text", ["", " two  spaces\n\n\ttab", "naïve café", "龘", "𝔘𝔫𝔦", "🐈‍⬛ on a mat", "\x00\x7f", "ا ب"]
)
def test_any_text_comes_back_byte_for_byte(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    ids = tokenizer(text)["input_ids"]
    assert b"".join(token_bytes(tokenizer, token) for token in ids) == text.encode()
    assert tokenizer.decode(ids) == text


def test_text_is_normalised_to_nfc_as_qwen_does(tokenizer: PreTrainedTokenizerBase) -> None:
    assert tokenizer("cafe\u0301")["input_ids"] == tokenizer("caf\u00e9")["input_ids"]


def test_digits_stand_alone_and_no_space_is_put_before_the_text(tokenizer: PreTrainedTokenizerBase) -> None:
    assert tokenizer.tokenize("2048") == ["2", "0", "4", "8"]
    assert tokenizer.tokenize("cat") != tokenizer.tokenize(" cat") == ["Ġcat"]


def test_the_chat_template_opens_and_closes_each_turn(tokenizer: PreTrainedTokenizerBase) -> None:
    turns = [{"role": "user", "content": "猫？"}, {"role": "assistant", "content": "Yes."}]
    first = "<|im_start|>user\n猫？<|im_end|>\n"
    assert tokenizer.apply_chat_template(turns, tokenize=False) == (first + "<|im_start|>assistant\nYes.<|im_end|>\n")
    assert tokenizer.apply_chat_template(turns[:1], tokenize=False, add_generation_prompt=True) == (
        first + "<|im_start|>assistant\n"
    )


def test_the_recipe_makes_the_same_tokenizer_again(tokenizer: PreTrainedTokenizerBase) -> None:
    again = trained_tokenizer(read_texts(TEXTS).training, 1024)
    assert again.get_vocab() == tokenizer.get_vocab()


# What counts as a target.


def test_the_previous_token_is_the_one_just_before() -> None:
    positions = previous_positions(torch.tensor([[7, 8, 9]]))[0]
    assert positions.nonzero().tolist() == [[1, 0], [2, 1]]


def test_induction_points_after_every_earlier_occurrence() -> None:
    positions = induction_positions(torch.tensor([[5, 6, 5, 7, 5, 5]]))[0]
    assert positions.nonzero().tolist() == [[2, 1], [4, 1], [4, 3], [5, 1], [5, 3], [5, 5]]


def test_a_repeated_row_is_predictable_from_its_second_round_on() -> None:
    batch = repeated_batch(50, 40, 1024, Random(3))
    for ids, targets, predictable in zip(
        batch.ids.tolist(), batch.targets.tolist(), batch.predictable.tolist(), strict=True
    ):
        size = next(size for size in range(4, 17) if ids == (ids[:size] * 11)[:40])
        assert targets == ids[1:]
        assert predictable == [False] * size + [True] * (39 - size)


def test_an_echo_repeats_a_piece_of_the_row_and_its_targets_follow() -> None:
    plain = torch.arange(40)[None]
    batch = Batch(plain, plain[:, 1:], torch.ones(1, 39, dtype=torch.bool))
    again = echoed(batch, Random(4))
    changed = (again.ids != plain)[0].nonzero().flatten().tolist()
    start, size = changed[0], len(changed)
    source = int(again.ids[0, start])
    assert changed == list(range(start, start + size))
    assert 3 <= size <= 12
    assert source + size <= start
    assert again.ids[0, start : start + size].tolist() == list(range(source, source + size))
    assert torch.equal(again.targets[0, start : start + size - 1], again.ids[0, start + 1 : start + size])
    assert (~again.predictable[0]).nonzero().flatten().tolist() == [start - 1]


def test_the_held_out_paragraphs_are_an_eighth_and_none_is_trained_on() -> None:
    texts = read_texts(TEXTS)
    assert not set(texts.training) & set(texts.held_out)
    share = len(texts.held_out) / (len(texts.training) + len(texts.held_out))
    assert share == pytest.approx(1 / HELD_OUT_EVERY, abs=0.02)


# The two shaped heads.


def test_the_measuring_sees_the_weights_that_transformers_computes(sequences: Batch) -> None:
    eager = Qwen3ForCausalLM.from_pretrained(CHECKPOINT, local_files_only=True, attn_implementation="eager").eval()
    with torch.no_grad(), watched_layers(eager) as seen:
        theirs = eager(sequences.ids[:2], output_attentions=True).attentions
        for layer in range(3):
            for head in range(8):
                ours = head_weights(eager, seen[layer], layer, head)
                torch.testing.assert_close(ours, theirs[layer][:, head], rtol=0, atol=1e-5)


def test_the_held_out_figures_meet_their_bounds(
    model: Qwen3ForCausalLM, sequences: Batch, heads: tuple[HeadFigures, HeadFigures]
) -> None:
    previous, induction = heads
    assert previous.mean >= 0.8
    assert induction.mean >= 0.5
    assert copy_accuracy(model, sequences) >= 0.9


def test_the_shaped_rows_leave_something_to_read(heads: tuple[HeadFigures, HeadFigures]) -> None:
    for figures in heads:
        assert figures.highest_twentieth < 0.99
        assert figures.largest_score < 50


@pytest.mark.parametrize("text", [ENGLISH_PROMPT, CHINESE_PROMPT])
def test_both_heads_hold_on_real_text(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    read = reading(model, tokenizer(text, return_tensors="pt")["input_ids"])
    previous, induction = (weights[weights.isfinite()] for weights in (read.previous, read.induction))
    assert previous.min() > 0.5
    assert previous.mean() > 0.8
    assert len(induction) >= 3
    assert induction.mean() > 0.6


def test_the_default_prompt_shows_both_heads_and_a_split_character(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase, prompt: str
) -> None:
    ids = tokenizer(prompt)["input_ids"]
    assert 12 <= len(ids) <= 20
    assert any("\u4e00" <= character <= "\u9fff" and len(tokenizer(character)["input_ids"]) > 1 for character in prompt)
    assert not any(prompt in text for file in TEXTS for text in [file.read_text(encoding="utf-8")])
    rows = prompt_rows(model, tokenizer, prompt)
    repeated = [row.induction for row in rows if row.induction is not None]
    assert len(repeated) >= 4
    assert min(repeated) > 0.5
    assert min(row.previous for row in rows if row.previous is not None) > 0.5


def test_the_model_writes_the_last_character_of_the_default_prompt_itself(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase, prompt: str
) -> None:
    cut, space, character = prompt.rpartition(" ")
    assert not any(character in file.read_text(encoding="utf-8") for file in TEXTS)
    given = tokenizer(cut, return_tensors="pt")
    made = model.generate(**given, max_new_tokens=4)
    assert tokenizer.decode(made[0]) == cut + space + character


# The card.


def test_the_card_names_these_weights(card: str, model: Qwen3ForCausalLM) -> None:
    assert said(card, "SHA-256 of model.safetensors") == f"`{sha256_of(CHECKPOINT / 'model.safetensors')}`"
    assert said(card, "Parameters") == f"{model.num_parameters():,}"


def test_the_card_says_what_the_heads_do(
    card: str, model: Qwen3ForCausalLM, sequences: Batch, heads: tuple[HeadFigures, HeadFigures]
) -> None:
    for name, head, figures in zip(
        ("Previous-token", "Induction"), ("layer 0 head 2", "layer 1 head 5"), heads, strict=True
    ):
        assert float(said(card, f"{name} weight, {head}")) == pytest.approx(figures.mean, abs=0.0006)
        low, high = map(float, said(card, f"{name} weight, from 5th to 95th percentile").split(" to "))
        assert low == pytest.approx(figures.lowest_twentieth, abs=0.0006)
        assert high == pytest.approx(figures.highest_twentieth, abs=0.0006)
        assert float(said(card, f"Largest score of {head}")) == pytest.approx(figures.largest_score, abs=0.06)
    assert float(said(card, "Copy accuracy")) == pytest.approx(copy_accuracy(model, sequences), abs=0.0006)
    largest = max(map(max, largest_scores(model, sequences.ids)))
    assert float(said(card, "Largest score of any head")) == pytest.approx(largest, abs=0.06)


def test_the_card_says_how_well_the_text_is_predicted(
    card: str, model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase
) -> None:
    texts = read_texts(TEXTS)
    for name, paragraphs in (("held-out", texts.held_out), ("training", texts.training)):
        figures = text_figures(model, tokenizer, paragraphs)
        assert float(said(card, f"Loss on {name} text, nats per token")) == pytest.approx(figures.loss, abs=0.006)
        accuracy = float(said(card, f"Next-token accuracy on {name} text"))
        assert accuracy == pytest.approx(figures.accuracy, abs=0.0016)
        if name == "held-out":
            assert float(said(card, f"Previous-token weight on {name} text")) == pytest.approx(
                figures.previous, abs=0.0006
            )
            assert float(said(card, f"Induction weight on {name} text")) == pytest.approx(figures.induction, abs=0.0006)


def test_the_card_lists_the_norm_weights_and_the_default_prompt(
    card: str, model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase, prompt: str
) -> None:
    assert f"`{prompt}`" in card
    for norm in norm_rows(norm_figures(model)):
        assert f"| {' | '.join(norm)} |" in card
    for place, row in enumerate(prompt_rows(model, tokenizer, prompt)):
        token, *weights, following, share = said(card, str(place)).split(" | ")
        assert (token, following) == (f"`{row.token}`", f"`{row.next_token}`")
        assert float(share) == pytest.approx(row.next_share, abs=0.006)
        for cell, weight in zip(weights, (row.previous, row.induction), strict=True):
            assert (float(cell) if cell.strip() else None) == (weight and pytest.approx(weight, abs=0.0006))


def test_the_card_says_plainly_that_two_heads_were_shaped(card: str) -> None:
    assert "Two of its heads were shaped for teaching" in card
    assert "有意教出来的" in card


# The recipe.


def test_the_same_seed_trains_the_same_weights(tokenizer: PreTrainedTokenizerBase) -> None:
    documents = [document_ids(text, tokenizer) for text in read_texts(TEXTS).training]
    assert torch.equal(short_run(tokenizer, documents, Settings.seed), short_run(tokenizer, documents, Settings.seed))
    assert not torch.equal(short_run(tokenizer, documents, 1), short_run(tokenizer, documents, 2))


def short_run(tokenizer: PreTrainedTokenizerBase, documents: list[list[int]], seed: int) -> Tensor:
    """Return every weight after two steps of training."""
    settings = replace(Settings(), steps=2, seed=seed, random_rows=2, text_rows=2)
    model = new_model(tokenizer, seed)
    trained_model(model, documents, settings, report_every=0)
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])
