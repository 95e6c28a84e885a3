"""One pass over a file's syntax tree that finds its scopes, what binds each name there, its calls, its classes.

The tree is that of Python's own parser, which is many times faster than one that keeps layout. Must not know: other
files, what a value means.
"""

import ast
from collections.abc import Iterator, Sequence

from tracer.lint.facts import ANY, Arm, At, Binding, Class, Key, Module, Scope, Test
from tracer.lint.gather import Read


def module(read: Read, tree: ast.Module) -> Module:
    """Return what ``tree``, parsed from ``read``, says of names."""
    made = Module(read, tree)
    _Walk(made, made.top).block(tree.body, (), ())
    return made


class _Walk:
    """Goes through the statements of one scope in the order they are written."""

    def __init__(self, module: Module, scope: Scope) -> None:
        self.module = module
        self.scope = scope
        self.order = 0

    def block(self, body: Sequence[ast.stmt], arms: tuple[Arm, ...], tests: tuple[Test, ...]) -> bool:
        """Go through statements; return whether control reaches their end."""
        goes_on = True
        for node in body:
            self.order += 1
            goes_on = self._statement(node, At(self.scope, self.order, arms, tests)) and goes_on
        return goes_on

    def _arm(self, node: ast.AST, arm: int, body: Sequence[ast.stmt], at: At, tests: tuple[Test, ...] = ()) -> bool:
        goes_on = self.block(body, (*at.arms, (id(node), arm)), (*at.tests, *tests))
        if not goes_on:
            self.scope.ended.add((id(node), arm))
        return goes_on

    def _statement(self, node: ast.stmt, at: At) -> bool:
        match node:
            case ast.If():
                self._reads(node.test, at)
                self.scope.arms[id(node)] = 2 if node.orelse else 1
                then = self._arm(node, 0, node.body, at, ((node.test, True),))
                other = self._arm(node, 1, node.orelse, at, ((node.test, False),)) if node.orelse else True
                return then or other
            case ast.For() | ast.AsyncFor() | ast.While():
                self._loop(node, at)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._reads(item.context_expr, at)
                    if item.optional_vars is not None:
                        self._target(item.optional_vars, None, (), "opaque", at)
                return self.block(node.body, at.arms, at.tests)
            case ast.Try() | ast.TryStar():
                return self._try(node, at)
            case ast.Match():
                self._reads(node.subject, at)
                for arm, case in enumerate(node.cases):
                    for part in ast.walk(case.pattern):
                        if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name:
                            self._bind(Binding(part.name, "opaque", part, at))
                    self._arm(node, arm, case.body, at)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, at)
            case ast.ClassDef():
                self._class(node, at)
            case ast.Return():
                if node.value is not None:
                    self._reads(node.value, at)
                    self.scope.returns.append((node.value, at))
                return False
            case ast.Raise() | ast.Break() | ast.Continue():
                return False
            case _:
                self._simple(node, at)
        return True

    def _simple(self, node: ast.stmt, at: At) -> None:
        match node:
            case ast.Assign():
                self._reads(node.value, at)
                for target in node.targets:
                    self._target(target, node.value, (), "assign", at)
            case ast.AnnAssign():
                if node.value is not None:
                    self._reads(node.value, at)
                    # an annotated field of a class body is a default, which whoever makes the object may change
                    self._target(node.target, None if self.scope.is_class else node.value, (), "assign", at)
                elif self.scope.is_class and isinstance(node.target, ast.Name):
                    self._bind(Binding(node.target.id, "opaque", node.target, at))
            case ast.AugAssign():
                self._reads(node.value, at)
                self._augmented(node, at)
            case ast.Import() | ast.ImportFrom():
                self._import(node, at)
            case ast.Global() | ast.Nonlocal():
                self.scope.outer.update(node.names)
            case ast.Expr():
                self._reads(node.value, at)
                self._mutation(node.value, at)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._reads(child, at)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, at: At) -> None:
        inside = At(at.scope, at.order, (*at.arms, (id(node), 0)), at.tests)
        if isinstance(node, ast.While):
            self._reads(node.test, at)
        else:
            self._reads(node.iter, at)
            self._target(node.target, node.iter, (ANY,), "assign", inside)
        self.block(node.body, inside.arms, at.tests)
        self.block(node.orelse, at.arms, at.tests)

    def _try(self, node: ast.Try | ast.TryStar, at: At) -> bool:
        goes_on = self.block([*node.body, *node.orelse], at.arms, at.tests)
        for arm, handler in enumerate(node.handlers):
            if handler.name:
                self._bind(Binding(handler.name, "opaque", handler, at))
            goes_on = self._arm(node, arm, handler.body, at) or goes_on
        return self.block(node.finalbody, at.arms, at.tests) and goes_on

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, at: At) -> None:
        for each in (*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
            self._reads(each, at)
        here = self.scope
        inner = Scope(self.module, node, f"{here.name}.{node.name}".lstrip("."), here)
        if here.is_class and here.cls is not None:
            inner.cls = here.cls
            here.cls.methods[node.name] = inner
        elif here.parent is None:
            self.module.functions[node.name] = inner
        self._bind(Binding(node.name, "def", node, at))
        self.module.scopes.append(inner)
        self.module.by_node[node] = inner
        _Walk(self.module, inner).block(node.body, (), ())

    def _class(self, node: ast.ClassDef, at: At) -> None:
        for each in (*node.bases, *node.decorator_list):
            self._reads(each, at)
        here = self.scope
        body = Scope(self.module, node, f"{here.name}.{node.name}".lstrip("."), here, is_class=True)
        made = body.cls = Class(self.module, node, body)
        self.module.classes.setdefault(node.name, made)
        self._bind(Binding(node.name, "class", node, at))
        self.module.scopes.append(body)
        self.module.by_node[node] = body
        _Walk(self.module, body).block(node.body, (), ())

    # ------------------------------------------------------------------------------------------------ bindings

    def _bind(self, binding: Binding) -> None:
        scope = self.scope
        if binding.name in scope.outer:
            scope = self.module.top  # the value is still evaluated where it stands
        scope.bound[binding.name].append(binding)

    def _target(self, node: ast.expr, value: ast.expr | None, path: tuple[Key, ...], way: str, at: At) -> None:
        match node:
            case ast.Name():
                self._bind(Binding(node.id, way, node, at, value, path))
            case ast.Tuple() | ast.List():
                star = next((n for n, each in enumerate(node.elts) if isinstance(each, ast.Starred)), None)
                count = len(node.elts)
                for index, each in enumerate(node.elts):
                    key: Key = (index, count if star is None else 0)
                    if star is not None and index > star:
                        key = (index - count, 0)
                    if isinstance(each, ast.Starred):
                        self._target(each.value, None, (), "opaque", at)
                    else:
                        self._target(each, value, (*path, key), way, at)
            case ast.Attribute():
                self._reads(node.value, at)
                if value is not None:
                    self.scope.attributes.append((node, value, path, at))
            case ast.Subscript():
                self._reads(node.value, at)
                self._reads(node.slice, at)
                key_name = _literal(node.slice)
                if isinstance(node.value, ast.Name):
                    self._bind(Binding(node.value.id, "update", node, at, value, path, key_name or "*"))
                elif isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__" and key_name and value:
                    named = ast.copy_location(ast.Attribute(node.value.value, key_name, ast.Store()), node)
                    self.scope.attributes.append((named, value, path, at))

    def _augmented(self, node: ast.AugAssign, at: At) -> None:
        left = node.target
        joined = ast.copy_location(ast.BinOp(left, node.op, node.value), node)
        if isinstance(left, ast.Name):
            self._bind(Binding(left.id, "aug", node, at, joined))
        elif isinstance(left, ast.Attribute):
            self.scope.attributes.append((left, joined, (), at))
        elif isinstance(left, ast.Subscript) and isinstance(left.value, ast.Name):
            key = _literal(left.slice) or "*"
            self._bind(Binding(left.value.id, "update", left, at, joined, (), key))

    def _import(self, node: ast.Import | ast.ImportFrom, at: At) -> None:
        parts = self.module.read.parts
        package = parts if self.module.read.file.name == "__init__.py" else parts[:-1]
        for alias in node.names:
            if isinstance(node, ast.Import):
                name = alias.asname or alias.name.split(".")[0]
                full = alias.name if alias.asname else name
            else:
                base = package[: len(package) - node.level + 1] if node.level else ()
                full = ".".join([*base, *((node.module,) if node.module else ()), alias.name])
                name = alias.asname or alias.name
            self._bind(Binding(name, "import", node, at, key=full))

    def _mutation(self, node: ast.expr, at: At) -> None:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update")):
                for keyword in node.keywords:
                    if keyword.arg is not None:
                        self._bind(Binding(name, "update", node, at, keyword.value, key=keyword.arg))
                for arg in (*node.args, *(k.value for k in node.keywords if k.arg is None)):
                    self._bind(Binding(name, "update", node, at, arg, key="**"))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if (
                attr.endswith("_") and attr[0] != "_"
            ):
                self._bind(Binding(name, "aug", node, at, node))  # q.mul_(s): the object itself is changed
            case ast.Call(keywords=[*_, ast.keyword(arg="out", value=ast.Name(id=name))]):
                self._bind(Binding(name, "aug", node, at, node))  # torch.mul(q, s, out=q)

    # ---------------------------------------------------------------------------------------------- expressions

    def _reads(self, node: ast.expr, at: At) -> None:
        scope = self.scope
        stack: list[ast.AST] = [node]
        while stack:
            each = stack.pop()
            kind = type(each)
            if kind is ast.Call:
                scope.calls.append((each, at))  # type: ignore[arg-type]
                stack.extend(each.args)  # type: ignore[attr-defined]
                stack.extend(k.value for k in each.keywords)  # type: ignore[attr-defined]
                if type(each.func) is not ast.Name:  # type: ignore[attr-defined]
                    stack.append(each.func)  # type: ignore[attr-defined]
            elif kind is ast.Name:
                scope.mentions.append((each, at))  # type: ignore[arg-type]
            elif kind is ast.Constant:
                continue
            elif kind is ast.BinOp:
                if type(each.op) is ast.MatMult:  # type: ignore[attr-defined]
                    scope.products.append((each, at))  # type: ignore[arg-type]
                stack += (each.left, each.right)  # type: ignore[attr-defined]
            elif kind is ast.Lambda:
                self._lambda(each, at)  # type: ignore[arg-type]
            elif kind in (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp):
                for loop in each.generators:  # type: ignore[attr-defined]
                    self._target(loop.target, loop.iter, (ANY,), "comp", at)
                stack.extend(_children(each))
            elif kind is ast.NamedExpr:
                self._target(each.target, each.value, (), "assign", at)  # type: ignore[attr-defined]
                stack.append(each.value)  # type: ignore[attr-defined]
            else:
                stack.extend(_children(each))

    def _lambda(self, node: ast.Lambda, at: At) -> None:
        inner = Scope(self.module, node, f"{self.scope.name}.<lambda>".lstrip("."), self.scope)
        self.module.scopes.append(inner)
        self.module.by_node[node] = inner
        body = At(inner, 1)
        inner.returns.append((node.body, body))
        _Walk(self.module, inner)._reads(node.body, body)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name in node._fields:
        value = getattr(node, name)
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, ast.AST))


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
