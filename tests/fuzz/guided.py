"""Search for hostile files by what the parsers do with them: ``python -m tests.fuzz.guided SUBJECT [OPTION…]``.

atheris (libFuzzer) changes the inputs that reach new code, for as long as it is told: ``-runs=100000`` or
``-max_total_time=600``. What reaches something new is kept in the folder that is given, by default a temporary one. An
input that breaks a rule is written to ``crash-…`` in the working folder. Those, and a few of the others, lie in
``tests/fuzz/corpus``, which each run begins with and pytest reads:

    python -m tests.fuzz.guided header /tmp/found -runs=200000

atheris has wheels for CPython 3.11 and later on Linux. It is not among the packages that the tests need: ``pip install
atheris``.
"""

import json
import random
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"
LIMITS = ("-timeout=10", "-rss_limit_mb=2560", "-max_len=40000", "-verbosity=0", "-print_final_stats=1")


def change_document(data: bytes, change: Callable[[Any], Any]) -> bytes | None:
    """Return ``data`` with its JSON changed: the whole of it, or the header of a safetensors file and in half of the
    cases the description of a trace in there; None where there is no JSON to change."""
    try:
        if data[:1] == b"{":
            return json.dumps(change(json.loads(data))).encode()
        length = struct.unpack("<Q", data[:8])[0]
        header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
        text = header["__metadata__"].get("trace")
        if text is not None and len(data) % 2:
            header["__metadata__"]["trace"] = json.dumps(change(json.loads(text)))
        else:
            header = change(header)
        made = json.dumps(header).encode()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, struct.error):
        return None
    return struct.pack("<Q", len(made)) + made + rest


def main() -> None:
    """Run libFuzzer on one subject."""
    import atheris

    with atheris.instrument_imports(include=["tracer"]):  # all that imports tracer, or its code would go unseen
        from tests.checkpoint.test_hostile_checkpoints import mutated
        from tests.fuzz.subjects import SUBJECTS, judge
    from tests.fuzz.watch import unchanging

    if len(sys.argv) < 2 or sys.argv[1] not in SUBJECTS:
        sys.exit(f"python -m tests.fuzz.guided {'|'.join(SUBJECTS)} [FOLDER…] [-runs=N] [-max_total_time=SECONDS]")
    name, options = sys.argv[1], sys.argv[2:]
    work = Path(tempfile.mkdtemp(prefix="tracer-fuzz-"))
    subject = SUBJECTS[name]
    subject.prepare(work / "files")
    seeds = work / "seeds"
    seeds.mkdir()
    (seeds / "seed").write_bytes(subject.seed())
    folders = [] if any(not option.startswith("-") for option in options) else [str(work / "found")]
    for folder in folders:
        Path(folder).mkdir()
    known = [str(seeds), str(CORPUS / name)]

    def one(data: bytes) -> None:
        judge(subject, data, work / "files", unchanging)

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        """Bytes as libFuzzer changes them, and every other time the structure: else hardly a change were still JSON."""
        dice = random.Random(seed)
        changed = change_document(data, lambda value: mutated(value, dice)) if dice.random() < 0.5 else None
        return changed if changed is not None and len(changed) <= longest else atheris.Mutate(data, longest)

    atheris.Setup([sys.argv[0], *LIMITS, *options, *folders, *known], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
