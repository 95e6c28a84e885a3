"""The texts of a comparison in one language. Must not know: what is said where."""

from tracer.compare.records import Comparison, Pair
from tracer.texts import Spoken


class Say(Spoken):
    """The texts ``compare.…`` in one language."""

    __slots__ = ()
    file = "compare"

    def step(self, pair: Pair, comparison: Comparison) -> str:
        """Return the name of a step: a tensor's own, or what a layer hands on in words."""
        return self(f"step_{pair.name}") if pair in comparison.before else pair.name
