"""Two small releases written here, so that what is on the screen does not change with what is installed."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

from textual.pilot import Pilot

from tests.invented_trace import invented
from tracer.browse.app import BrowseApp
from tracer.browse.books import Book, Shelf
from tracer.errors import InputError, TracerError
from tracer.lineage.definitions import definition
from tracer.lineage.find import Reader
from tracer.lineage.result import Place, Step, ValuePath
from tracer.reading.library import Library
from tracer.reading.releases import Release
from tracer.records import Hop, LayerTrace, Span
from tracer.source import anchors
from tracer.source.anchors import Definitions
from tracer.source.files import SourceFile
from tracer.texts import message

TRANSFORMERS = {
    "model": """
        class Attention:
            def __init__(self, config):
                self.head_dim = config.head_dim
                self.scaling = self.head_dim**-0.5  # 一个数

            def forward(self, hidden_states):
                query_states = self.q_proj(hidden_states)
                return attention(
                    query_states,
                    scaling=self.scaling,
                )
        """,
    "kernel": """
        def attention(query, scaling):
            return flash_attn_varlen_func(query, softmax_scale=scaling)
        """,
}
NANO = {
    "model": """
        class Attention:
            def __init__(self, head_dim):
                self.scaling = head_dim ** -0.5

            def forward(self, hidden_states):
                qkv = self.qkv_proj(hidden_states)
        """
}
PLACES = {
    "transformers": {
        "project": ("model", "Attention.forward", "self.q_proj(...)"),
        "scale": ("model", "Attention.__init__", "self.scaling = HERE"),
        "scale.call": ("kernel", "attention", "flash_attn_varlen_func(..., softmax_scale=HERE)"),
    },
    "nano-vllm": {
        "project": ("model", "Attention.forward", "self.qkv_proj(...)"),
        "scale": ("model", "Attention.__init__", "self.scaling = HERE"),
    },
}
WAY = (
    ("model", "self.head_dim**-0.5", "Attention.__init__", "attribute", "self.scaling"),
    ("model", "self.scaling,", "Attention.forward", "argument", "scaling="),
    ("kernel", "scaling)", "attention", "parameter", "scaling"),
    ("kernel", "scaling)\n", "attention", "start", "softmax_scale="),
)
NANO_WAY = (
    ("model", "head_dim ** -0.5", "Attention.__init__", "attribute", "self.scaling"),
    ("model", "self.scaling", "Attention.__init__", "start", "softmax_scale="),
)


@dataclass(eq=False)
class Known(Reader):
    """The analysis, answered in advance: the scale has a way, and nothing else has."""

    def path(self, value: str) -> ValuePath:
        way = WAY if "kernel" in self.files else NANO_WAY
        steps = tuple(self._step(*each) for each in way) if value == "scale" else ()
        return ValuePath(self.defined.project, "1.0", value, "softmax_scale", steps, None)

    def _step(self, key: str, code: str, scope: str, kind: str, binds: str) -> Step:
        source, kept = self.files[key].source, code.rstrip(",)\n")
        at = source.rindex(code) if code.endswith("\n") else source.index(code)
        place = Place(key, span_of(self.files[key], at, len(kept)), scope, kept)
        return Step(place, kind, binds, (), (), ())


def span_of(file: SourceFile, offset: int, length: int) -> Span:
    return Span(*file.text.position(offset), *file.text.position(offset + length))


def book(framework: str, sources: dict[str, str], layer: LayerTrace | None = None) -> Book:
    files = {}
    for key, source in sources.items():
        text = dedent(source).lstrip("\n")
        digest = hashlib.sha256(text.encode()).hexdigest()
        member = f"{framework.replace('-', '')}/{key}.py"
        files[key] = SourceFile(framework, "1.0", member, Path("/nowhere") / member, text, digest)
    library = Library(Release(framework, "1.0", False, message("source_pages.release_asked")))
    given = {
        id: {"file": file, "scope": scope, "pattern": pattern}
        for id, (file, scope, pattern) in PLACES[framework].items()
        if sources in (TRANSFORMERS, NANO)
    }
    if "scale.call" in given:
        given["project"]["capture"] = "q_proj"
    defined = Definitions(framework, {key: file.member for key, file in files.items()}, given, {}, "")
    library.__dict__ |= {
        "defined": defined,
        "table": anchors.table(defined, files, None),
        "reader": Known(definition(framework), files),
    }
    return Book(library, {file.member: file for file in files.values()}, layer)


def shelf(traced: bool = False) -> Shelf:
    """The two releases; of the other frameworks nothing is here."""
    layer = invented() if traced else None
    first = book("transformers", TRANSFORMERS)
    if layer is not None:
        layer = seen_by(layer, first)
        first.layer = layer
    missing: dict[str, Book | TracerError] = {name: _absent(name) for name in ("vllm", "sglang", "flash-attn")}
    return Shelf(layer, {"transformers": first, "nano-vllm": book("nano-vllm", NANO, layer), **missing})


def seen_by(layer: LayerTrace, read: Book) -> LayerTrace:
    """An invented trace as if it had run the files of ``read``."""
    read.find_places()
    project, scale = read.place("project"), read.place("scale")
    assert project is not None
    assert scale is not None
    captures = {"q_proj": replace(layer.captures["q_proj"], site=read.site(project))}
    hop = Hop(read.site(scale), "self.scaling", True, True, 0.3535533905932738, True)
    return replace(layer, captures=captures, scale=replace(layer.scale, hops=(hop,)))


def _absent(framework: str) -> TracerError:
    return InputError(
        "vendor.need_missing",
        project=framework,
        version="1.0",
        member="model.py",
        path="model.py",
        command=f"trace vendor sync {framework}",
    )


# ------------------------------------------------------------------------------------------------- at the screen

Act = Callable[[BrowseApp, Pilot[None]], Awaitable[None]]


def browse(
    act: Act, size: tuple[int, int] = (80, 24), language: str = "en", traced: bool = False, on: Shelf | None = None
) -> BrowseApp:
    """Run the application without a terminal and let ``act`` use it."""

    async def main() -> BrowseApp:
        app = BrowseApp(on or shelf(traced), language)
        async with app.run_test(size=size) as pilot:
            await settle(app, pilot)
            await act(app, pilot)
        return app

    return asyncio.run(main())


async def settle(app: BrowseApp, pilot: Pilot[None]) -> None:
    await app.workers.wait_for_complete()
    await pilot.pause()
    await pilot.pause()


async def press(app: BrowseApp, pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(app, pilot)


def screen(app: BrowseApp) -> str:
    """What the reader sees, as text."""
    strips = app.screen._compositor.render_strips()
    return "".join(f"{strip.text.rstrip()}\n" for strip in strips)
