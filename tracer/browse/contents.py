"""The tree on the left: frameworks, their files and places, the ways of values; what is not here, and what brings it.

Must not know: what happens when something is chosen.
"""

from dataclasses import dataclass

from rich.text import Text
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from tracer.browse.books import Book, Shelf, Spot
from tracer.reading import catalogue
from tracer.texts import message


@dataclass(frozen=True)
class Entry:
    """What a node stands for. ``kind``: framework, file, spot, ways, way, missing or waiting."""

    kind: str
    framework: str
    file: str = ""
    value: str = ""
    spot: Spot | None = None


class ContentsTree(Tree[Entry]):
    """Everything there is to read."""

    def __init__(self, shelf: Shelf, language: str) -> None:
        super().__init__("", id="contents")
        self.show_root = False
        self.guide_depth = 2
        self._shelf = shelf
        self._language = language
        self._named: dict[str, TreeNode[Entry]] = {}
        self._filled: set[str] = set()

    def fill(self) -> None:
        """Put every framework in, closed; what is not here says which command brings it."""
        for framework in catalogue.FRAMEWORKS:
            node = self.root.add(Text(framework), Entry("framework", framework))
            self._named[framework] = node
            missing = self._shelf.missing(framework)
            if missing is None:
                node.add_leaf("", Entry("waiting", framework))
            else:
                node.add_leaf("", Entry("missing", framework))
                node.expand()
        self.speak(self._language)

    def put(self, book: Book) -> None:
        """Put a framework's files, places and values in place of what was there."""
        node = self._named[book.framework]
        self._filled.add(book.framework)
        node.remove_children()
        for file in book.files:
            branch = node.add("", Entry("file", book.framework, file))
            for spot in book.spots(file) if book.placed else ():
                if spot.place is not None:
                    branch.add_leaf("", Entry("spot", book.framework, file, spot=spot))
            if branch.children:
                branch.expand()
        ways = node.add("", Entry("ways", book.framework))
        for value in book.values:
            branch = ways.add("", Entry("way", book.framework, value=value))
            self._steps(branch, book, value)
        self.speak(self._language)

    def put_way(self, book: Book, value: str) -> None:
        """Put the steps of a value that has been followed."""
        for node in self._every():
            if node.data is not None and (node.data.kind, node.data.framework, node.data.value) == (
                "way",
                book.framework,
                value,
            ):
                node.remove_children()
                self._steps(node, book, value)
        self.speak(self._language)

    def _steps(self, branch: TreeNode[Entry], book: Book, value: str) -> None:
        for spot in book.steps(value):
            branch.add_leaf("", Entry("spot", book.framework, spot.file, value, spot))
        if not branch.children:
            branch.add_leaf("", Entry("waiting", book.framework, value=value))

    def has(self, framework: str) -> bool:
        """Return whether the places of a framework have been put in."""
        return framework in self._filled

    def follow(self, spot: Spot) -> None:
        """Put the cursor on the node of ``spot`` where it is in sight, without choosing it."""
        for node in self._every():
            own = node.data.spot if node.data is not None and not node.data.value and node.line >= 0 else None
            if own is not None and (own.framework, own.file, own.span) == (spot.framework, spot.file, spot.span):
                self.move_cursor(node)

    def open(self, framework: str) -> None:
        """Unfold a framework."""
        self._named[framework].expand()

    def speak(self, language: str) -> None:
        """Write every label in ``language``."""
        self._language = language
        for node in self._every():
            if node.data is not None:
                node.set_label(self._label(node.data))

    def _every(self) -> list[TreeNode[Entry]]:
        found, left = [], [self.root]
        while left:
            node = left.pop()
            found.append(node)
            left += node.children
        return found

    def _label(self, entry: Entry) -> Text:
        if entry.kind == "framework":
            if self._shelf.missing(entry.framework) is not None:
                return Text.assemble((entry.framework, "bold"), (f"  {self._say('not_here')}", "#e0b050"))
            release = self._shelf.book(entry.framework).library.release
            return Text.assemble((release.framework, "bold"), (f" {release.version}", "#9a9a9a"))
        if entry.kind == "file":
            return Text(entry.file.rsplit("/", 1)[-1], "#8fb8ff")
        if entry.kind == "missing":
            return Text(f"trace vendor sync {entry.framework}", "#e0b050")
        if entry.kind == "ways":
            return Text(self._say("ways"), "#8fb8ff")
        if entry.kind == "way":
            return Text(entry.value)
        if entry.spot is not None:
            what = entry.spot.place or " ".join(entry.spot.code.split())[:40]
            return Text.assemble((f"{entry.spot.span.line} ", "#9a9a9a"), what)
        return Text(self._say("waiting"), "italic #9a9a9a")

    def _say(self, name: str) -> str:
        return message(f"browse.{name}").text(self._language)
