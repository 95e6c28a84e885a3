"""Hypothesis strategies for hostile files: right ones with a few places changed, in their structure and in their bytes.

Must not know: what reads them.
"""

import copy
import json
import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.subjects import PINS, PORT, SUBJECTS, packed, whole_trace

# Text that acts on a terminal, a page, a file system or a reader's eyes.
HOSTILE = (
    "",
    "\x00",
    "\x1b[2J",
    "\x1b]8;;http://x\x07",
    "\x9b31m",
    "\u202e",
    "\u2066",
    "\u2028",
    "\ufeff",
    "\ud800",
    "\udc41",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onclick='x",
    "[/red][bold]",
    "{0.__class__}",
    "%s%n",
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\x",
    "a" * 5000,
    "\n\n",
    "\r",
    "e\u0301",
    "猫",
    "🐈\u200d",
    "nan",
    "qwen3",
)
NUMBERS = (0, 1, -1, 2, 7, 2**31, 2**63, 2**64, 10**9, 10**300, 10**4000, 0.0, -0.5, 1e308, 1e-320, True, False, None)


class File(bytes):
    """A file's bytes, shown short: a report of a failure quotes them."""

    def __repr__(self) -> str:
        return (
            bytes.__repr__(self)
            if len(self) <= 4000
            else f"{bytes.__repr__(self[:4000])}  # and {len(self) - 4000} more"
        )


texts = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=12))
scalars = st.one_of(st.sampled_from(NUMBERS), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=8
)


@st.composite
def changed(draw: st.DrawFn, whole: Any) -> Any:
    """``whole`` (made of JSON's types) with up to four places replaced, removed, renamed, doubled or shifted."""
    found = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 4))):
        holder = found
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(holder[key], dict | list) and holder[key] and draw(st.integers(0, 3)):
                holder = holder[key]
                continue
            _change(draw, holder, key)
            break
    return found


def _change(draw: st.DrawFn, holder: Any, key: Any) -> None:
    kind = draw(st.sampled_from(("replace", "replace", "remove", "rename", "double", "shift")))
    if kind == "remove":
        holder.pop(key)
    elif kind == "rename" and isinstance(holder, dict):
        holder[draw(texts)] = holder.pop(key)
    elif kind == "double" and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif kind == "shift" and type(holder[key]) is int:
        holder[key] += draw(st.sampled_from((-4, -1, 1, 4, 1 << 40)))
    else:
        holder[key] = draw(values)


@st.composite
def scrambled(draw: st.DrawFn, whole: bytes) -> bytes:
    """``whole`` with up to three stretches flipped, cut out, repeated or overwritten, mostly at its beginning."""
    data = whole
    for _ in range(draw(st.integers(1, 3))):
        if not data:
            break
        at = draw(st.integers(0, min(len(data), draw(st.sampled_from((16, 300, len(data))))) - 1))
        length = draw(st.sampled_from((1, 1, 8, 100)))
        kind = draw(st.sampled_from(("cut", "out", "repeat", "over", "flip")))
        before, rest = data[:at], data[at:]
        if kind == "cut":
            data = before
        elif kind == "out":
            data = before + rest[length:]
        elif kind == "repeat":
            data = before + rest[:length] * 20 + rest
        elif kind == "over":
            data = before + draw(st.binary(min_size=1, max_size=length)) + rest[length:]
        else:
            data = before + bytes([rest[0] ^ (1 << draw(st.integers(0, 7)))]) + rest[1:]
    return data


def _json(value: Any) -> bytes:
    """JSON as ASCII, lone surrogates escaped; Python writes NaN nowhere here, for the values hold none."""
    return json.dumps(value).encode()


def _documents(name: str) -> st.SearchStrategy[bytes]:
    """Files that are one JSON document."""
    seed = SUBJECTS[name].seed()
    return st.one_of(
        changed(json.loads(seed)).map(_json),
        changed(json.loads(seed)).map(_json),
        values.map(_json),
        scrambled(seed),
        st.integers(1, 60_000).map(lambda depth: b'{"a":' + b"[" * depth),
    )


def _split(data: bytes) -> tuple[Any, bytes]:
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def _headers() -> st.SearchStrategy[bytes]:
    seed = SUBJECTS["header"].seed()
    header, data = _split(seed)
    return st.one_of(
        changed(header).map(lambda found: packed(found, data)),
        changed(header).map(lambda found: packed(found, data)),
        values.map(lambda found: packed(found, data)),
        st.tuples(st.integers(0, 2**64 - 1), st.binary(max_size=64)).map(
            lambda pair: struct.pack("<Q", pair[0]) + pair[1]
        ),
        st.sampled_from(
            (b"<!DOCTYPE html><html>", b"version https://git-lfs.github.com/spec/v1\n", b"\x80\x04\x95", b"PK\x03\x04")
        ),
        scrambled(seed),
    )


def _traces() -> st.SearchStrategy[bytes]:
    seed = SUBJECTS["trace"].seed()
    header, data = _split(seed)
    description = json.loads(header["__metadata__"]["trace"])
    return st.one_of(
        changed(description).map(lambda found: whole_trace(_json(found))),
        changed(description).map(lambda found: whole_trace(_json(found))),
        changed(description).map(lambda found: whole_trace(_json(found))),
        changed(header).map(lambda found: packed(found, data)),
        scrambled(seed),
    )


# -------------------------------------------------------------------------------------------------- Python source

_names = st.sampled_from(
    (
        "q",
        "k",
        "v",
        "self",
        "scale",
        "self.scale",
        "self.head_dim",
        "config.hidden_size",
        "math.sqrt",
        "flash_attn_func",
        "F.softmax",
        "torch",
        "partial",
        "名",
        "_",
        "mask",
        "super()",
        "D",
    )
)
_atoms = st.one_of(
    _names,
    st.sampled_from(
        (
            "0",
            "1.0",
            "-0.5",
            "1e999",
            "None",
            "True",
            "...",
            "1j",
            "''",
            "b'x'",
            "10**9**9",
            "()",
            "[]",
            "{}",
            "'\\x1b[2J\\u202e'",
            "f'{q!r:>{k}}'",
            "1_000",
            "0x" + "f" * 300,
        )
    ),
)
_CALLS = (
    "flash_attn_func({0}, {1}, {2}, softmax_scale={3}, causal={4})",
    "flash_attn_varlen_func(*{0}, **{1})",
    "F.scaled_dot_product_attention({0}, {1}, {2}, attn_mask={3}, is_causal={4})",
    "partial(flash_attn_func, {0}, {1})({2})",
    "F.softmax({0} @ {1}.transpose(-1, -2) * {2} + {3}, dim=-1) @ {4}",
    "torch.softmax({0} / {1}, -1)",
    "getattr({0}, {1})",
    "({0} if {1} else {2})",
    "(lambda q, k={0}: {1})({2})",
    "[{0} for k in {1} if {2}]",
    "({0})[{1}:{2}]",
    "({0}).scale",
    "({0}) ** ({1})",
    "({0}) * ({1}) / ({2})",
    "-({0})",
    "not ({0})",
    "(k := {0})",
    "{0} < {1} < {2}",
    "await_({0})",
    "{{'a': {0}, **{1}}}",
    "({0},) * 3",
    "({0}) // ({1})",
    "({0}) % ({1})",
    "math.sqrt({0})",
    "float({0})",
)
_expressions = st.recursive(
    _atoms,
    lambda inner: st.tuples(st.sampled_from(_CALLS), *[inner] * 5).map(lambda parts: parts[0].format(*parts[1:])),
    max_leaves=12,
)
_STATEMENTS = (
    "return {0}",
    "{0}",
    "self.scale = {0}",
    "scale = {0}",
    "scale *= {0}",
    "q, *k = {0}",
    "self.a = self.b = {0}",
    "if {0}:\n            scale = {1}\n        else:\n            self.scale = {1}",
    "def scale(q=({0})): return {1}",
    "del scale",
    "while {0}:\n            scale = scale * {1}",
    "for scale in {0}: pass",
    "with {0} as scale: pass",
    "global scale",
    "try:\n            scale = {0}\n        except Exception as q:\n            raise",
    "self.flash_attn_func = {0}",
    "match {0}:\n            case {{'a': scale}}: pass\n            case _: scale = {1}",
    "yield {0}",
    "import torch as q",
    "from . import *",
    "lambda: ({0})",
    "scale: int = {0}",
    "assert {0}",
    "self.scale = self.scale",
)
_statements = st.tuples(st.sampled_from(_STATEMENTS), _expressions, _expressions).map(lambda p: p[0].format(p[1], p[2]))
_HEAD = """\
import math, torch
import torch.nn.functional as F
from functools import partial
from flash_attn import *
from flash_attn import flash_attn_func
"""


@st.composite
def sources(draw: st.DrawFn) -> bytes:
    """A module of one or two classes whose methods hold kernels, scales and whatever else Python allows."""
    lines = [_HEAD]
    for number in range(draw(st.integers(1, 2))):
        base = draw(st.sampled_from(("", "(nn.Module)", "(C0)", "(C1, C0)", "(C0.x)", "(metaclass=M)")))
        lines.append(f"class C{number}{base}:")
        for method in ("__init__", "forward"):
            decorator = draw(
                st.sampled_from(("", "    @partial\n", "    @property\n", "    @staticmethod\n", "    @a.b(1)\n"))
            )
            lines.append(f"{decorator}    def {method}(self, q, k=1, *v, scale=None, **config):")
            lines += [f"        {draw(_statements)}" for _ in range(draw(st.integers(1, 4)))]
    return "\n".join(lines).encode()


def _ports() -> st.SearchStrategy[bytes]:
    return st.one_of(
        sources(),
        sources(),
        scrambled(PORT.encode()),
        st.binary(max_size=200),
        texts.map(
            lambda text: f"flash_attn_func(q, k, v, softmax_scale={text!r})  # {text}\n".encode("utf-8", "replace")
        ),
    )


def _pins() -> st.SearchStrategy[bytes]:
    lines = PINS.splitlines()
    line = st.tuples(st.sampled_from(lines), values).map(
        lambda pair: f"{pair[0].partition(' =')[0]} = {json.dumps(pair[1])}"
    )
    replaced = st.tuples(st.integers(0, len(lines) - 1), line).map(
        lambda pair: "\n".join((*lines[: pair[0]], pair[1], *lines[pair[0] + 1 :])).encode()
    )
    return st.one_of(
        replaced, replaced, scrambled(PINS.encode()), st.text(max_size=80).map(lambda t: t.encode("utf-8", "replace"))
    )


_STRATEGIES: dict[str, Callable[[], st.SearchStrategy[bytes]]] = {
    "header": _headers,
    "config": lambda: _documents("config"),
    "index": lambda: _documents("index"),
    "tokenizer": lambda: _documents("tokenizer"),
    "trace": _traces,
    "lint": _ports,
    "pins": _pins,
    "prompt": lambda: st.one_of(st.binary(max_size=200), texts.map(lambda text: text.encode("utf-8", "surrogatepass"))),
}


def files(name: str) -> st.SearchStrategy[File]:
    """Return hostile files for the subject ``name``."""
    return _STRATEGIES[name]().map(File)
