"""Lesson: one lab worked through. What every lab has in common: what to look out for before, what to notice after, a
question to think about, and where to go next; as a page and as JSON.

Must not know: any particular lab, terminals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracer.labs.words import Words, said
from tracer.page.record import Facts, Page, Piece, Prose, Role, Section, line
from tracer.texts import Message

FORMAT = "lab/1"


@dataclass(frozen=True, slots=True)
class Next:
    """A command to go on with, and what it shows."""

    command: str
    text: Message


@dataclass(frozen=True, eq=False)
class Lesson:
    """A lab's answer. ``sections`` words its numbers for a page, ``figures`` gives the same numbers
    unrounded, any sentence among them in the language it is given."""

    name: str
    before: Message
    sections: Callable[[Words], Sequence[Section]]
    figures: Callable[[str], Mapping[str, Any]]
    after: tuple[Message, ...]
    question: Message
    next: tuple[Next, ...]
    exit_code: int = 0

    def page(self, language: str) -> Page:
        """Return the lab as a page."""
        say = Words(language)
        before = Section(
            f"{self.name}_before", "", line(say("heading_before")), (Prose(line(self.before.text(language))),)
        )
        return Page(
            id=f"lab_{self.name}",
            language=language,
            title=line(Piece(f"trace lab {self.name}", Role.STRONG), f"  {say(f'{self.name}_title')}"),
            verdict=(),
            sections=(before, *self.sections(say), *self._closing(say)),
        )

    def json(self, language: str) -> dict[str, Any]:
        """Return the lab as JSON: unrounded numbers, null for what is no number, and the sentences in ``language``."""
        return {
            "format": FORMAT,
            "lab": self.name,
            "language": language,
            **self.figures(language),
            "before": self.before.text(language),
            "after": [each.text(language) for each in self.after],
            "question": self.question.text(language),
            "next": [{"command": each.command, "text": each.text.text(language)} for each in self.next],
        }

    def _closing(self, say: Words) -> tuple[Section, ...]:
        language = say.language
        after = tuple(Prose(line(each.text(language))) for each in self.after)
        commands = tuple((line(Piece(each.command, Role.CODE)), line(each.text.text(language))) for each in self.next)
        return (
            Section(f"{self.name}_after", "", line(say("heading_after")), after),
            Section(
                f"{self.name}_question",
                "",
                line(say("heading_question")),
                (Prose(line(self.question.text(language))),),
            ),
            Section(f"{self.name}_next", "", line(say("heading_next")), (Facts(commands),)),
        )


def going_on(lab: str, *commands: str) -> tuple[Next, ...]:
    """Return the commands to go on with; their texts are ``<lab>_next_1``, ``<lab>_next_2`` and so on."""
    return tuple(Next(command, said(f"{lab}_next_{place}")) for place, command in enumerate(commands, start=1))
