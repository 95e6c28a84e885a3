"""Each sentence about checkpoints is used, and each that is used is there."""

import re
from pathlib import Path

from tracer import bounds, checkpoint, texts

SOURCES = (*Path(checkpoint.__path__[0]).glob("*.py"), Path(bounds.__file__))


def test_the_sentences_are_those_that_the_code_names():
    code = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    named = set(re.findall(r'"(checkpoint\.[a-z0-9_]+)"', code))
    named |= {f"{id}_one" for id in re.findall(r'_told\("(checkpoint\.[a-z0-9_]+)"', code)}  # of a range of one
    assert named == {name for name in texts.catalogue() if name.startswith("checkpoint.")}
