"""A link is called proven only where the source excludes everything else. A small program for each way to be wrong."""

import pytest
from small_programs import assumed, codes, follow, reader, step, tensor

from tracer.lineage.result import ValuePath


def reasons(path: ValuePath) -> list[str]:
    return [name for _, name in assumed(path)]


def others(path: ValuePath) -> list[str]:
    return [" ".join(other.place.code.split()) for each in path.steps for other in each.others]


# ------------------------------------------------------------------------------------------- competing definitions


def test_of_two_calls_neither_is_proven_to_be_the_one() -> None:
    path = follow("def run(b): kernel(scale=b)\nrun(1)\nrun(2)")
    assert reasons(path) == ["competing"]
    assert {codes(path)[0], *others(path)} == {"1", "2"}


def test_a_way_under_a_condition_is_no_competitor_but_a_case() -> None:
    path = follow("def run(d, c):\n    s = d ** -0.5\n    if c:\n        s = 1.0\n    kernel(scale=s)")
    assert not assumed(path)
    assert others(path) == ["1.0"]


@pytest.mark.parametrize(
    "body",
    [
        "s = d ** -0.5\n    for s in (1, 2): pass",
        "s = d\n    try:\n        s = 1\n    except E:\n        s = 2",
    ],
)
def test_what_a_loop_or_an_exception_decides_is_not_proven(body: str) -> None:
    assert "competing" in reasons(follow(f"def run(d):\n    {body}\n    kernel(scale=s)"))


def test_an_unknown_argument_beside_a_default_is_not_proven() -> None:
    assert reasons(follow("def run(c): kernel(scale=getattr(c, 'scale', 0.5))\nrun(thing())")) == ["competing"]


def test_a_default_that_stands_in_for_none_is_a_case_and_no_competitor() -> None:
    source = "def run(d, s=None):\n    if s is None:\n        s = d ** -0.5\n    kernel(scale=s)\n"
    path = follow(source)  # whoever calls it may give s
    assert (codes(path)[0], assumed(path)) == ("d ** -0.5", [])
    assert [other.when for each in path.steps for other in each.others] == [("s is not None",)]
    given = follow(f"{source}run(8, 0.5)")
    assert (codes(given)[0], assumed(given)) == ("0.5", [])
    assert [other.when for each in given.steps for other in each.others] == [("s is None",)]


# ------------------------------------------------------------------------------------------------------ and, or


def test_or_goes_past_what_counts_as_false() -> None:
    path = follow("def run(a, b): kernel(scale=a or b)\nrun(0, 5)")
    assert (codes(path)[0], others(path), assumed(path)) == ("5", [], [])
    assert step(path, "a or b").when == ("not (a)",)


def test_or_keeps_what_counts_as_true() -> None:
    path = follow("def run(a, b): kernel(scale=a or b)\nrun(3, 5)")
    assert codes(path)[0] == "3"
    assert step(path, "a or b").when == ("a",)


def test_a_restricted_flag_is_the_flag_where_the_restriction_holds() -> None:
    path = follow("def run(flag, n): kernel(scale=flag and not (n == 1))\nrun(True, 2)")
    assert (codes(path)[0], assumed(path)) == ("True", [])
    assert step(path, "flag and not (n == 1)").when == ("not (n == 1)",)


# ------------------------------------------------------------------------------------------------- dictionaries


@pytest.mark.parametrize(
    "between",
    [
        "other = kw\n    other['scale'] = 2",
        "other = kw\n    other.update(scale=2)",
        "other = kw or {}\n    other['scale'] = 2",
        "other = kw\n    third = other\n    third['scale'] = 2",
        "(other := kw)\n    other['scale'] = 2",
        "change(kw)",
        "elsewhere(kw)",
        "x = kw.pop('scale')",
        "del kw['scale']",
        "kw.clear()",
        "kw['a'] = kw.update(scale=2)",
        "def inner(): kw.clear()\n    inner()",
    ],
)
def test_a_dictionary_that_may_have_been_changed_is_assumed_to_be_as_it_was(between: str) -> None:
    source = "from lib import elsewhere\ndef change(d): d['scale'] = 2\ndef run():\n    kw = {'scale': 1}\n"
    path = follow(f"{source}    {between}\n    kernel(**kw)")
    assert reasons(path) == ["may_change"], codes(path)


def test_the_reason_names_the_place_and_the_code() -> None:
    source = "def change(d): d['scale'] = 2\ndef run():\n    kw = {'scale': 1}\n    change(kw)\n    kernel(**kw)"
    (why,) = [why for each in follow(source).steps for why in each.why]
    assert why.text() == "The object that kw holds may be changed at pkg/one.py:4: change(kw)."


@pytest.mark.parametrize(
    "between",
    [
        "look(kw)",
        "print(kw)",
        "x = kw.get('scale')",
        "other = dict(kw)\n    other['scale'] = 2",
        "other = kw.copy()\n    other['scale'] = 2",
        "other = kw\n    other['more'] = 2",
        "x = kw.pop('more')",
        "del kw['more']",
        "other = {**kw}\n    other['scale'] = 2",
    ],
)
def test_what_only_reads_a_dictionary_or_changes_another_entry_is_harmless(between: str) -> None:
    source = "def look(d): return d['scale'] + 1\ndef run():\n    kw = {'scale': 1}\n"
    path = follow(f"{source}    {between}\n    kernel(**kw)")
    assert (codes(path)[0], assumed(path)) == ("1", [])


def test_a_change_after_the_read_does_not_count_unless_a_loop_goes_round_both() -> None:
    after = "def run():\n    kw = {'scale': 1}\n    kernel(**kw)\n    elsewhere(kw)"
    assert not assumed(follow(after))
    loop = "def run():\n    kw = {'scale': 1}\n    for _ in x:\n        kernel(**kw)\n        elsewhere(kw)"
    assert reasons(follow(loop)) == ["may_change"]


def test_a_copy_carries_its_entries() -> None:
    assert codes(follow("def run():\n    kw = {'scale': 1}\n    kernel(**kw.copy())"))[0] == "1"
    assert codes(follow("def run():\n    kw = {'scale': 1}\n    kernel(**dict(kw, a=2))"))[0] == "1"


def test_an_unknown_dictionary_that_is_opened_later_may_hold_the_entry() -> None:
    path = follow("def run(u, **kw):\n    kw = {**kw, **u}\n    kernel(**kw)\nrun(thing(), scale=1)")
    assert (codes(path)[0], reasons(path), others(path)) == ("1", ["competing"], ["u"])


def test_one_that_is_known_not_to_hold_it_is_no_competitor() -> None:
    path = follow("def run(u, **kw):\n    kw = {**kw, **u}\n    kernel(**kw)\nrun({}, scale=1)")
    assert (codes(path)[0], assumed(path), others(path)) == ("1", [], [])


def test_one_that_is_opened_earlier_is_overwritten() -> None:
    path = follow("def run(u):\n    kw = {**u, 'scale': 1}\n    kernel(**kw)\nrun(thing())")
    assert (codes(path)[0], assumed(path), others(path)) == ("1", [], [])


def test_an_update_from_something_unknown_may_hold_it() -> None:
    path = follow("def run(**kw):\n    kw.update(other())\n    kernel(**kw)\nrun(scale=1)")
    assert (codes(path)[0], reasons(path), others(path)) == ("1", ["competing"], ["other()"])


def test_merging_a_dictionary_in_place_puts_entries_in() -> None:
    path = follow("def run():\n    kw = {'scale': 1}\n    kw |= {'scale': 2}\n    kernel(**kw)")
    assert (codes(path)[0], assumed(path)) == ("2", [])


def test_an_entry_under_a_computed_key_may_be_the_one() -> None:
    path = follow("def run(k):\n    kw = {'scale': 1}\n    kw[k] = 2\n    kernel(**kw)")
    assert (codes(path)[0], reasons(path), others(path)) == ("1", ["competing"], ["2"])


def test_of_two_dictionaries_opened_into_the_kernel_both_count() -> None:
    path = follow("def run():\n    kw = {'scale': 1}\n    kernel(**kw, **extra)")
    assert (codes(path)[0], reasons(path), others(path)) == ("1", ["competing"], ["extra"])
    assert not assumed(follow("def run():\n    kw = {'scale': 1}\n    extra = {'b': 2}\n    kernel(**kw, **extra)"))


def test_dict_is_a_function_like_any_other() -> None:
    source = """
    from functools import partial
    def make(scale): return {"scale": scale}
    def run(d, c):
        made = make if c else dict
        kernel(**partial(made, scale=d / 2)())
    """
    path = follow(source)
    assert (codes(path)[0], path.open_end) == ("d / 2", None)


# --------------------------------------------------------------------------------------------------- attributes

SET = "class A:\n    def __init__(self, d):\n        self.s = d ** -0.5\n    def run(self): kernel(scale=self.s)\n"


@pytest.mark.parametrize(
    "outside",
    [
        "class M:\n    def __init__(self):\n        self.a = A(4)\n        self.a.s = 1.0",
        "def go():\n    a = A(4)\n    a.s = 1.0\n    a.run()",
        "def go():\n    a = A(4)\n    a.s *= 2\n    a.run()",
        "def go():\n    a = A(4)\n    setattr(a, 's', 1.0)",
        "def go(name):\n    a = A(4)\n    setattr(a, name, 1.0)",
        "def go():\n    a = A(4)\n    a.__dict__.update(s=1.0)",
        "def go():\n    a = A(4)\n    vars(a).update(other())",
        "def go():\n    object.__setattr__(A(4), 's', 1.0)",
        "def go(a):\n    a.s = 1.0",  # whose a is not known
        "class B(A):\n    def __init__(self, d):\n        super().__init__(d)\n        self.s = 1.0",
        "class B(A):\n    s = 1.0",
        "class B(A):\n    @property\n    def s(self): return 1.0",
    ],
)
def test_an_attribute_that_something_else_may_set_is_assumed(outside: str) -> None:
    path = follow(f"{SET}{outside}", "A.run")
    assert codes(path)[0] == "d ** -0.5"
    assert reasons(path) == ["competing"]
    assert len(others(path)) == 1


@pytest.mark.parametrize("inside", ["setattr(self, 's', 1)", "self.__dict__.update(s=1)", "self.s *= 2"])
def test_setting_it_in_another_way_counts_too(inside: str) -> None:
    path = follow(SET.replace("    def run", f"        {inside}\n    def run"), "A.run")
    assert reasons(path) == ["competing"]


@pytest.mark.parametrize(
    "outside",
    [
        "class M:\n    def __init__(self):\n        self.s = 1.0",  # its own
        "class O:\n    pass\ndef go():\n    o = O()\n    o.s = 1.0",  # another class's object
        "def go(name, thing):\n    setattr(thing, name, 1.0)",  # says nothing of this one
        "def go():\n    a = A(4)\n    a.t = 1.0",
    ],
)
def test_what_sets_something_else_is_no_competitor(outside: str) -> None:
    path = follow(f"{SET}{outside}", "A.run")
    assert (codes(path)[0], assumed(path), others(path)) == ("d ** -0.5", [], [])


def test_an_attribute_set_twice_in_one_method_is_what_it_was_set_to_last() -> None:
    source = """
    class A:
        def __init__(self):
            self.s = 1
            self.s = 2
        def run(self): kernel(scale=self.s)
    """
    path = follow(source, "A.run")
    assert (codes(path)[0], assumed(path)) == ("2", [])


def test_a_method_that_is_replaced_from_outside_is_not_proven() -> None:
    source = (
        "class A:\n    def get(self): return 1\n    def run(self): kernel(scale=self.get())\nA.get = lambda self: 2"
    )
    assert reasons(follow(source, "A.run")) == ["competing"]


def test_a_method_that_a_subclass_overrides_is_not_proven() -> None:
    source = "class A:\n    def get(self): return 1\n    def run(self): kernel(scale=self.get())\n"
    path = follow(f"{source}class B(A):\n    def get(self): return 2", "A.run")
    assert (codes(path)[0], reasons(path)) == ("1", ["competing"])


def test_a_function_of_a_module_that_is_replaced_from_outside_is_not_proven() -> None:
    kernel = "def make(): return 1\ndef run(): kernel(scale=make())"
    sources = {"pkg.patch": "import pkg.two\npkg.two.make = lambda: 2", "pkg.two": kernel}
    assert reasons(reader(sources, "run").path("scale")) == ["competing"]


# ------------------------------------------------------------------------------------------------- declarations


def test_what_is_passed_counts_and_not_what_is_declared() -> None:
    source = """
    class L:
        def __init__(self, x): self.s = x * 2
    class Other:
        def __init__(self): self.s = 9
    def run(layer: L): kernel(scale=layer.s)
    run(Other())
    """
    path = follow(source)
    assert (codes(path)[:2], assumed(path)) == (["9", "Other()"], [])


def test_a_declaration_that_nothing_confirms_is_an_assumption() -> None:
    source = "class L:\n    def __init__(self): self.s = 2\ndef run(layer: L): kernel(scale=layer.s)"
    path = follow(source)
    assert (codes(path)[0], assumed(path)) == ("2", [("layer: L", "declared")])


def test_a_declared_variable_is_what_is_assigned_to_it() -> None:
    source = """
    class L:
        s = 1
    class Other:
        s = 2
    def run():
        layer: L = Other()
        kernel(scale=layer.s)
    """
    assert (codes(follow(source))[0], assumed(follow(source))) == ("2", [])


# --------------------------------------------------------------------------------------------------- decorators

PASSES = "def dec(f):\n    def g(*args, **kwargs):\n        return f(*args, **kwargs)\n    return g\n"


@pytest.mark.parametrize(
    ("before", "decorator"),
    [
        ("def dec(f):\n    def g(scale): return f(scale * 2)\n    return g\n", "dec"),
        (PASSES.replace("f(*args, **kwargs)", "f(*args[1:], **kwargs)"), "dec"),
        (PASSES.replace("return f(*args, **kwargs)", "kwargs['scale'] = 2\n        return f(*args, **kwargs)"), "dec"),
        (PASSES.replace("def g(*args, **kwargs):\n", "def g(*args, **kwargs):\n        args = ()\n"), "dec"),
        ("from lib import dec\n", "dec"),
        ("from lib import dec\n", "dec(3)"),
        ("def dec(f): return other(f)\n", "dec"),
    ],
)
def test_a_decorator_that_may_change_the_argument_is_an_assumption(before: str, decorator: str) -> None:
    path = follow(f"{before}@{decorator}\ndef run(scale): kernel(scale=scale)\nrun(1)")
    assert reasons(path) == ["decorated"]
    assert f"is decorated with {decorator}" in path.steps[1].why[0].text()


@pytest.mark.parametrize(
    ("before", "decorator"),
    [
        (PASSES, "dec"),
        ("def dec(f): return f\n", "dec"),
        ("def dec(n):\n    def wrap(f): return f\n    return wrap\n", "dec(3)"),
        ("from functools import lru_cache\n", "lru_cache(1)"),
        ("import torch\n", "torch.no_grad()"),
        ("import torch\n", "torch.compile"),
        (PASSES.replace("return f(*args, **kwargs)", "out = f(*args, **kwargs)\n        return out"), "dec"),
    ],
)
def test_a_decorator_that_hands_everything_on_is_read_or_known(before: str, decorator: str) -> None:
    path = follow(f"{before}@{decorator}\ndef run(scale): kernel(scale=scale)\nrun(1)")
    assert (codes(path)[0], assumed(path)) == ("1", [])


def test_a_decorator_that_changes_the_result_counts_where_the_result_is_followed() -> None:
    twice = "def twice(f):\n    def g(*args): return f(*args) * 2\n    return g\n"
    assert reasons(follow(f"{twice}@twice\ndef make(): return 1\ndef run(): kernel(scale=make())")) == ["decorated"]


# --------------------------------------------------------------------------------------------- where it is called


def test_the_conditions_under_which_the_kernel_is_called_stand_at_the_last_step() -> None:
    source = """
    def run(s, paged, mask):
        if paged:
            return other(s)
        if mask is not None:
            return None
        if s < 0:
            raise ValueError
        if not ready:
            pass
        elif fast:
            kernel(scale=s)
    run(2, False, None)
    """
    assert follow(source).steps[-1].when == ("not (paged)", "mask is None", "ready", "fast")


def test_a_tensor_through_a_function_that_two_places_call_is_not_proven() -> None:
    source = """
    class Core:
        def forward(self, q): kernel(q)
    class Layer:
        def __init__(self): self.core = Core()
        def forward(self, x): self.core(self.q_proj(x))
        def again(self, x): self.core(x)
    """
    assert reasons(tensor(source, "Core.forward")) == ["competing"]
