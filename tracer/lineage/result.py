"""A value's way through the source as plain data, for whoever shows it, keeps it or compares it with a run.

Must not know: syntax trees.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tracer.records import Site, Span
from tracer.source.files import SourceFile
from tracer.texts import Message


@dataclass(frozen=True)
class Place:
    """An expression: ``file`` is its key among the files read."""

    file: str
    span: Span
    scope: str
    code: str


@dataclass(frozen=True)
class Other:
    """A further way for a value to come here: from where, under which conditions, assuming what (None: nothing)."""

    place: Place
    when: tuple[str, ...]
    why: Message | None


@dataclass(frozen=True)
class Step:
    """One expression on the way. ``why`` lists what was assumed of the link to it from the step before (empty: the
    source proves it), ``when`` the conditions it runs under, ``binds`` the name it is handed on by."""

    place: Place
    kind: str
    binds: str
    why: tuple[Message, ...]
    when: tuple[str, ...]
    others: tuple[Other, ...]

    @property
    def proven(self) -> bool:
        """Whether the source itself shows that this expression takes its value from the step before."""
        return not self.why


@dataclass(frozen=True)
class ValuePath:
    """A value from where it is made (first step) to the kernel's argument (last). ``open_end`` says why the way does
    not reach a definition, None where it does."""

    project: str
    version: str
    value: str
    argument: str
    steps: tuple[Step, ...]
    open_end: Message | None

    def site(self, place: Place, files: Mapping[str, SourceFile]) -> Site:
        """Return ``place`` as a Site."""
        return files[place.file].site(place.span, place.scope)


def to_json(path: ValuePath) -> dict[str, Any]:
    """Return ``path`` as plain JSON values."""
    return {
        "project": path.project,
        "version": path.version,
        "value": path.value,
        "argument": path.argument,
        "steps": [_step_json(step) for step in path.steps],
        "open_end": _message_json(path.open_end),
    }


def _step_json(step: Step) -> dict[str, Any]:
    others = [
        {"place": asdict(other.place), "when": other.when, "why": _message_json(other.why)} for other in step.others
    ]
    why = [_message_json(each) for each in step.why]
    place = asdict(step.place)
    return {"place": place, "kind": step.kind, "binds": step.binds, "why": why, "when": step.when, "others": others}


def _message_json(message: Message | None) -> dict[str, Any] | None:
    """Return a message as JSON; its values are texts already."""
    return None if message is None else {"id": message.id, "values": {k: str(v) for k, v in message.values.items()}}


def from_json(raw: Mapping[str, Any]) -> ValuePath:
    """Return the ValuePath that ``to_json`` made ``raw`` of; raises KeyError, TypeError or ValueError otherwise."""
    steps = tuple(
        Step(
            _place(each["place"]),
            each["kind"],
            each["binds"],
            tuple(_message(why) for why in each["why"]),
            tuple(each["when"]),
            tuple(
                Other(_place(other["place"]), tuple(other["when"]), _message(other["why"]) if other["why"] else None)
                for other in each["others"]
            ),
        )
        for each in raw["steps"]
    )
    end = raw["open_end"]
    return ValuePath(
        raw["project"], raw["version"], raw["value"], raw["argument"], steps, _message(end) if end else None
    )


def _place(raw: Mapping[str, Any]) -> Place:
    return Place(raw["file"], Span(**raw["span"]), raw["scope"], raw["code"])


def _message(raw: Mapping[str, Any]) -> Message:
    return Message(raw["id"], raw["values"])
