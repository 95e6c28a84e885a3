"""The texts of a comparison in one language. Must not know: what is said where."""

from dataclasses import dataclass

from tracer.compare.records import Comparison, Pair
from tracer.texts import message


@dataclass(frozen=True, slots=True)
class Say:
    """The texts ``compare.…`` in one language."""

    language: str

    def __call__(self, name: str, **values: object) -> str:
        """Return the text ``compare.<name>`` filled with ``values``."""
        return message(f"compare.{name}", **values).text(self.language)

    def count(self, name: str, count: int, **values: object) -> str:
        """Return the text for a number of things, ``compare.<name>_one`` where there is one."""
        return self(f"{name}_one" if count == 1 else name, count=count, **values)

    def step(self, pair: Pair, comparison: Comparison) -> str:
        """Return the name of a step: a tensor's own, or what a layer hands on in words."""
        return self(f"step_{pair.name}") if pair in comparison.before else pair.name
