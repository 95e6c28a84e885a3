"""What a rule is given and what it gives: one kernel with everything that was found about it, and faults.

Must not know: particular rules.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tracer.lint.explicit import Explicit
from tracer.lint.facts import Class, Scope
from tracer.lint.judge import Applied, Flag, Judge
from tracer.lint.records import Severity
from tracer.lint.resolve import Resolver
from tracer.lint.subjects import Call
from tracer.lint.triangle import Triangles
from tracer.lint.values import Step, Value

_QWEN3 = re.compile(r"^Qwen3(?!.*(?:Vision|Audio|Visual|Encoder|Code)).*Attention", re.IGNORECASE)


@dataclass(frozen=True)
class Subject:
    """One kernel under judgement: a call, or attention written out. ``applied`` are its scales, ``causal`` its flag."""

    value: Value
    call: Call | None
    explicit: Explicit | None
    applied: tuple[tuple[Applied, ...], ...]
    causal: tuple[Flag, ...]
    resolver: Resolver
    judge: Judge
    triangles: Triangles

    @property
    def scope(self) -> Scope:
        """The function it stands in."""
        return self.value.at.scope

    @property
    def of_qwen3(self) -> bool:
        """Whether it is in a class named like Qwen3's text attention, whose configuration states head_dim."""
        return qwen3(self.scope.cls)

    @property
    def mask_given(self) -> bool:
        """Whether the call gives a mask that is not None."""
        filled = self.call.given("attn_mask")[0] if self.call is not None else None
        return filled is not None and not (
            isinstance(filled.value.node, ast.Constant) and filled.value.node.value is None
        )

    @property
    def declared_not_causal(self) -> bool:
        """Whether the class says ``is_causal = False``, and nothing else."""
        cls = self.scope.cls
        line = self.resolver.program.bases(cls) if cls is not None else ()
        entries = [entry for each in line for entry in self.resolver.attribute_sets(each).get("is_causal", ())]
        return bool(entries) and all(isinstance(node, ast.Constant) and node.value is False for node, _, _ in entries)


@dataclass(frozen=True)
class Fault:
    """A fault a rule found: the values that fill its texts, where it is, the steps that lead there."""

    at: Value
    values: tuple[tuple[str, str], ...] = ()
    steps: tuple[Step, ...] = ()
    text: str = ""  # a variant of the rule's message


Check = Callable[[Subject], Iterator[Fault]]


@dataclass(frozen=True)
class Rule:
    """One kind of fault: its id, how grave it is, and how it is looked for."""

    id: str
    severity: Severity
    check: Check


def qwen3(cls: Class | None) -> bool:
    """Whether a class is named like Qwen3's text attention."""
    return cls is not None and bool(_QWEN3.match(cls.name))
