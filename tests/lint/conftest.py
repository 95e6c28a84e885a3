"""Linting small sources: written to a folder, never imported."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tracer.lint.records import Report
from tracer.lint.run import lint

Lint = Callable[..., Report]

HEADER = """\
import functools
import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

"""


@pytest.fixture
def linted(tmp_path: Path) -> Lint:
    """``linted(code)`` lints one file with the usual imports; ``linted(files=…)`` lints files by name as they are."""

    def run(code: str = "", files: dict[str, str] | None = None) -> Report:
        written = files if files is not None else {"port.py": HEADER + textwrap.dedent(code)}
        for name, text in written.items():
            place = tmp_path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(textwrap.dedent(text) if files else text, encoding="utf-8")
        return lint([tmp_path])

    return run


def rules(report: Report) -> list[str]:
    """The rules of the findings, in order."""
    return [finding.rule for finding in report.open_findings]
