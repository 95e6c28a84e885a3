"""All files of one lint together: names across files, classes and what they inherit from, who calls what.

Files are parsed where a question needs them. Must not know: attention, what values mean.
"""

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from tracer.lint import walk
from tracer.lint.facts import At, Binding, Class, Module, Scope
from tracer.lint.gather import Read
from tracer.lint.reach import reaching
from tracer.lint.records import Skipped
from tracer.texts import message

Meaning = Scope | Class | Module | Binding
_WORD = re.compile(r"[^\W\d]\w*")
_MOST_READ = 2000
_MOST_MODULES = 400  # a name that more files mention says nothing


class Program:
    """The files of one lint. ``skipped`` grows by those that do not parse."""

    def __init__(self, files: Sequence[Read]) -> None:
        self.files = files
        self._modules: dict[Read, Module | None] = {}
        self._mentioning: dict[tuple[str, Module | None], tuple[Module, ...]] = {}
        self._defining: dict[str, list[Read]] = defaultdict(list)
        self._bases: dict[Class, tuple[Class, ...]] = {}
        self._parsed: set[Read] = set()
        self.skipped: list[Skipped] = []

    def parse(self, read: Read) -> ast.Module | None:
        """Return the syntax tree of a file; None, and an entry in ``skipped``, where it is not Python."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a compiler thinks of the file's escapes is not the question
                tree = ast.parse(read.source, read.name)
            for node in tree.body if read not in self._parsed else ():
                if isinstance(node, ast.ClassDef | ast.FunctionDef):
                    self._defining[node.name].append(read)
            self._parsed.add(read)
            return tree
        except SyntaxError as error:
            why = message("lint.not_python", line=error.lineno or 0, detail=error.msg)
        except (ValueError, RecursionError, MemoryError) as error:
            why = message("lint.too_deep", detail=type(error).__name__)
        self.skipped.append(Skipped(read.name, why))
        self._modules[read] = None
        return None

    def add(self, read: Read, tree: ast.Module | None) -> Module | None:
        """Return the Module of a file that was parsed; None where its tree is too deep to be gone through."""
        if read not in self._modules:
            try:
                self._modules[read] = walk.module(read, tree) if tree is not None else None
            except RecursionError as error:
                self.skipped.append(Skipped(read.name, message("lint.too_deep", detail=type(error).__name__)))
                self._modules[read] = None
        return self._modules[read]

    def module(self, read: Read) -> Module | None:
        """Return the Module of a file, parsed when first asked for."""
        return self._modules[read] if read in self._modules else self.add(read, self.parse(read))

    def mentioning(self, name: str, of: Module | None = None) -> tuple[Module, ...]:
        """Return the files whose text mentions ``name``; none where too many do.

        ``of`` is the file that defines the name at its top level: another that defines it, too, means its own.
        """
        key = (name, of)
        if key not in self._mentioning:
            found = self._words.get(name, ()) if name in self._defining else [r for r in self.files if name in r.source]
            others = set(self._defining.get(name, ())) - {of.read} if of is not None else ()
            kept = [read for read in found if read not in others] if len(found) <= _MOST_READ else []
            modules = (self.module(read) for read in kept) if len(kept) <= _MOST_MODULES else ()
            self._mentioning[key] = tuple(module for module in modules if module is not None)
        return self._mentioning[key]

    @cached_property
    def _words(self) -> dict[str, list[Read]]:
        """For each top-level name of any file, the files whose text mentions it; made once, asked often."""
        wanted = set(self._defining)
        index: dict[str, list[Read]] = defaultdict(list)
        for read in self.files:
            for word in wanted.intersection(_WORD.findall(read.source)):
                index[word].append(read)
        return index

    def loaded(self) -> tuple[Module, ...]:
        """Return the files gone through so far."""
        return tuple(module for module in self._modules.values() if module is not None)

    # ----------------------------------------------------------------------------------------------- full names

    @cached_property
    def _by_last(self) -> dict[str, list[Read]]:
        index: dict[str, list[Read]] = defaultdict(list)
        for read in self.files:
            index[read.parts[-1] if read.parts else ""].append(read)
        return index

    def module_named(self, parts: Sequence[str], near: Module) -> Module | None:
        """Return the file that a dotted module name stands for, seen from ``near``; None where several may be meant."""
        if not parts:
            return None
        fitting = []
        for read in self._by_last.get(parts[-1], ()):
            shorter = min(len(read.parts), len(parts))
            if tuple(read.parts[-shorter:]) == tuple(parts[-shorter:]) and (
                shorter > 1 or len(read.parts) == len(parts)
            ):
                fitting.append((_common(read.parts, near.read.parts), shorter, read))
        if not fitting:
            return None
        best = max(fitting, key=lambda each: each[:2])
        if sum(each[:2] == best[:2] for each in fitting) > 1:
            return None
        return self.module(best[2])

    def find(self, dotted: str, near: Module, depth: int = 0) -> Meaning | None:
        """Return the class, function, file or global binding that a full dotted name stands for; None where it leads
        out of the files read."""
        parts = dotted.split(".")
        whole = self.module_named(parts, near) if len(parts) > 1 or depth == 0 else None
        if whole is not None:
            return whole
        for cut in range(len(parts) - 1, 0, -1):
            module = self.module_named(parts[:cut], near)
            if module is not None and cut == len(parts) - 1:
                found = self.in_module(module, parts[cut], depth)
                if found is not None:
                    return found
        return self._handed_on(parts, near) if len(parts) > 1 else None

    def in_module(self, module: Module, name: str, depth: int = 0) -> Meaning | None:
        """Return what a top-level name of a file stands for."""
        if name in module.classes and module.classes[name].body.parent is module.top:
            return module.classes[name]
        if name in module.functions:
            return module.functions[name]
        bindings, _ = reaching(module.top, name, module.top.end())
        for binding in bindings:
            if binding.way == "import":
                return self.find(binding.key, module, depth + 1) if depth < 8 else None
            return binding
        return None

    def _handed_on(self, parts: Sequence[str], near: Module) -> Meaning | None:
        """A package hands on names of its modules; where its own file is not here, the one definition below it."""
        name = parts[-1]
        fitting = []
        for read in self._defining.get(name, ()):
            if parts[0] in read.parts:
                start = read.parts.index(parts[0])
                if tuple(read.parts[start : start + len(parts) - 1]) == tuple(parts[:-1]):
                    fitting.append((_common(read.parts, near.read.parts), read))
        if not fitting:
            return None
        best = max(fitting, key=lambda each: each[0])
        if sum(each[0] == best[0] for each in fitting) > 1:
            return None
        module = self.module(best[1])
        return (module.classes.get(name) or module.functions.get(name)) if module is not None else None

    # --------------------------------------------------------------------------------------------------- classes

    def class_of(self, node: ast.expr, at: At) -> Class | None:
        """Return the class of the program that an expression or annotation names."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value.strip(), mode="eval").body
            except (SyntaxError, ValueError):
                return None
        if isinstance(node, ast.BinOp):  # X | None
            return self.class_of(node.left, at) or self.class_of(node.right, at)
        if isinstance(node, ast.Subscript):
            outer = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            return (
                self.class_of(node.slice, at)
                if outer in ("Optional", "type", "Type")
                else self.class_of(node.value, at)
            )
        found = self.meaning(node, at)
        return found if isinstance(found, Class) else None

    def meaning(self, node: ast.expr, at: At) -> Meaning | None:
        """Return what a plain or dotted name stands for among top-level names, as far as that is certain."""
        if isinstance(node, ast.Attribute):
            full = self.full_name(node, at)
            return self.find(full, at.scope.module) if full else None
        if not isinstance(node, ast.Name):
            return None
        for binding in self.bindings(node.id, at)[0]:
            if binding.way == "import":
                return self.find(binding.key, at.scope.module)
            if binding.way in ("def", "class"):
                inner = binding.at.scope.module.by_node.get(binding.node)
                return inner.cls if inner is not None and binding.way == "class" else inner
            return None
        return None

    def bindings(self, name: str, at: At) -> tuple[tuple[Binding, ...], bool]:
        """Return the bindings of a name that hold at ``at``, in its own scope or the nearest one around it."""
        scope: Scope | None = at.scope
        while scope is not None:
            if not scope.is_class or scope is at.scope:
                found, sure = reaching(scope, name, at)
                if found or name in parameters(scope):
                    return found, sure
            scope = scope.parent
        return (), False

    def full_name(self, node: ast.expr, at: At) -> str:
        """Return the full dotted name of a plain or dotted name, imports followed; "" for another expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        for binding in self.bindings(node.id, at)[0]:
            if binding.way == "import":
                return ".".join([binding.key, *parts])
        return ".".join([node.id, *parts])

    def bases(self, cls: Class) -> tuple[Class, ...]:
        """Return ``cls`` and the classes read that it inherits from, nearest first."""
        if cls not in self._bases:
            self._bases[cls] = (cls,)
            found = [cls]
            for base in cls.node.bases:
                direct = self.class_of(base, At(cls.body.parent or cls.module.top, float("inf")))
                if direct is not None:
                    found += [each for each in self.bases(direct) if each not in found]
            self._bases[cls] = tuple(found)
        return self._bases[cls]

    def method(self, cls: Class, name: str) -> Scope | None:
        """Return the method that an object of ``cls`` has under that name."""
        return next((each.methods[name] for each in self.bases(cls) if name in each.methods), None)

    def subclasses(self, cls: Class) -> Iterator[Class]:
        """Yield the classes read that inherit from ``cls``."""
        for module in self.mentioning(cls.name, cls.module):
            for each in module.classes.values():
                if each is not cls and cls in self.bases(each):
                    yield each

    def calls_named(self, name: str, of: Module | None = None) -> Iterator[tuple[ast.Call, At]]:
        """Yield every call whose callee's last name is ``name``; ``of`` as for ``mentioning``."""
        for module in self.mentioning(name, of):
            yield from module.calls_by_name.get(name, ())


def parameters(scope: Scope) -> frozenset[str]:
    """Return the names of a function's parameters."""
    node = scope.function
    if node is None:
        return frozenset()
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return frozenset([a.arg for a in every] + [a.arg for a in (args.vararg, args.kwarg) if a is not None])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many leading parts two names share."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
