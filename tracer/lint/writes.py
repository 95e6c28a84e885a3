"""Where an attribute is written from outside the class it belongs to: ``model.attn.scale = 1.0``, ``setattr``.

The text of the files tells which of them need a closer look. Must not know: what is written, which object it is.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tracer.lint.facts import At, Key, Module
from tracer.lint.gather import Read
from tracer.lint.program import Program

_ASSIGNED = re.compile(r"\.(\w+)\s*(?:\*\*|//|>>|<<|[-+*/%@&|^])?=(?!=)")
_SET = re.compile(r"setattr(?:__)?\(\s*[^,]+,\s*[\"'](\w+)[\"']")
_KEYED = re.compile(r"__dict__\[\s*[\"'](\w+)[\"']")
_NAMED_SET = ("setattr", "__setattr__", "register_buffer", "register_parameter")


@dataclass(frozen=True)
class Write:
    """One write of an attribute: the object's expression, the attribute's name (None: only known when it runs, of the
    form ``pattern``), and what it is given."""

    owner: ast.expr
    name: str | None
    value: ast.expr
    path: tuple[Key, ...]
    at: At
    pattern: str = ".*"

    @property
    def augments(self) -> bool:
        """Whether it changes what was there: ``self.scale *= 2``."""
        left = self.value.left if isinstance(self.value, ast.BinOp) else None
        return isinstance(left, ast.Attribute) and left.attr == self.name and left.value is self.owner

    @property
    def of_receiver(self) -> bool:
        """Whether a method writes it to its own object."""
        return isinstance(self.owner, ast.Name) and self.owner.id == self.at.scope.receiver

    def may_be(self, name: str) -> bool:
        """Whether this may write the attribute of that name."""
        return self.name == name if self.name is not None else re.fullmatch(self.pattern, name) is not None


class Writes:
    """The writes of attributes in one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._of: dict[str, tuple[Write, ...]] = {}
        self._in: dict[Module, tuple[Write, ...]] = {}

    def outside(self, name: str) -> tuple[Write, ...]:
        """Return every write of an attribute of that name to another object than a method's own."""
        if name not in self._of:
            modules = [self._program.module(read) for read in self._files.get(name, ())]
            found = (write for module in modules if module is not None for write in self.in_module(module))
            self._of[name] = tuple(w for w in found if w.name == name and not w.of_receiver)
        return self._of[name]

    def in_module(self, module: Module) -> tuple[Write, ...]:
        """Return every write of an attribute in one file."""
        if module not in self._in:
            self._in[module] = tuple(_writes(module))
        return self._in[module]

    @cached_property
    def _files(self) -> dict[str, list[Read]]:
        """For each attribute that is written to something not called self, the files that do."""
        index: dict[str, list[Read]] = defaultdict(list)
        for read in self._program.files:
            source = read.source
            words = {
                found[1]
                for found in _ASSIGNED.finditer(source)
                if source[max(0, found.start() - 4) : found.start()] != "self"
            }
            if "setattr" in source:
                words.update(found[1] for found in _SET.finditer(source))
            if "__dict__" in source:
                words.update(found[1] for found in _KEYED.finditer(source))
            for word in words:
                index[word].append(read)
        return index


def _writes(module: Module) -> Iterator[Write]:
    for scope in module.scopes:
        for target, value, path, at in scope.attributes:
            yield Write(target.value, target.attr, value, path, at)
    for name in _NAMED_SET:
        for call, at in module.calls_by_name.get(name, ()):
            found = _named_set(name, call, at)
            if found is not None:
                yield found


def _named_set(function: str, call: ast.Call, at: At) -> Write | None:
    """``setattr(x, "name", value)``, ``x.register_buffer("name", value)``."""
    args = list(call.args)
    if any(isinstance(each, ast.Starred) for each in args):
        return None
    if function.startswith("register") or (function == "__setattr__" and len(args) == 2):
        if not isinstance(call.func, ast.Attribute):
            return None
        args.insert(0, call.func.value)
        args += [keyword.value for keyword in call.keywords if keyword.arg in ("tensor", "param")]
    if len(args) < 3:
        return None
    owner, field, value = args[:3]
    if isinstance(field, ast.Constant):
        return Write(owner, str(field.value), value, (), at)
    parts = field.values if isinstance(field, ast.JoinedStr) else ()
    pattern = "".join(re.escape(str(each.value)) if isinstance(each, ast.Constant) else ".*" for each in parts)
    return Write(owner, None, value, (), at, pattern or ".*")
