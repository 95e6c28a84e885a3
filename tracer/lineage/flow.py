"""Which definitions of a local name reach each place it is read at, within one function (or one module's top level).

One pass over the statements in the order they run, with branches merged and loops gone through twice. Must not know:
other functions, what an expression means.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import libcst as cst

Key = int | str  # a tuple's element 0, 1, …; an attribute ".name"; an entry "[name]"; any element "*"
ANY: Key = "*"
Test = tuple[cst.BaseExpression, bool]  # the test of an enclosing if, and whether it held
Env = dict[str, tuple["Definition", ...]]


class Way(StrEnum):
    """How a name came by its value."""

    ASSIGNED = "assigned"
    PARAMETER = "parameter"
    ELEMENT = "element"  # of what a loop or comprehension goes through
    UPDATED = "updated"  # an entry or attribute of the object was set
    AUGMENTED = "augmented"
    IMPORTED = "imported"
    DEFINED = "defined"  # def or class
    OPAQUE = "opaque"  # with … as, except … as, del, a match pattern


@dataclass(frozen=True, eq=False)
class Definition:
    """One place that gives ``name`` a value: ``path`` is the part of ``value`` it gets, ``key`` what an update sets."""

    name: str
    way: Way
    node: cst.CSTNode
    value: cst.CSTNode | None = None
    path: tuple[Key, ...] = ()
    key: Key | None = None
    annotation: cst.BaseExpression | None = None
    tests: tuple[Test, ...] = ()


@dataclass(frozen=True, eq=False)
class AttributeSet:
    """``target.attr = value`` (``path``: the part of the value that the attribute gets); for ``target.attr *= x`` the
    whole statement is the value."""

    target: cst.Attribute
    value: cst.CSTNode
    path: tuple[Key, ...]
    annotation: cst.BaseExpression | None
    tests: tuple[Test, ...]


@dataclass(eq=False)
class Flow:
    """What one function's body does with names. ``reaching`` holds the definitions of every local name read there."""

    node: cst.FunctionDef | cst.Module | cst.ClassDef
    reaching: dict[cst.Name, tuple[Definition, ...]] = field(default_factory=dict)
    bound: dict[str, list[Definition]] = field(default_factory=dict)
    returns: list[tuple[cst.BaseExpression, tuple[Test, ...]]] = field(default_factory=list)
    calls: list[cst.Call] = field(default_factory=list)
    attributes: list[AttributeSet] = field(default_factory=list)
    tests: dict[cst.CSTNode, tuple[Test, ...]] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)  # declared global or nonlocal
    inner: list[cst.FunctionDef | cst.ClassDef] = field(default_factory=list)


def flow(node: cst.FunctionDef | cst.Module | cst.ClassDef) -> Flow:
    """Return the Flow of a function, of a module's top level or of a class body (nested functions are not entered)."""
    walk = _Walk(Flow(node))
    env: Env = {}
    if isinstance(node, cst.FunctionDef):
        for param in parameters(node.params):
            walk.bind(env, Definition(param.name.value, Way.PARAMETER, param))
    if isinstance(node, cst.Module):
        walk.block(node.body, env, ())
    else:
        walk.suite(node.body, env, ())
    made = walk.flow
    made.returns = list({value: (value, tests) for value, tests in made.returns}.values())  # loops are walked twice
    made.attributes = list({each.target: each for each in made.attributes}.values())
    made.inner = list(dict.fromkeys(made.inner))
    return made


def parameters(params: cst.Parameters) -> tuple[cst.Param, ...]:
    """Return every parameter in the order it is written: positional, ``*args``, keyword-only, ``**kwargs``."""
    star = (params.star_arg,) if isinstance(params.star_arg, cst.Param) else ()
    last = (params.star_kwarg,) if params.star_kwarg is not None else ()
    return (*params.posonly_params, *params.params, *star, *params.kwonly_params, *last)


def literal_key(node: cst.CSTNode) -> Key | None:
    """Return the key that a literal index or dictionary key stands for, or None where it is computed."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        value = node.evaluated_value
        return f"[{value}]" if isinstance(value, str) else None
    if isinstance(node, cst.Integer):
        return node.evaluated_value
    return None


class _Walk:
    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def bind(self, env: Env, made: Definition) -> None:
        if made.way is Way.UPDATED:
            env[made.name] = (*env.get(made.name, ()), made)
        elif made.name in self.flow.shared:
            env.pop(made.name, None)  # another scope's name: found there
        else:
            env[made.name] = (made,)
        if all(made.node is not known.node or made.path != known.path for known in self.flow.bound.get(made.name, ())):
            self.flow.bound.setdefault(made.name, []).append(made)

    # ------------------------------------------------------------------------------------------- statements

    def block(self, body: Sequence[cst.CSTNode], env: Env, tests: tuple[Test, ...]) -> Env | None:
        """Go through statements; return the names after the last one, or None where control never gets there."""
        current: Env | None = env
        for statement in body:
            if current is None:
                return None
            current = self._statement(statement, current, tests)
        return current

    def _statement(self, node: cst.CSTNode, env: Env, tests: tuple[Test, ...]) -> Env | None:
        if isinstance(node, cst.SimpleStatementLine):
            for small in node.body:
                if not self._small(small, env, tests):
                    return None
            return env
        if isinstance(node, cst.If):
            return self._if(node, env, tests)
        if isinstance(node, (cst.For, cst.While)):
            return self._loop(node, env, tests)
        if isinstance(node, (cst.Try, cst.TryStar)):
            return self._try(node, env, tests)
        if isinstance(node, cst.With):
            for item in node.items:
                self.read(item.item, env, tests)
                if item.asname is not None:
                    self._opaque(item.asname.name, env, tests)
            return self.suite(node.body, env, tests)
        if isinstance(node, cst.Match):
            self.read(node.subject, env, tests)
            ends = [self.suite(case.body, dict(env), tests) for case in node.cases]
            return _merge([env, *ends])
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self._inner(node, env, tests)
            return env
        return env

    def suite(self, suite: cst.BaseSuite, env: Env, tests: tuple[Test, ...]) -> Env | None:
        """Go through the body of a compound statement, also one on the same line."""
        if isinstance(suite, cst.SimpleStatementSuite):
            return self._statement(cst.SimpleStatementLine(suite.body), env, tests)
        return self.block(suite.body, env, tests) if isinstance(suite, cst.IndentedBlock) else env

    def _if(self, node: cst.If, env: Env, tests: tuple[Test, ...]) -> Env | None:
        self.read(node.test, env, tests)
        then = self.suite(node.body, dict(env), (*tests, (node.test, True)))
        unless = (*tests, (node.test, False))
        if isinstance(node.orelse, cst.If):
            other = self._if(node.orelse, dict(env), unless)
        elif node.orelse is not None:
            other = self.suite(node.orelse.body, dict(env), unless)
        else:
            other = dict(env)
        return _merge([then, other])

    def _loop(self, node: cst.For | cst.While, env: Env, tests: tuple[Test, ...]) -> Env | None:
        current: Env = dict(env)
        for _ in range(2):  # the second time round, what the body bound reaches its own beginning
            inside = dict(current)
            if isinstance(node, cst.For):
                self.read(node.iter, inside, tests)
                self._targets(node.target, node.iter, (ANY,), Way.ELEMENT, inside, tests)
            else:
                self.read(node.test, inside, tests)
            current = _merge([current, self.suite(node.body, inside, tests)]) or {}
        return self.suite(node.orelse.body, current, tests) if node.orelse is not None else current

    def _try(self, node: cst.Try | cst.TryStar, env: Env, tests: tuple[Test, ...]) -> Env | None:
        done = self.suite(node.body, dict(env), tests)
        ends = [self.suite(node.orelse.body, done, tests) if node.orelse and done is not None else done]
        for handler in node.handlers:
            inside = _merge([dict(env), done]) or {}
            if handler.name is not None:
                self._opaque(handler.name.name, inside, tests)
            ends.append(self.suite(handler.body, inside, tests))
        merged = _merge(ends)
        if node.finalbody is not None:
            after = self.suite(node.finalbody.body, merged if merged is not None else dict(env), tests)
            return after if merged is not None else None
        return merged

    def _inner(self, node: cst.FunctionDef | cst.ClassDef, env: Env, tests: tuple[Test, ...]) -> None:
        for decorator in node.decorators:
            self.read(decorator.decorator, env, tests)
        if isinstance(node, cst.FunctionDef):
            for param in parameters(node.params):
                if param.default is not None:
                    self.read(param.default, env, tests)
        else:
            for arg in (*node.bases, *node.keywords):
                self.read(arg.value, env, tests)
        self.flow.inner.append(node)
        self.bind(env, Definition(node.name.value, Way.DEFINED, node, tests=tests))

    def _small(self, node: cst.CSTNode, env: Env, tests: tuple[Test, ...]) -> bool:
        """Go through a simple statement; return whether control goes on after it."""
        if isinstance(node, cst.Return):
            if node.value is not None:
                self.read(node.value, env, tests)
                self.flow.returns.append((node.value, tests))
            return False
        if isinstance(node, (cst.Raise, cst.Break, cst.Continue)):
            for child in node.children:
                self.read(child, env, tests)
            return False
        if isinstance(node, cst.Assign):
            self.read(node.value, env, tests)
            for each in node.targets:
                self._targets(each.target, node.value, (), Way.ASSIGNED, env, tests)
        elif isinstance(node, cst.AnnAssign):
            self._annotated(node, env, tests)
        elif isinstance(node, cst.AugAssign):
            self.read(node.target, env, tests)
            self.read(node.value, env, tests)
            self._augmented(node, env, tests)
        elif isinstance(node, (cst.Import, cst.ImportFrom)):
            self._import(node, env, tests)
        elif isinstance(node, (cst.Global, cst.Nonlocal)):
            self.flow.shared.update(item.name.value for item in node.names)
        elif isinstance(node, cst.Expr):
            self.read(node.value, env, tests)
            self._mutation(node.value, env, tests)
        else:
            self.read(node, env, tests)
        return True

    def _augmented(self, node: cst.AugAssign, env: Env, tests: tuple[Test, ...]) -> None:
        target = node.target
        if isinstance(target, cst.Name) and isinstance(node.operator, cst.BitOrAssign):  # of dictionaries: d.update(x)
            self.bind(env, Definition(target.value, Way.UPDATED, node, node.value, tests=tests))
        elif isinstance(target, cst.Name):
            self.bind(env, Definition(target.value, Way.AUGMENTED, node, node.value, tests=tests))
        else:
            self._targets(target, node, (), Way.ASSIGNED, env, tests)

    def _annotated(self, node: cst.AnnAssign, env: Env, tests: tuple[Test, ...]) -> None:
        annotation = node.annotation.annotation
        if node.value is not None:
            self.read(node.value, env, tests)
        if isinstance(node.target, cst.Name):
            name = node.target.value
            if node.value is not None or isinstance(self.flow.node, cst.ClassDef):
                made = Definition(name, Way.ASSIGNED, node.target, node.value, annotation=annotation, tests=tests)
                self.bind(env, made)
        elif isinstance(node.target, cst.Attribute) and node.value is not None:
            self.flow.attributes.append(AttributeSet(node.target, node.value, (), annotation, tests))

    def _import(self, node: cst.Import | cst.ImportFrom, env: Env, tests: tuple[Test, ...]) -> None:
        if isinstance(node.names, cst.ImportStar):
            return
        for alias in node.names:
            bound: cst.CSTNode = alias.asname.name if alias.asname is not None else alias.name
            while isinstance(bound, cst.Attribute):
                bound = bound.value
            if isinstance(bound, cst.Name):
                self.bind(env, Definition(bound.value, Way.IMPORTED, alias, tests=tests))
        self.flow.tests[node] = tests

    def _mutation(self, node: cst.CSTNode, env: Env, tests: tuple[Test, ...]) -> None:
        """``d.update(x)``, ``d.update(k=v)`` and ``d.setdefault("k", v)`` change the object that a name stands for."""
        if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
            return
        base, name = node.func.value, node.func.attr.value
        if not isinstance(base, cst.Name):
            return
        if name == "update":
            for arg in node.args:
                key = f"[{arg.keyword.value}]" if arg.keyword is not None else None
                self.bind(env, Definition(base.value, Way.UPDATED, arg, arg.value, key=key, tests=tests))
        elif name == "setdefault" and len(node.args) == 2:
            entry = literal_key(node.args[0].value)
            self.bind(env, Definition(base.value, Way.UPDATED, node, node.args[1].value, key=entry, tests=tests))

    def _targets(
        self,
        target: cst.CSTNode,
        value: cst.CSTNode,
        path: tuple[Key, ...],
        way: Way,
        env: Env,
        tests: tuple[Test, ...],
    ) -> None:
        if isinstance(target, cst.Name):
            self.bind(env, Definition(target.value, way, target, value, path, tests=tests))
        elif isinstance(target, (cst.Tuple, cst.List)):
            starred = False
            for position, element in enumerate(target.elements):
                starred = starred or isinstance(element, cst.StarredElement)
                self._targets(element.value, value, (*path, ANY if starred else position), way, env, tests)
        elif isinstance(target, cst.Attribute):
            self.read(target.value, env, tests)
            self.flow.attributes.append(AttributeSet(target, value, path, None, tests))
            if isinstance(target.value, cst.Name):
                key = f".{target.attr.value}"
                made = Definition(target.value.value, Way.UPDATED, target, value, path, key=key, tests=tests)
                self.bind(env, made)
        elif isinstance(target, cst.Subscript):
            self.read(target.value, env, tests)
            index = target.slice[0].slice
            self.read(index, env, tests)
            if isinstance(target.value, cst.Name) and isinstance(index, cst.Index):
                entry = literal_key(index.value)
                entry = ANY if entry is None else entry  # computed: it may be any
                made = Definition(target.value.value, Way.UPDATED, target, value, path, key=entry, tests=tests)
                self.bind(env, made)

    def _opaque(self, target: cst.CSTNode, env: Env, tests: tuple[Test, ...]) -> None:
        for name in _names(target):
            self.bind(env, Definition(name.value, Way.OPAQUE, name, tests=tests))

    # ------------------------------------------------------------------------------------------ expressions

    def read(self, node: cst.CSTNode, env: Env, tests: tuple[Test, ...]) -> None:
        """Note every name that ``node`` reads, every call in it, and what it binds (``:=``, comprehensions)."""
        if isinstance(node, cst.Name):
            known = self.flow.reaching.get(node, ())
            found = env.get(node.value, ())
            self.flow.reaching[node] = (*known, *(made for made in found if made not in known))
            self.flow.tests[node] = tests
        elif isinstance(node, (cst.Attribute, cst.Arg)):  # neither an attribute's nor a keyword's name is read
            self.read(node.value, env, tests)
        elif isinstance(node, cst.NamedExpr):
            self.read(node.value, env, tests)
            self._targets(node.target, node.value, (), Way.ASSIGNED, env, tests)
        elif isinstance(node, cst.Lambda):
            inside = dict(env)
            for param in parameters(node.params):
                inside[param.name.value] = (Definition(param.name.value, Way.OPAQUE, param),)
            self.read(node.body, inside, tests)
        elif isinstance(node, cst.BaseComp):
            self._comprehension(node, dict(env), tests)
        else:
            if isinstance(node, cst.Call):
                if node not in self.flow.tests:
                    self.flow.calls.append(node)
                self.flow.tests[node] = tests
            for child in node.children:
                self.read(child, env, tests)

    def _comprehension(self, node: cst.BaseComp, env: Env, tests: tuple[Test, ...]) -> None:
        part: cst.CompFor | None = node.for_in
        while part is not None:
            self.read(part.iter, env, tests)
            self._targets(part.target, part.iter, (ANY,), Way.ELEMENT, env, tests)
            for condition in part.ifs:
                self.read(condition.test, env, tests)
            part = part.inner_for_in
        if isinstance(node, cst.DictComp):
            self.read(node.key, env, tests)
            self.read(node.value, env, tests)
        elif isinstance(node, (cst.GeneratorExp, cst.ListComp, cst.SetComp)):
            self.read(node.elt, env, tests)


def _merge(ends: Iterable[Env | None]) -> Env | None:
    alive = [end for end in ends if end is not None]
    if not alive:
        return None
    merged: Env = {}
    for end in alive:
        for name, made in end.items():
            known = merged.get(name, ())
            merged[name] = (*known, *(each for each in made if each not in known))
    return merged


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    if isinstance(node, cst.Name):
        yield node
    for child in node.children:
        yield from _names(child)
