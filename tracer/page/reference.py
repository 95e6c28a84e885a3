"""Quick reference of shapes and formulas, and the glossary, as a report ends with them.

Must not know: HTML.
"""

from tracer.page.record import Column, Facts, Piece, Role, Row, Table, line
from tracer.page.sheet import Heading, Pair, Part, both
from tracer.reading import catalogue


def reference() -> tuple[Part, ...]:
    """Return the quick reference and the glossary in both languages."""
    return (
        Heading(both("reference_formulas"), "formulas"),
        Pair(_formulas("en"), _formulas("zh")),
        Heading(both("reference_glossary"), "glossary"),
        Pair(_glossary("en"), _glossary("zh")),
    )


def _formulas(language: str) -> Table:
    rows = tuple(
        Row(
            (
                line(Piece(entry["formula"], Role.FORMULA)),
                line(Piece(entry["shape"], Role.MUTED)),
                line(entry[language]),
            )
        )
        for entry in catalogue.formulas().values()
    )
    return Table((Column(), Column(), Column()), rows)


def _glossary(language: str) -> Facts:
    terms = (entry[language] for entry in catalogue.glossary().values())
    return Facts(tuple((line(Piece(term["name"], Role.STRONG)), line(term["text"])) for term in terms))
