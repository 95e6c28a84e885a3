"""Each way a number gets from where it is made to a kernel's argument: one small program for each."""

from pathlib import Path

import pytest
from small_programs import assumed, codes, follow, kinds, reader, step

from tracer.errors import Unsupported


def test_a_literal_at_the_call_is_its_own_origin() -> None:
    path = follow("def run(): kernel(scale=0.5)")
    assert (codes(path), path.open_end) == (["0.5"], None)


def test_a_local_name_leads_to_its_assignment() -> None:
    assert codes(follow("def run(d):\n    s = d ** -0.5\n    kernel(scale=s)")) == ["d ** -0.5", "s"]


def test_the_assignment_that_reaches_the_call_counts_not_the_first_one() -> None:
    assert codes(follow("def run(d):\n    s = 1\n    s = d ** -0.5\n    kernel(scale=s)")) == ["d ** -0.5", "s"]


def test_a_shadowed_global_is_not_the_local_name() -> None:
    path = follow("s = 1.0\ndef run(d):\n    s = d ** -0.5\n    kernel(scale=s)")
    assert codes(path)[0] == "d ** -0.5"


def test_a_global_is_found_also_where_another_function_sets_it() -> None:
    path = follow("s = None\ndef prepare(d):\n    global s\n    s = d ** -0.5\ndef run():\n    kernel(scale=s)")
    assert codes(path) == ["d ** -0.5", "s"]


def test_a_positional_argument_fills_the_parameter_at_its_place() -> None:
    path = follow("def run(a, b, c): kernel(scale=b)\nrun(1, 2, 3)")
    assert (codes(path), kinds(path)) == (["2", "b", "b"], ["argument", "parameter", "start"])


def test_a_keyword_argument_fills_the_parameter_of_its_name() -> None:
    assert codes(follow("def run(a, b): kernel(scale=b)\nrun(b=7, a=3)")) == ["7", "b", "b"]


def test_an_argument_that_every_call_leaves_out_is_the_default() -> None:
    path = follow("def run(a, b=0.25): kernel(scale=b)\nrun(1)")
    assert (codes(path), kinds(path)[0], assumed(path)) == (["0.25", "b=0.25", "b"], "default", [])


def test_a_default_of_a_function_that_nobody_calls_is_assumed() -> None:
    path = follow("def run(b=0.25): kernel(scale=b)")
    assert assumed(path) == [("b=0.25", "no_caller")]


def test_a_parameter_that_nobody_fills_leaves_the_path_open() -> None:
    path = follow("def run(b): kernel(scale=b)")
    assert path.open_end is not None
    assert path.open_end.id == "lineage.no_caller"


def test_star_arguments_keep_their_places() -> None:
    assert codes(follow("def run(a, b): kernel(scale=b)\ndef go(*rest): run(*rest)\ngo(1, 2)"))[0] == "2"


def test_an_opened_tuple_display_fills_by_position() -> None:
    assert codes(follow("def run(a, b): kernel(scale=b)\nt = (1, 2)\nrun(*t)"))[0] == "2"


def test_keyword_arguments_pass_through_double_star() -> None:
    path = follow("def run(**kwargs): kernel(**kwargs)\ndef go(**more): run(**more)\ngo(scale=9)")
    assert codes(path) == ["9", "more", "more", "kwargs", "kwargs"]
    assert not assumed(path)


def test_a_dictionary_display_that_is_opened_gives_its_entry() -> None:
    path = follow('def run(d):\n    kw = {"causal": True, "scale": d}\n    kernel(**kw)\nrun(3)')
    assert codes(path)[:3] == ["3", "d", "d"]
    assert step(path, "kw").binds == "**[scale]"


def test_the_later_entry_of_a_display_wins() -> None:
    assert codes(follow('def run():\n    kernel(**{"scale": 1, "scale": 2})'))[0] == "2"


def test_an_entry_that_is_set_afterwards_replaces_the_one_in_the_display() -> None:
    assert codes(follow('def run():\n    kw = {"scale": 1}\n    kw["scale"] = 2\n    kernel(**kw)'))[0] == "2"


def test_an_entry_that_is_set_under_a_condition_is_a_further_way() -> None:
    path = follow('def run(c):\n    kw = {"scale": 1}\n    if c:\n        kw["scale"] = 2\n    kernel(**kw)')
    assert codes(path)[0] == "1"
    assert [(other.place.code, other.when) for each in path.steps for other in each.others] == [("2", ("c",))]


@pytest.mark.parametrize(
    "made", ["dict(scale=4)", '{**{"scale": 4}}', '(lambda: 0) and {"scale": 4}', "dict(other=1, scale=4)"]
)
def test_a_dictionary_made_in_other_ways_gives_its_entry(made: str) -> None:
    assert codes(follow(f"def run():\n    kw = {made}\n    kernel(**kw)"))[0] == "4"


def test_update_and_setdefault_put_entries_in() -> None:
    assert codes(follow("def run():\n    kw = {}\n    kw.update(scale=5)\n    kernel(**kw)"))[0] == "5"
    assert codes(follow('def run():\n    kw = {}\n    kw.setdefault("scale", 6)\n    kernel(**kw)'))[0] == "6"


def test_a_dictionary_that_a_function_returns_gives_its_entry() -> None:
    path = follow('def make(s):\n    return {"scale": s}\ndef run(d):\n    kernel(**make(d * 2))')
    assert codes(path) == ["d * 2", "s", "s", "make(d * 2)"]


def test_get_and_pop_read_an_entry_or_its_default() -> None:
    path = follow('def run(**kw):\n    s = kw.pop("scale", 8)\n    kernel(scale=s)\nrun(other=1)')
    assert codes(path)[0] == "8"


def test_a_partial_hands_its_keywords_on() -> None:
    source = "from functools import partial\ndef make(scale, q):\n    return {'scale': scale}\n"
    path = follow(source + "def run(d):\n    f = partial(make, scale=d / 2)\n    kernel(**f(q=1))")
    assert codes(path)[0] == "d / 2"
    assert not assumed(path)


def test_a_keyword_of_the_call_wins_over_that_of_the_partial() -> None:
    source = "import functools\ndef make(scale):\n    return {'scale': scale}\n"
    path = follow(source + "def run():\n    f = functools.partial(make, scale=1)\n    kernel(**f(scale=2))")
    assert codes(path)[0] == "2"


def test_positional_arguments_of_a_partial_come_first() -> None:
    source = "from functools import partial\ndef make(a, scale):\n    return {'scale': scale}\n"
    assert codes(follow(source + "def run():\n    f = partial(make, 1)\n    kernel(**f(2))"))[0] == "2"


def test_a_partial_of_a_partial_that_came_out_of_a_tuple_is_seen_through() -> None:
    source = """
    from functools import partial
    def process(scale, table):
        return {"scale": scale}
    def define():
        return partial(process, table={})
    process_fn = None
    def load():
        global process_fn
        process_fn = define()
        return (1, 2), (process_fn, 3)
    def run(d):
        (_, _), (fn, _) = load()
        f = partial(fn, scale=d ** -0.5)
        kernel(**f())
    """
    path = follow(source)
    assert codes(path)[0] == "d ** -0.5"
    assert not assumed(path)


def test_an_attribute_leads_to_its_assignment_in_the_constructor() -> None:
    source = """
    class A:
        def __init__(self, s):
            self.s = float(s)
        def run(self):
            kernel(scale=self.s)
    """
    path = follow(source + "A(0.5)", "A.run")
    assert codes(path) == ["0.5", "s", "float(s)", "self.s"]
    assert kinds(path) == ["argument", "parameter", "attribute", "start"]


def test_an_attribute_is_found_in_another_method_and_in_a_base_class() -> None:
    source = """
    class B:
        def setup(self, d):
            self.s = d ** -0.5
    class A(B):
        def run(self):
            kernel(scale=self.s)
    """
    assert codes(follow(source, "A.run")) == ["d ** -0.5", "self.s"]


def test_a_class_attribute_is_found_where_no_method_sets_it() -> None:
    assert codes(follow("class A:\n    s = 0.5\n    def run(self):\n        kernel(scale=self.s)", "A.run"))[0] == "0.5"


def test_a_property_is_what_it_returns() -> None:
    source = """
    class A:
        @property
        def s(self):
            return 1 / 8
        def run(self):
            kernel(scale=self.s)
    """
    assert codes(follow(source, "A.run"))[0] == "1 / 8"


def test_an_attribute_of_a_parameter_is_found_by_its_declared_class() -> None:
    source = """
    class L:
        def __init__(self, s):
            self.s = s
    L(0.125)
    def run(layer: 'L | None'):
        kernel(scale=layer.s)
    """
    assert codes(follow(source))[:2] == ["0.125", "s"]


def test_an_attribute_of_a_parameter_is_found_by_what_is_passed() -> None:
    source = """
    class L:
        def __init__(self):
            self.s = 2
        def go(self):
            run(self)
    def run(layer):
        kernel(scale=layer.s)
    """
    path = follow(source)
    assert codes(path)[0] == "2"
    assert not assumed(path)


def test_an_object_that_is_called_runs_its_call_method_and_a_module_its_forward() -> None:
    source = "class K:\n    def {name}(self, **kw):\n        kernel(**kw)\nK_ = K()\nK_(scale=3)"
    assert codes(follow(source.replace("{name}", "__call__"), "K.__call__"))[0] == "3"
    assert codes(follow(source.replace("{name}", "forward"), "K.forward"))[0] == "3"


def test_a_dataclass_field_is_what_its_constructor_was_given_or_its_default() -> None:
    source = """
    from dataclasses import dataclass
    @dataclass
    class M:
        n: int
        s: float = 0.5
    def run(m: M):
        kernel(scale=m.s)
    """
    assert codes(follow(source + "M(1, 0.25)"))[0] == "0.25"
    assert codes(follow(source + "M(1, s=0.75)"))[0] == "0.75"
    left_out = follow(source)
    assert (codes(left_out)[0], assumed(left_out)) == ("0.5", [("m: M", "made_elsewhere")])


def test_a_method_chosen_at_run_time_is_assumed_and_says_so() -> None:
    source = """
    class Base:
        def make(self): raise NotImplementedError
    class Own(Base):
        def make(self): return Impl
    class Impl:
        def __init__(self, s): self.s = s
        def run(self): kernel(scale=self.s)
    def go(backend: Base, d):
        cls = backend.make()
        cls(d ** -0.5)
    """
    path = follow(source, "Impl.run")
    assert codes(path)[0] == "d ** -0.5"
    assert assumed(path) == [("s", "dispatch")]


def test_a_function_out_of_a_table_is_taken_by_its_parameters_and_marked() -> None:
    source = """
    from elsewhere import TABLE
    def run(module, query, key, scaling=None):
        kernel(scale=scaling)
    def other(x):
        pass
    class A:
        def __init__(self): self.s = 2 ** -0.5
        def forward(self, query, key, name):
            interface = TABLE[name]
            interface(self, query, key, scaling=self.s)
    """
    path = follow(source)
    assert codes(path)[:3] == ["2 ** -0.5", "self.s", "scaling=None"]
    assert assumed(path) == [("scaling=None", "looked_up")]


def test_a_call_whose_arguments_do_not_fit_is_not_taken_for_it() -> None:
    source = """
    from elsewhere import F
    def run(module, query, scaling): kernel(scale=scaling)
    def go(n):
        f = F[n]
        f(1)
    """
    assert follow(source).open_end is not None


@pytest.mark.parametrize(
    "guard",
    [
        "s = s if s is not None else d ** -0.5",
        "if s is None:\n        s = d ** -0.5",
        "s = getattr(d, 'scale', d ** -0.5)",
    ],
)
def test_a_default_of_none_is_not_the_value_where_it_is_replaced(guard: str) -> None:
    path = follow(f"def run(d, s=None):\n    {guard}\n    kernel(scale=s)\nrun(8)")
    assert codes(path)[0] == "d ** -0.5"


def test_of_several_ways_the_one_without_a_condition_is_followed_and_the_others_are_told() -> None:
    path = follow("def run(d, c):\n    s = d ** -0.5\n    if c:\n        s = 1.0\n    kernel(scale=s)")
    assert codes(path)[0] == "d ** -0.5"
    assert [(o.place.code, o.when) for o in step(path, "s").others] == [("1.0", ("c",))]


def test_a_condition_that_is_known_to_hold_makes_its_branch_the_way() -> None:
    source = "def run(d, c):\n    s = 1.0\n    if c:\n        s = d ** -0.5\n    kernel(scale=s)"
    path = follow(source, holds={"c": "lineage.holds_no_bias"})
    assert (codes(path)[0], path.steps[0].when) == ("d ** -0.5", ("c",))


def test_a_branch_whose_condition_is_known_not_to_hold_is_no_way() -> None:
    source = "def run(d, c):\n    if c:\n        s = d ** -0.5\n    else:\n        s = 1.0\n    kernel(scale=s)"
    path = follow(source, holds={"c": "lineage.holds_no_bias"})
    assert (codes(path)[0], [other for each in path.steps for other in each.others]) == ("d ** -0.5", [])


@pytest.mark.parametrize(
    "body",
    [
        "for _ in range(2):\n        s = d ** -0.5",
        "while d:\n        s = d ** -0.5",
        "try:\n        s = d ** -0.5\n    except ValueError:\n        raise",
        "with open('f') as f:\n        s = d ** -0.5",
        "if d:\n        s = d ** -0.5\n    else:\n        return",
        "s = t = d ** -0.5",
        "(s := d ** -0.5)",
        "s: float = d ** -0.5",
        "a, (s, b) = 1, (d ** -0.5, 2)",
        "s = [1, d ** -0.5][1]",
        "s = {'k': d ** -0.5}['k']",
    ],
)
def test_every_statement_that_binds_a_name(body: str) -> None:
    assert codes(follow(f"def run(d):\n    {body}\n    kernel(scale=s)"))[0] == "d ** -0.5"


def test_a_name_bound_by_with_leaves_the_path_open_and_says_why() -> None:
    path = follow("def run(c):\n    with c() as s:\n        kernel(scale=s)")
    assert path.open_end is not None
    assert path.open_end.text() == (
        "s is bound by a with, except or match statement, and what it holds is decided there at run time."
    )


def test_recursion_ends() -> None:
    path = follow("def make(n):\n    return make(n - 1)\ndef run():\n    kernel(scale=make(3))")
    assert path.open_end is not None


def test_a_closure_reads_the_name_of_the_function_around_it() -> None:
    source = "def outer(d):\n    s = d ** -0.5\n    def run():\n        kernel(scale=s)\n    run()"
    assert codes(follow(source, "outer.run"))[0] == "d ** -0.5"


def test_a_name_that_no_file_explains_leaves_the_path_open() -> None:
    path = follow("from elsewhere import s\ndef run(): kernel(scale=s)")
    assert path.open_end is not None
    assert path.open_end.text() == "elsewhere.s is not among the files read."


# ------------------------------------------------------------------------------------------------ several files


def test_imports_join_files_absolute_relative_and_renamed() -> None:
    layer = """
    class Attention:
        def __init__(self, n, scale):
            self.scale = scale
        def forward(self):
            kernel(scale=self.scale)
    """
    for statement, name in (
        ("from pkg.layers.attention import Attention", "Attention"),
        ("from .layers.attention import Attention as A", "A"),
        ("from .layers import attention", "attention.Attention"),
        ("import pkg.layers.attention", "pkg.layers.attention.Attention"),
    ):
        model = f"""
        {statement}
        class Model:
            def __init__(self, d):
                self.s = d ** -0.5
                self.attn = {name}(8, self.s)
        """
        path = reader({"pkg.model": model, "pkg.layers.attention": layer}, "Attention.forward").path("scale")
        assert codes(path) == ["d ** -0.5", "self.s", "scale", "scale", "self.scale"], statement
        assert not assumed(path)


def test_a_name_handed_on_by_a_module_that_is_not_read_is_assumed() -> None:
    layer = """
    class Attention:
        def __init__(self, scale):
            self.scale = scale
        def forward(self):
            kernel(scale=self.scale)
    """
    model = "from pkg.layers import Attention\nAttention(0.5)"
    path = reader({"pkg.model": model, "pkg.layers.attention": layer}, "Attention.forward").path("scale")
    assert codes(path)[0] == "0.5"
    assert [name for _, name in assumed(path)] == ["handed_on"]


def test_two_things_of_that_name_are_not_chosen_between() -> None:
    layer = """
    class Attention:
        def __init__(self, scale):
            self.scale = scale
        def forward(self):
            kernel(scale=self.scale)
    """
    model = "from pkg.layers import Attention\nAttention(0.5)"
    sources = {"pkg.model": model, "pkg.layers.other": "class Attention:\n    pass", "pkg.layers.attention": layer}
    assert reader(sources, "Attention.forward").path("scale").open_end is not None


# ------------------------------------------------------------------------------------------------------- errors


def test_a_kernel_that_is_called_nowhere_or_twice_is_an_error_with_the_candidates() -> None:
    with pytest.raises(
        Unsupported, match=r"expected exactly once in run of pkg/one\.py \(small 1\) and was found 0 times"
    ):
        follow("def run(): pass")
    with pytest.raises(Unsupported, match=r"found 2 times[\s\S]*pkg/one\.py:2:4  kernel\(scale=1\)"):
        follow("def run():\n    kernel(scale=1)\n    kernel(scale=2)")


def test_a_kernel_without_that_argument_is_an_error_that_says_its_default_counts() -> None:
    with pytest.raises(Unsupported, match="has none: the kernel uses its default"):
        follow("def run(): kernel(causal=True)")


def test_a_folder_in_the_place_of_a_kept_way_stops_nothing(tmp_path: Path) -> None:
    source = "def run(): kernel(scale=0.5)"
    follow(source, cache=tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.unlink()
    kept.mkdir()
    assert codes(follow(source, cache=tmp_path)) == ["0.5"]
