"""Which bindings of a name may hold at a place of a scope: later ones hide earlier ones, branches that exclude each
other do not see each other, and a branch that returns hides nothing after it.

Must not know: what the bindings are worth.
"""

from tracer.lint.facts import Arm, At, Binding, Scope


def reaching(scope: Scope, name: str, at: At) -> tuple[tuple[Binding, ...], bool]:
    """Return the bindings of ``name`` that may hold at ``at``, latest first, and whether one of them surely does."""
    own = at.scope is scope
    found: list[Binding] = []
    covered: set[Arm] = set(scope.ended)
    every = scope.bound.get(name, ())
    found += [binding for binding in every if binding.at.scope is not scope]  # set from a function, as a global
    for binding in sorted((each for each in every if each.at.scope is scope), key=lambda each: -each.at.order):
        if own and not _before(binding, at):
            continue
        if _exclusive(binding.at.arms, at.arms if own else ()) or _left(binding.at.arms, at, own, scope):
            continue
        found.append(binding)
        if binding.way == "update" or binding.path[:1] == ("*",):
            continue
        if _covers(binding.at.arms, at.arms if own else (), covered, scope):
            return tuple(found), True
    return tuple(found), False


def _before(binding: Binding, at: At) -> bool:
    if binding.way == "comp":
        return binding.at.order == at.order
    if binding.at.order < at.order:
        return True
    loops = [arm for arm in at.arms if arm[0] not in at.scope.arms]  # the next time round, what comes later came before
    return binding.way == "aug" and any(arm in binding.at.arms for arm in loops) and binding.at.order != at.order


def _exclusive(one: tuple[Arm, ...], other: tuple[Arm, ...]) -> bool:
    there = dict(other)
    return any(node in there and there[node] != arm for node, arm in one)


def _left(arms: tuple[Arm, ...], at: At, own: bool, scope: Scope) -> bool:
    """Whether the binding is in a branch that ends in a return, and the place is not in it."""
    here = at.arms if own else ()
    return any(arm in scope.ended and arm not in here for arm in arms)


def _covers(arms: tuple[Arm, ...], here: tuple[Arm, ...], covered: set[Arm], scope: Scope) -> bool:
    """Whether the binding, with those after it, leaves no way past it to the place; notes what it covers."""
    while True:
        if all(arm in here for arm in arms):
            return True
        node, arm = arms[-1]
        covered.add((node, arm))
        if scope.arms.get(node) != 2 or (node, 1 - arm) not in covered:
            return False
        arms = arms[:-1]
