"""Make ``qwen3-tiny`` from its text: tokenizer, training, measured figures, model card."""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3ForCausalLM

from tracer.checkpoints.recipe.card import Figures, card, sha256_of
from tracer.checkpoints.recipe.data import Texts, document_ids, read_texts
from tracer.checkpoints.recipe.measuring import (
    copy_accuracy,
    head_figures,
    held_out_sequences,
    largest_scores,
    norm_figures,
    prompt_rows,
    text_figures,
)
from tracer.checkpoints.recipe.places import CHECKPOINT, DEFAULT_PROMPT, TEXTS, VOCABULARY
from tracer.checkpoints.recipe.settings import Record, Settings
from tracer.checkpoints.recipe.tokens import trained_tokenizer
from tracer.checkpoints.recipe.training import new_model, trained_model

RECORD, PROMPT, CARD, WEIGHTS = "training.json", "default_prompt.txt", "README.md", "model.safetensors"


def make(texts: Texts, settings: Settings, folder: Path) -> None:
    """Return nothing; train, and save the tokenizer, the model, the record and the default prompt in the folder."""
    tokenizer = trained_tokenizer(texts.training, VOCABULARY)
    model = new_model(tokenizer, settings.seed)
    record = trained_model(model, [document_ids(text, tokenizer) for text in texts.training], settings)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    (folder / RECORD).write_text(record.to_json(), encoding="utf-8")
    (folder / PROMPT).write_text(DEFAULT_PROMPT + "\n", encoding="utf-8")


def measured(folder: Path, texts: Texts) -> Figures:
    """Return the figures of the saved checkpoint, read back as any user would."""
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = Qwen3ForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    sequences = held_out_sequences(len(tokenizer))
    previous, induction = head_figures(model, sequences.ids)
    return Figures(
        parameters=model.num_parameters(),
        sha256=sha256_of(folder / WEIGHTS),
        copying=copy_accuracy(model, sequences),
        previous=previous,
        induction=induction,
        largest_score=max(map(max, largest_scores(model, sequences.ids))),
        training_text=text_figures(model, tokenizer, texts.training),
        held_out_text=text_figures(model, tokenizer, texts.held_out),
        norms=norm_figures(model),
        prompt=prompt_rows(model, tokenizer, DEFAULT_PROMPT),
    )


def main() -> None:
    """Return nothing; make the checkpoint, or only measure it again and rewrite its card."""
    parser = argparse.ArgumentParser(prog="python -m tracer.checkpoints.recipe", description=__doc__)
    parser.add_argument("--out", type=Path, default=CHECKPOINT, help="the folder to write (default: the shipped one)")
    parser.add_argument("--steps", type=int, default=Settings.steps, help="training steps (default: %(default)s)")
    parser.add_argument("--card-only", action="store_true", help="keep the weights; measure them and rewrite the card")
    options = parser.parse_args()
    # One thread adds in one order, so that the same machine makes the same file again.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    texts = read_texts(TEXTS)
    if not options.card_only:
        make(texts, replace(Settings(), steps=options.steps), options.out)
    record = Record.from_json((options.out / RECORD).read_text(encoding="utf-8"))
    (options.out / CARD).write_text(card(measured(options.out, texts), record), encoding="utf-8")
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
