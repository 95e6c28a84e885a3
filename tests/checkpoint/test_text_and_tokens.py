"""Text to ids, ids to exact bytes, characters that are split over tokens, and chat templates nobody vouches for."""

import json
from pathlib import Path

import pytest

from tracer.checkpoint import chat
from tracer.checkpoint.characters import byte_of_character, joined
from tracer.checkpoint.open import open_checkpoint
from tracer.errors import InputError
from tracer.records import Token

ALPHABET = {byte: character for character, byte in byte_of_character().items()}
QWEN_TEMPLATE = (
    "{%- for message in messages -%}\n"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)


def tokenizer_json(**changes) -> dict:
    """256 bytes, two merges that split 西 as Qwen2's ids 8908 and 58098 do, and two added tokens."""
    vocabulary = {ALPHABET[byte]: byte for byte in range(256)}
    vocabulary |= {"Ġè": 256, "¥¿": 257, "<|im_start|>": 258, "<|im_end|>": 259}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": 258, "content": "<|im_start|>", **added},
            {"id": 259, "content": "<|im_end|>", **added},
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {name: id for name, id in vocabulary.items() if id < 258},
            "merges": [["Ġ", "è"], ["¥", "¿"]],
        },
        **changes,
    }


@pytest.fixture
def folder(maker) -> Path:
    maker.config["vocab_size"] = 300
    del maker.values["model.embed_tokens.weight"]
    folder = maker.write()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json()), encoding="utf-8")
    return folder


@pytest.fixture
def tokenizer(folder):
    return open_checkpoint(str(folder)).tokenizer()


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        open_checkpoint(str(folder)).tokenizer()
    return str(caught.value)


# D1


def test_a_split_character_keeps_its_bytes_on_each_token(tokenizer):
    ids = tokenizer.encode("a 西")
    assert ids == (97, 256, 257)
    assert tokenizer.tokens(ids) == (
        Token(97, b"a", "a"),
        Token(256, b"\x20\xe8", None),
        Token(257, b"\xa5\xbf", None),
    )


def test_a_split_character_is_shown_whole_over_its_tokens(tokenizer):
    assert tokenizer.joined(tokenizer.tokens((97, 256, 257, 98))) == [(0, 0, "a"), (1, 2, " 西"), (3, 3, "b")]


@pytest.mark.parametrize(
    ("parts", "groups"),
    [
        ([], []),
        ([b"a", b"b"], [(0, 0, "a"), (1, 1, "b")]),
        ([b"\xe5\x96", b"\xb5"], [(0, 1, "喵")]),
        ([b"\xe5", b"\x96", b"\xb5"], [(0, 2, "喵")]),
        ([b"a\xe5\x96", b"\xb5b\xe5", b"\x96\xb5"], [(0, 2, "a喵b喵")]),
        ([b"\xf0\x9f", b"\x98\x80!"], [(0, 1, "😀!")]),
        # bytes of no character: no text, and what follows is not swallowed
        ([b"\xff", b"a"], [(0, 0, None), (1, 1, "a")]),
        ([b"\xe5\x96", b"a"], [(0, 0, None), (1, 1, "a")]),
        ([b"\xe5\x96"], [(0, 0, None)]),
        ([b"\xb5", b"\xe5\x96", b"\xb5"], [(0, 0, None), (1, 2, "喵")]),
        ([b"\xed\xa0", b"\x80"], [(0, 0, None), (1, 1, None)]),  # half of a surrogate pair is not UTF-8
        # a token without bytes ends a group
        ([b"\xe5\x96", b"", b"\xb5"], [(0, 0, None), (1, 1, None), (2, 2, None)]),
        # a real U+FFFD in the text is text
        (["\ufffd".encode()], [(0, 0, "\ufffd")]),
    ],
)
def test_groups_are_the_smallest_runs_of_whole_characters(parts, groups):
    assert joined([Token(0, part, None) for part in parts]) == groups


def test_the_byte_table_is_one_to_one_and_has_the_known_characters():
    assert len(ALPHABET) == 256
    assert (ALPHABET[0x20], ALPHABET[0x0A], ALPHABET[0xE8], ALPHABET[0xA5], ALPHABET[0xAD]) == ("Ġ", "Ċ", "è", "¥", "Ń")


def test_the_byte_table_is_that_of_the_tokenizers_library():
    from tokenizers.pre_tokenizers import ByteLevel

    assert set(byte_of_character()) == set(ByteLevel.alphabet())


@pytest.mark.parametrize("text", ["", "a b\n", "中文，和 English 混排。😀", "a<b", "[/INST]", "\0\x1b[31m", "\u202e"])
def test_the_bytes_of_the_tokens_are_the_bytes_of_the_text(tokenizer, text):
    assert b"".join(token.bytes for token in tokenizer.tokens(tokenizer.encode(text))) == text.encode()


def test_added_tokens_are_literal_text(tokenizer):
    assert tokenizer.encode("<|im_start|>") == (258,)
    assert tokenizer.tokens((258,)) == (Token(258, b"<|im_start|>", "<|im_start|>"),)


def test_an_id_that_only_pads_the_embedding_has_no_bytes(tokenizer):
    assert tokenizer.tokens((299,)) == (Token(299, b"", None),)


def test_half_a_surrogate_pair_is_no_text(tokenizer):
    with pytest.raises(InputError, match="half of a surrogate pair at character 2"):
        tokenizer.encode("ab\ud83d")


def test_a_tokenizer_larger_than_the_vocabulary_is_met_at_the_ids(maker, folder):
    maker.config["vocab_size"] = 200
    maker.write_config()
    checkpoint = open_checkpoint(str(folder))
    with pytest.raises(InputError, match=r"Token id 256 at position 1 is not in the vocabulary: .* 0 to 199"):
        checkpoint.check_token_ids(checkpoint.tokenizer().encode("a 西"))


# a missing or broken tokenizer


def test_without_a_tokenizer_ids_still_work(folder):
    (folder / "tokenizer.json").unlink()
    sentence = refusal(folder)
    assert "has no tokenizer.json, so text cannot be turned into tokens" in sentence
    assert sentence.endswith("give token ids, which need no tokenizer: --tokens 1,2,3")
    checkpoint = open_checkpoint(str(folder))
    assert checkpoint.tokens((5, 6)) == (Token(5, b"", None), Token(6, b"", None))
    (warning,) = checkpoint.warnings
    assert f"Tokens are shown as #id, because {folder} has no tokenizer.json" in str(warning)
    assert "--tokens" not in str(warning) + warning.text("zh")


@pytest.mark.parametrize("content", ["{}", "{"])
def test_with_a_tokenizer_that_cannot_be_used_nobody_is_told_to_give_the_ids_that_were_given(folder, content):
    (folder / "tokenizer.json").write_text(content)
    checkpoint = open_checkpoint(str(folder))
    assert checkpoint.tokens((5,)) == (Token(5, b"", None),)
    (warning,) = checkpoint.warnings
    assert "--tokens" not in str(warning) + warning.text("zh")


def test_with_a_tokenizer_ids_have_their_text(folder):
    assert open_checkpoint(str(folder)).tokens((97,)) == (Token(97, b"a", "a"),)


@pytest.mark.parametrize(
    "changes",
    [
        {"decoder": None},
        {"decoder": {"type": "Metaspace"}},
        {"model": {"type": "WordPiece", "vocab": {}}},
        {"model": None},
        {"model": {"type": "Unigram", "vocab": [["a", 0.0]]}},
    ],
)
def test_a_tokenizer_of_another_kind_is_refused(folder, changes):
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(**changes)))
    assert "is not the byte-level BPE tokenizer that Qwen3 models have" in refusal(folder)


@pytest.mark.parametrize("changes", [{"version": "9"}, {"added_tokens": 3}, {"pre_tokenizer": {"type": "Nothing"}}])
def test_a_tokenizer_that_the_library_cannot_read(folder, changes):
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(**changes)))
    assert "cannot be read as a tokenizer: " in refusal(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "version https://git-lfs.github.com/spec/v1\n"])
def test_a_tokenizer_that_is_no_json(folder, text):
    (folder / "tokenizer.json").write_text(text)
    assert str(folder / "tokenizer.json") in refusal(folder)


def test_a_token_not_in_byte_level_characters_is_named(folder):
    content = tokenizer_json()
    content["model"]["vocab"]["西"] = 258
    content["added_tokens"] = []
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r'Token 258 in .* is written "西", which is not how byte-level BPE writes'):
        open_checkpoint(str(folder)).tokenizer().tokens((258,))


# chat templates


def with_template(folder: Path, template: object, *, own_file: bool = False):
    if own_file:
        (folder / "chat_template.jinja").write_text(str(template), encoding="utf-8")
    else:
        settings = {"chat_template": template, "eos_token": {"content": "<|im_end|>"}, "bos_token": None}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return open_checkpoint(str(folder)).tokenizer()


@pytest.mark.parametrize("own_file", [False, True])
def test_the_checkpoints_own_template_is_rendered(folder, own_file):
    assert with_template(folder, QWEN_TEMPLATE, own_file=own_file).chat("你好 {{ 1 }}") == (
        "<|im_start|>user\n你好 {{ 1 }}<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_named_template_is_the_default_one(folder):
    entry = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]
    assert with_template(folder, entry).chat("x") == "yes"


def test_a_template_sees_special_tokens_and_the_usual_helpers(folder):
    loop = "{% for i in range(5) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}"
    template = "{{ eos_token }}{{ messages | tojson }}" + loop
    assert with_template(folder, template).chat("é") == '<|im_end|>[{"role": "user", "content": "é"}]01'


def test_a_line_end_of_a_block_is_trimmed(folder):
    assert with_template(folder, "  {% if true %}\na\n  {% endif %}\nb").chat("x") == "a\nb"


def test_without_a_template(folder, tokenizer):
    with pytest.raises(InputError, match=r"has no chat template .* Leave --chat out"):
        tokenizer.chat("x")


def test_a_template_of_the_wrong_kind(folder):
    with pytest.raises(InputError, match=r"The chat template in .* is .*, where a string is expected"):
        with_template(folder, {"a": 1})


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{{ raise_exception('only with tools') }}", "TemplateError: only with tools"),
        ("{% for %}", "TemplateSyntaxError"),
        ("{{ ().__class__.__base__.__subclasses__() }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ cycler.__init__.__globals__.os.system('true') }}", "SecurityError"),
        ("{{ nothing.at.all }}", "UndefinedError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ 'x' * 10 ** 10 }}", "MemoryError"),
        ("{% set s = namespace(t='x') %}{% for i in range(40) %}{% set s.t = s.t ~ s.t %}{% endfor %}", "MemoryError"),
        ("{{ 'x' * 2 ** 25 }}", "ValueError: 33554432 characters"),
    ],
)
def test_a_template_that_fails_or_attacks(folder, template, fault):
    with pytest.raises(InputError) as caught:
        with_template(folder, template).chat("x")
    assert f'The chat template of {folder} does not render: "{fault}' in str(caught.value)


def test_a_template_that_does_not_end_is_stopped(folder, monkeypatch):
    monkeypatch.setattr(chat, "SECONDS", 1)
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(InputError, match="was stopped after 1 seconds"):
        with_template(folder, endless).chat("x")


def test_a_worker_that_dies_is_an_error(folder, monkeypatch, tmp_path):
    worker = tmp_path / "worker.py"
    worker.write_text("raise SystemExit(7)")
    monkeypatch.setattr(chat, "WORKER", worker)
    with pytest.raises(InputError, match='does not render: "exit 7"'):
        with_template(folder, "x").chat("x")


def test_the_library_renders_the_same():
    from transformers.utils.chat_template_utils import render_jinja_template

    messages = [{"role": "user", "content": "你好"}]
    theirs, _ = render_jinja_template([messages], chat_template=QWEN_TEMPLATE, add_generation_prompt=True)
    assert chat.render(QWEN_TEMPLATE, "你好", {}, Path()) == theirs[0]


def test_megabytes_of_text_are_refused_before_they_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = open_checkpoint().tokenizer()
    longest = max(len(written.encode("utf-8")) for written in tokenizer._inner.get_vocab())
    least = 10_000_000 // (4 * longest)
    with pytest.raises(InputError) as error:
        tokenizer.encode("A" * 10_000_000, most=2048)
    said = f"The prompt has 10,000,000 bytes, so at least {least:,} tokens, but this model has positions for 2,048"
    assert error.value.text("en").startswith(said)
    assert len(tokenizer.encode("A" * (1 << 16), most=2048)) > 2048  # short enough to be split and counted exactly
