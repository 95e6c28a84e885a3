"""A pattern finds an expression by what it is, wherever it stands."""

import pytest

from tracer.records import Span
from tracer.source.patterns import Module, Pattern

SOURCE = """
class Attention:
    def __init__(self, config):
        self.scaling = self.head_dim**-0.5
        self.is_causal: bool = True

    @decorated(scaling=9)
    def forward(self, x, mask=None, **kwargs):
        q = self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2)
        if mask is not None:
            out = kernel(q, k, v, **options(1))
        elif fast or slow:
            out = kernel(q, k, v, cu=a, **options(2))
        else:
            out = kernel(q)
        return interface(
            self,
            (q),  # a comment
            k,
            scaling=self.scaling,
            window=self.window,
            **kwargs,
        )

def helper():
    return {"causal": flag and not late, "softmax_scale": softmax_scale}
"""
MODULE = Module(SOURCE)


def codes(pattern: str, scope: str = "", under: str | None = None) -> list[str]:
    return [found.code for found in MODULE.find(Pattern(pattern), scope, under)]


@pytest.mark.parametrize(
    ("pattern", "scope", "expected"),
    [
        ("self.scaling = HERE", "Attention.__init__", ["self.head_dim**-0.5"]),
        ("self.is_causal = HERE", "Attention.__init__", ["True"]),
        ("self.q_proj(...)", "Attention.forward", ["self.q_proj(x)"]),
        ("interface(..., scaling=HERE)", "Attention.forward", ["self.scaling"]),
        ("interface(_, HERE, ...)", "Attention.forward", ["q"]),  # a span leaves out an expression's own parentheses
        ("interface(..., **HERE)", "Attention.forward", ["kwargs"]),
        ("{**..., 'softmax_scale': HERE}", "helper", []),  # the key is compared as it is written
        ('{**..., "softmax_scale": HERE}', "helper", ["softmax_scale"]),
        ('{"causal": HERE, **...}', "helper", ["flag and not late"]),
        ("return HERE", "helper", ['{"causal": flag and not late, "softmax_scale": softmax_scale}']),
        (
            "q = HERE(_.transpose(1, 2))",
            "Attention.forward",
            ["self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2)"],
        ),
        ("kernel(_)", "Attention.forward", ["kernel(q)"]),
        ("self.scaling = HERE", "helper", []),
    ],
)
def test_a_pattern_finds_the_expression_that_is_meant(pattern: str, scope: str, expected: list[str]) -> None:
    assert codes(pattern, scope) == expected


def test_under_means_the_innermost_if_and_an_elif_is_not_under_the_first_test() -> None:
    assert codes("kernel(..., **HERE)", under="mask") == ["options(1)"]
    assert codes("kernel(..., **HERE)", under="fast") == ["options(2)"]


def test_a_match_knows_its_span_scope_and_parameters() -> None:
    (found,) = MODULE.find(Pattern("interface(..., scaling=HERE)"), "Attention.forward")
    assert found.span == Span(20, 20, 20, 32)
    assert (found.scope, found.parameters) == ("Attention.forward", ("self", "x", "mask"))


def test_decorators_do_not_belong_to_the_function() -> None:
    assert codes("decorated(scaling=HERE)", "Attention.forward") == []
    assert codes("decorated(scaling=HERE)") == []


def test_a_pattern_that_is_no_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="one expression"):
        Pattern("if a: b")


@pytest.mark.parametrize(
    ("pattern", "source", "meant"),
    [
        ("f(..., **g(HERE, a))", "f(**g(1, b), **g(2, a))", "2"),
        ("f(..., **g(HERE(_), a))", "f(**g(1, b), **g(2, a))", "2"),
        ("f(*g(HERE, a), ...)", "f(*g(1, b), *g(2, a))", "2"),
        ('{**..., "x": g(HERE, a)}', '{"x": g(1, b), "x": g(2, a)}', "2"),
        ("f(..., k=g(h(HERE), a))", "f(k=g(h(1), a))", "1"),
    ],
)
def test_a_candidate_that_fails_halfway_leaves_nothing_behind(pattern: str, source: str, meant: str) -> None:
    assert [found.code for found in Module(source).find(Pattern(pattern), "")] == [meant]
