"""The plain records that every part hands to the next. Frozen, no behaviour beyond what follows from their own fields.

Axis letters: B batch, T tokens (Tq, Tk where they differ), H query heads, K key/value heads, D head_dim, C hidden size;
H·D is H heads of D side by side, and (H+2K)·D all heads of Q, K and V. Spans count lines from 1 and columns from 0 in
code points; the end is exclusive. Must not know: torch, rendering.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tracer.arrays import Array
from tracer.texts import Message

# ---------------------------------------------------------------------------------------------------- places


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of a text file: lines from 1, columns from 0 in code points, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Site:
    """An expression in a source file whose sha256 is known. ``permalink`` is None where no pin knows that sha256, or
    where the pinned file differs from the upstream one."""

    project: str
    version: str
    path: str  # inside the project's repository or package, with forward slashes
    span: Span
    scope: str  # "Qwen3Attention.forward"
    code: str
    sha256: str
    permalink: str | None
    link_kind: str  # commit | tag | differs (pinned, but upstream these lines are others) | none (no pin)
    file: Path  # on this machine; never leaves it (no place in JSON or saved traces)

    @property
    def pinned(self) -> bool:
        """Whether a pin knows this very file."""
        return self.link_kind != "none"

    @property
    def place(self) -> str:
        """``modeling_qwen3.py:213:23``, the shortest name a reader can find the expression by."""
        return f"{self.path.rsplit('/', 1)[-1]}:{self.span.line}:{self.span.column}"


@dataclass(frozen=True)
class Hop:
    """One step of a value from its definition to the kernel: the expression there, the name it is bound to next, and
    what was seen at run time. ``same_object`` is None where identity proves nothing (True and False are singletons)."""

    site: Site
    binds: str  # "self.scaling", "scaling=", "'softmax_scale':", "**"
    linked: bool  # the source itself shows that this expression reads what the hop before it bound
    seen: bool  # the expression ran inside the asked layer
    value: float | bool | None = None
    same_object: bool | None = None


# -------------------------------------------------------------------------------------------- what was asked


@dataclass(frozen=True)
class Choice:
    """A value that was chosen for the reader, and why."""

    value: str
    reason: Message


@dataclass(frozen=True)
class Request:
    """What one trace was asked for, every default resolved."""

    layer: int
    head: int
    query: int | None
    token_ids: tuple[int, ...]
    engine: Choice
    kernel: Choice
    device: Choice
    dtype: Choice


@dataclass(frozen=True)
class Token:
    """One token of the prompt: its exact bytes, and its text where these bytes alone are text (else None)."""

    id: int
    bytes: bytes
    text: str | None


@dataclass(frozen=True)
class CheckpointFacts:
    """Which checkpoint it was: ``name`` is a folder's name or a hub id, hashes identify config and weight headers."""

    name: str
    revision: str | None
    dtype: str
    config_sha256: str
    headers_sha256: str
    tied: bool


@dataclass(frozen=True)
class ModelFacts:
    """The shape of the model and of the asked layer. ``window`` is the number of visible keys of a sliding layer."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden_size: int
    layer_type: str
    window: int | None
    max_positions: int
    norm_eps: float
    rope: Mapping[str, object]

    @property
    def group(self) -> int:
        """How many query heads share one key/value head."""
        return self.heads // self.kv_heads

    def kv_head(self, head: int) -> int:
        """Return the key/value head that query head ``head`` reads."""
        return head // self.group


# ------------------------------------------------------------------------------------------ what was captured


@dataclass(frozen=True, eq=False)
class Capture:
    """What one site produced: ``symbol`` is its letter in the formulas, ``axes`` names each axis of ``array``."""

    name: str
    symbol: str
    axes: tuple[str, ...]
    array: Array
    site: Site
    formula: str  # in Unicode


@dataclass(frozen=True, eq=False)
class KernelCall:
    """The one call that computed attention. Layouts: output [T, H, D], lse [H, T] (natural log, of scaled scores)."""

    function: str
    provider: str
    arguments: Mapping[str, object]  # by name; tensors as {"shape": …, "dtype": …} except small integer ones (lists)
    site: Site
    output: Array
    lse: Array | None


@dataclass(frozen=True, eq=False)
class Lineage:
    """A value followed from definition to kernel. ``value`` is what the kernel was given."""

    value: float | bool | None
    expression: str
    hops: tuple[Hop, ...]


@dataclass(frozen=True, eq=False)
class Effects:
    """What re-running the asked layer's attention showed.

    untraced_same: the untraced module gave the same bits. changed: for each changed position t, the first earlier row
    whose bits moved (None: no row before t moved) and whether row t itself moved (else the test says nothing).
    eager: attention computed with plain matrix products in the same dtype, [T, heads, D], for the heads in eager_heads.
    """

    untraced_same: bool
    changed: tuple[tuple[int, int | None, bool], ...]
    eager: Array
    eager_heads: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """One run of one layer: all that was captured, all heads. Any head's page follows from it without a model."""

    request: Request
    versions: Mapping[str, str]
    checkpoint: CheckpointFacts
    model: ModelFacts
    tokens: tuple[Token, ...]
    scale: Lineage
    causal: Lineage
    kernel: KernelCall
    captures: Mapping[str, Capture]
    effects: Effects
    warnings: tuple[Message, ...] = ()

    @property
    def cached(self) -> int:
        """How many of the first tokens lay in a cache: queries and what comes of them are of the tokens behind, the
        first row being token ``cached``; keys and values are of all."""
        return max(len(self.tokens) - self.captures["q"].array.shape[0], 0)


# ---------------------------------------------------------------------------------------------------- checks


class Status(StrEnum):
    """How a check ended."""

    PASS = "pass"
    FAIL = "fail"
    NOT_TESTABLE = "not_testable"


@dataclass(frozen=True, repr=False)
class Check:
    """One claim about the run, tested. ``reason`` says why that tolerance, or why it could not be tested."""

    id: str
    claim: Message
    status: Status
    measured: Message
    expected: Message
    tolerance: Message
    reason: Message
    site: Site | None = None
    figures: Mapping[str, float | int | str | bool | None] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Check {self.id}: {self.status}; measured {self.measured}; expected {self.expected}>"
