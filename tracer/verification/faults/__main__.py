"""``python -m tracer.verification.faults [en|zh]``: plant every fault, verify the real code on the grid, print both
tables as Markdown. Ends with 1 where a fault was missed or the real code raised an alarm.

Must not know: which faults there are.
"""

import argparse
import sys

from tracer.texts import DEFAULT_LANGUAGE, LANGUAGES, message
from tracer.verification.faults import tables
from tracer.verification.faults.catalogue import FAULTS
from tracer.verification.faults.grid import cells
from tracer.verification.faults.trial import run_fault


def main(arguments: list[str]) -> int:
    """Print both tables; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tracer.verification.faults", description=message("verify.faults_help").text()
    )
    parser.add_argument("language", nargs="?", choices=LANGUAGES, default=DEFAULT_LANGUAGE)
    language = parser.parse_args(arguments).language
    caught = [run_fault(fault) for fault in FAULTS]
    print(tables.faults(caught, language))
    found = list(cells())
    print(tables.grid(found, language), end="")
    return 0 if all(one.caught for one in caught) and all(cell.passed for cell in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
