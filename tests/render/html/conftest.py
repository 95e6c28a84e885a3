"""Reports to look at, and a Chromium to look at them with.

The browser is the system's own, driven by playwright. Where there is none, the tests are skipped with a reason that
says how to get it; with the environment variable CI set they fail, for a green run would then say nothing of the page.
"""

import os
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.invented_trace import invented
from tracer.page.report import report
from tracer.records import LayerTrace, Token
from tracer.render.html.render import render
from tracer.result import look_at

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TOKENS, HEAD = 12, 2
# What a tokenizer may hand out: markup, attribute break-outs, template syntax, control characters, bidirectional text.
HOSTILE = (
    b'"><script>document.title="owned"</script>',
    b"</script><img src=x onerror=alert(1)>",
    b"' onclick='alert(1)",
    b"{{ 7 * 7 }}{% raw %}",
    "\u202eevil\u202c".encode(),
    b"\x00\x1b[31m",
    "שלום".encode(),
    "مرحبا".encode(),
    b"]]>--><!--",
    b"&lt;b&gt;&amp;",
    b"\xff\xfe",
    "e\u0301\u200d\u2028".encode(),
)


def hostile(layer: LayerTrace) -> LayerTrace:
    """Return ``layer`` with tokens that try to be something else than text."""
    tokens = []
    for place in range(len(layer.tokens)):
        content = HOSTILE[place % len(HOSTILE)]
        try:
            text: str | None = content.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        tokens.append(Token(place, content, text))
    return replace(layer, tokens=tuple(tokens))


@pytest.fixture(scope="session")
def layer() -> LayerTrace:
    return invented(TOKENS)


@pytest.fixture(scope="session")
def html(layer: LayerTrace) -> str:
    return render(report(look_at(layer, HEAD), "en"))


@pytest.fixture(scope="session")
def hostile_html(layer: LayerTrace) -> str:
    return render(report(look_at(hostile(layer), HEAD), "en"))


def without_chromium() -> NoReturn:
    """End a test that needs the browser where there is none: a failure where CI is set, else a skip that is told of."""
    why = (
        "NOT TESTED: the HTML report is tested in Chromium, and there is none here. "
        "Install the package chromium (apt-get install chromium) and run again."
    )
    if os.environ.get("CI"):
        pytest.fail(why)
    with warnings.catch_warnings():
        # pytest prints warnings at the end of a run also where the reasons of skipped tests are left out (-q).
        warnings.simplefilter("always")
        warnings.warn(why, stacklevel=2)
    pytest.skip(why)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    if found is None:
        without_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class Opened:
    """A report open in a browser: ``requests`` and ``complaints`` are everything it asked for and all it logged."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Any]:
    """Return a function that opens a report from a file, as a double click does."""
    contexts = []

    def open_report(html: str, *, width: int = 1280, script: bool = True, **context: Any) -> Opened:
        file = tmp_path / "report.html"
        file.write_text(html, encoding="utf-8")
        made = chromium.new_context(
            viewport={"width": width, "height": 900}, java_script_enabled=script, reduced_motion="reduce", **context
        )
        contexts.append(made)
        page = made.new_page()
        seen = Opened(page)
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("console", lambda message: seen.complaints.append(message.text))
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.goto(file.as_uri())
        return seen

    yield open_report
    for made in contexts:
        made.close()
