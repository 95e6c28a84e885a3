"""Rendering a checkpoint's chat template, which is a program that nobody vouches for.

It runs in jinja2's immutable sandbox, as transformers runs it, and besides in a process of its own, because a sandbox
stops neither an endless loop nor a string that doubles until memory ends. Must not know: tokens.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tracer.checkpoint.wording import shown
from tracer.errors import InputError

SECONDS = 10
WORKER = Path(__file__).with_name("chat_worker.py")


def render(template: str, text: str, special_tokens: Mapping[str, str], folder: Path) -> str:
    """Return ``template`` rendered for one user message ``text`` and the start of the assistant's answer.

    Raises InputError where the template fails, takes longer than SECONDS or needs more memory than the worker allows.
    """
    variables = {
        **special_tokens,
        "messages": [{"role": "user", "content": text}],
        "add_generation_prompt": True,
        "tools": None,
        "documents": None,
    }
    order = json.dumps({"template": template, "variables": variables}).encode("ascii")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(WORKER)], input=order, capture_output=True, timeout=SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        raise InputError("checkpoint.template_slow", folder=str(folder), seconds=SECONDS) from None
    answer = _answer(done.stdout)
    if "text" not in answer:
        fault = answer.get("fault") or f"exit {done.returncode}"
        raise InputError("checkpoint.template_fails", folder=str(folder), fault=shown(fault))
    return answer["text"]


def _answer(output: bytes) -> dict[str, str]:
    """Return the worker's answer; a worker that died (out of memory) has left none."""
    try:
        answer = json.loads(output)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
