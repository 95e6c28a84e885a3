"""What the model is trained and measured on: repeated random tokens, and windows of the project's own text."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from tracer.checkpoints.recipe.tokens import END_OF_TEXT

SHORTEST_SEGMENT, LONGEST_SEGMENT = 4, 16
SHORTEST_ECHO, LONGEST_ECHO = 3, 12

# One paragraph in eight is kept out of both the tokenizer's and the model's training.
HELD_OUT_EVERY, HELD_OUT_OFFSET = 8, 5

QUESTION_MARKS, ANSWER_MARKS = ("Q: ", "问："), ("A: ", "答：")


@dataclass(frozen=True)
class Batch:
    """Rows of token ids, the token to predict after each but the last, and where that can be predicted at all."""

    ids: Tensor  # [rows, length] int64
    targets: Tensor  # [rows, length - 1] int64
    predictable: Tensor  # [rows, length - 1] bool


@dataclass(frozen=True)
class Texts:
    """The paragraphs of the text files, apart."""

    training: list[str]
    held_out: list[str]


def read_texts(files: Sequence[Path]) -> Texts:
    """Return every paragraph of the files, each file's own eighths held out."""
    training: list[str] = []
    held_out: list[str] = []
    for file in files:
        for place, paragraph in enumerate(file.read_text(encoding="utf-8").strip().split("\n\n")):
            side = held_out if place % HELD_OUT_EVERY == HELD_OUT_OFFSET else training
            side.append(paragraph)
    return Texts(training, held_out)


def document_ids(paragraph: str, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return a paragraph's tokens with the end marker; a question with its answer goes through the chat template."""
    text = paragraph
    if paragraph.startswith(QUESTION_MARKS):
        question, answer = paragraph.split("\n")
        if not answer.startswith(ANSWER_MARKS):
            raise ValueError(f"a question without its answer: {paragraph!r}")
        turns = [
            {"role": "user", "content": _without(question, QUESTION_MARKS)},
            {"role": "assistant", "content": _without(answer, ANSWER_MARKS)},
        ]
        text = str(tokenizer.apply_chat_template(turns, tokenize=False))
    ids: list[int] = tokenizer(text + END_OF_TEXT)["input_ids"]
    return ids


def text_batches(
    documents: Sequence[Sequence[int]], rows: int, lengths: Sequence[int], random: Random
) -> Iterator[Batch]:
    """Return endless windows of the documents, shuffled anew each time round, of one length per batch."""
    stream: list[int] = []
    while True:
        length = random.choice(lengths)
        while len(stream) < rows * length:
            order = list(documents)
            random.shuffle(order)
            stream.extend(token for document in order for token in document)
        taken, stream = stream[: rows * length], stream[rows * length :]
        ids = torch.tensor(taken).view(rows, length)
        yield Batch(ids, ids[:, 1:], torch.ones(rows, length - 1, dtype=torch.bool))


def repeated_batch(rows: int, length: int, vocabulary: int, random: Random) -> Batch:
    """Return rows that each repeat a random segment; a token is predictable from the second time round."""
    drawn, predictable = [], []
    for _ in range(rows):
        size = random.randint(SHORTEST_SEGMENT, LONGEST_SEGMENT)
        segment = [random.randrange(vocabulary) for _ in range(size)]
        drawn.append((segment * math.ceil(length / size))[:length])
        # The first token of the second round cannot be known: nothing says yet that the segment has ended.
        predictable.append([place > size for place in range(1, length)])
    ids = torch.tensor(drawn)
    return Batch(ids, ids[:, 1:], torch.tensor(predictable))


def noisy(batch: Batch, share: float, vocabulary: int, random: Random) -> Batch:
    """Return the batch with a share of its input tokens replaced; the targets stay those of the text."""
    ids = batch.ids.clone()
    for row in ids:
        for place in range(len(row)):
            if random.random() < share:
                row[place] = random.randrange(vocabulary)
    return Batch(ids, batch.targets, batch.predictable)


def echoed(batch: Batch, random: Random) -> Batch:
    """Return the batch with a piece of each row written once more further on, as it stands in the input.

    Without it the model copies among random tokens only, and in a text believes what it has learned by heart instead.
    """
    ids, targets, predictable = batch.ids.clone(), batch.targets.clone(), batch.predictable.clone()
    length = ids.shape[1]
    for row in range(len(ids)):
        size = random.randint(SHORTEST_ECHO, LONGEST_ECHO)
        first = random.randint(0, length - 2 * size)
        second = random.randint(first + size, length - size)
        ids[row, second : second + size] = ids[row, first : first + size]
        targets[row, second : second + size - 1] = ids[row, second + 1 : second + size]
        # Nothing tells that the echo is about to begin.
        predictable[row, second - 1] = False
    return Batch(ids, targets, predictable)


def previous_positions(ids: Tensor) -> Tensor:
    """Return [rows, length, length] bool: key j is just before query i."""
    length = ids.shape[1]
    return torch.ones(length, length, dtype=torch.bool).tril(-1).triu(-1).expand(ids.shape[0], -1, -1)


def induction_positions(ids: Tensor) -> Tensor:
    """Return [rows, length, length] bool: key j stands just after an earlier occurrence of query i's token.

    With several earlier occurrences every one of them counts, and a head may share its weight among them as it likes:
    it finds them by the token before the key, and that is the same token in each.
    """
    targets = torch.zeros(*ids.shape, ids.shape[1], dtype=torch.bool)
    targets[:, :, 1:] = ids[:, :, None] == ids[:, None, :-1]
    # The occurrence must be earlier than i itself, so the key after it is at most i.
    return targets.tril()


def _without(line: str, marks: tuple[str, ...]) -> str:
    """Return the line with its leading mark removed."""
    for mark in marks:
        line = line.removeprefix(mark)
    return line
