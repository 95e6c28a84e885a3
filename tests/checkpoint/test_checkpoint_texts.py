"""Each sentence about checkpoints is used, and each that is used is there."""

import re
from pathlib import Path

from tracer import checkpoint, texts

SOURCES = Path(checkpoint.__path__[0])


def test_the_sentences_are_those_that_the_code_names():
    code = "".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("*.py"))
    named = set(re.findall(r'"(checkpoint\.[a-z0-9_]+)"', code))
    assert named == {name for name in texts.catalogue() if name.startswith("checkpoint.")}
