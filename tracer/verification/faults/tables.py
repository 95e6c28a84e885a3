"""Both tables as Markdown: which check catches which fault, and that the real code raises no alarm.

Must not know: how they come about.
"""

from collections.abc import Iterable

from tracer.texts import message
from tracer.verification.faults.grid import COLUMNS, Cell
from tracer.verification.faults.trial import Caught


def faults(found: Iterable[Caught], language: str) -> str:
    """Return the table of faults, and how many of them were caught."""
    rows, caught, total = [], 0, 0
    for one in found:
        total += 1
        caught += one.caught
        rows.append(row(one, language))
    head = message("verify.table_faults").text(language)
    tail = message("verify.table_faults_total", caught=caught, total=total).text(language)
    return "\n".join([head, *rows, "", tail]) + "\n"


def row(one: Caught, language: str) -> str:
    """Return the row of one fault: its name, what is wrong, the check that caught it, its place, what else failed."""
    by = f"`{one.fault.catches}`" if one.caught else message("verify.table_missed").text(language)
    place = "" if one.check is None or one.check.site is None else f"`{one.check.site.place}`"
    others = ", ".join(f"`{id}`" for id in one.others)
    return f"| `{one.fault.id}` | {one.fault.description.text(language)} | {by} | {place} | {others} |"


def grid(found: Iterable[Cell], language: str) -> str:
    """Return the grid: one row a shape and dtype, one column a situation, in each how many checks passed."""
    rows: dict[str, dict[str, str]] = {}
    passed = total = 0
    for cell in found:
        total += 1
        passed += cell.passed
        text = f"✓ {cell.tested}" if cell.passed else message("verify.table_false_alarm").text(language)
        rows.setdefault(f"{cell.shape.name} | {cell.dtype}", {})[cell.column] = text
    names = [message(f"verify.grid_{column}").text(language) for column in COLUMNS]
    head = f"| {message('verify.table_shape').text(language)} | dtype | {' | '.join(names)} |"
    lines = [head, "|---|---|" + "---|" * len(names)]
    for name, cells in rows.items():
        lines.append(f"| {name} | " + " | ".join(cells.get(column, "") for column in COLUMNS) + " |")
    tail = message("verify.table_grid_total", passed=passed, total=total).text(language)
    return "\n".join([*lines, "", tail]) + "\n"
