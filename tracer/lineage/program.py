"""The files that are read as one program: what a name stands for across files, and what a class inherits from.

Imports between the given files, absolute and relative, find each other. Must not know: values.
"""

from collections.abc import Iterator, Mapping

import libcst as cst

from tracer.lineage.module import Module
from tracer.lineage.parts import Class, Imported, Meaning, dotted
from tracer.source.files import SourceFile


class Program:
    """Files read together. Names that lead out of them stay what they are: names."""

    def __init__(self, files: Mapping[str, SourceFile]) -> None:
        self.modules = {key: Module(key, file) for key, file in files.items()}
        self._by_name = {module.name: module for module in self.modules.values()}

    def find(self, name: str) -> tuple[tuple[Meaning, ...], Module, str, bool] | None:
        """Return what a full dotted name stands for, its module, the attributes left over, and whether that is certain.

        It is not certain where a module that is not among those read hands on a name: the one top-level class or
        function of that name nearest to it is taken. None where the name leads out of the program.
        """
        parts = name.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module = self._by_name.get(".".join(parts[:cut]))
            if module is not None:
                found = module.top_level(parts[cut])
                return (found, module, ".".join(parts[cut + 1 :]), True) if found else None
        for cut in range(len(parts) - 1, 0, -1):
            below = [m for n, m in self._by_name.items() if n.startswith(".".join(parts[:cut]) + ".")]
            handed = [(m, found) for m in below for found in [m.top_level(parts[-1], own=True)] if found]
            if handed:
                return (handed[0][1], handed[0][0], "", False) if len(handed) == 1 else None
        return None

    def classes(self) -> Iterator[Class]:
        """Yield every class."""
        for module in self.modules.values():
            yield from module.classes.values()

    def bases(self, cls: Class) -> tuple[Class, ...]:
        """Return ``cls`` and the classes of the program that it inherits from, nearest first."""
        found = [cls]
        for each in found:
            for base in self._direct(each):
                if base not in found:
                    found.append(base)
        return tuple(found)

    def base_names(self, cls: Class) -> frozenset[str]:
        """Return the full dotted names of everything that ``cls`` inherits from, as far as the files tell."""
        found = set()
        for each in self.bases(cls):
            for arg in each.node.bases:
                found.add(self.full_name(each.module, arg.value))
        return frozenset(found)

    def subclasses(self, cls: Class) -> tuple[Class, ...]:
        """Return every class of the program that inherits from ``cls``."""
        return tuple(each for each in self.classes() if each is not cls and cls in self.bases(each))

    def class_of(self, module: Module, annotation: cst.CSTNode) -> Class | None:
        """Return the program's class that an annotation names (also quoted, ``X | None``, ``Optional[X]``)."""
        for name in _annotated(annotation):
            found = self._class(module, name)
            if found is not None:
                return found
        return None

    def full_name(self, module: Module, node: cst.CSTNode) -> str:
        """Return the full dotted name of a plain or dotted name, imports followed; "" for any other expression."""
        name = dotted(node)
        head, _, rest = name.partition(".")
        for meaning in module.top_level(head):
            if isinstance(meaning, Imported):
                return f"{meaning.name}.{rest}" if rest else meaning.name
        return name

    def _direct(self, cls: Class) -> Iterator[Class]:
        for arg in cls.node.bases:
            node = arg.value.value if isinstance(arg.value, cst.Subscript) else arg.value
            found = self._class(cls.module, node)
            if found is not None:
                yield found

    def _class(self, module: Module, node: cst.CSTNode) -> Class | None:
        name = self.full_name(module, node)
        own = [each for each in module.classes.values() if each.scope == name]
        if own:
            return own[0]
        found = self.find(name) if "." in name else None
        classes = [each for each in found[0] if isinstance(each, Class)] if found else []
        return classes[0] if classes else None


def _annotated(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the names in an annotation, outermost first."""
    if isinstance(node, cst.SimpleString):
        value = node.evaluated_value
        if isinstance(value, str) and value.strip():
            yield from _annotated(cst.parse_expression(value))
    elif isinstance(node, (cst.Name, cst.Attribute)):
        yield node
    else:
        for child in node.children:
            yield from _annotated(child)
