"""Every planted fault is caught by the check that names it, at its place; without the fault nothing fails."""

import importlib.metadata
from functools import cache
from pathlib import Path

import pytest

from tracer.errors import Unsupported
from tracer.records import Status
from tracer.texts import LANGUAGES
from tracer.verification.catalogue import CHECKS
from tracer.verification.faults import kernels, tables
from tracer.verification.faults.catalogue import FAULTS
from tracer.verification.faults.grid import COLUMNS, DTYPES, SHAPES
from tracer.verification.faults.plant import change, planted
from tracer.verification.faults.records import Edit, Fault
from tracer.verification.faults.trial import Caught, run_fault, without

TOLD_OF = "5.24.0"  # whose lines the README's table has


@cache
def caught_of(fault_id: str) -> Caught:
    return run_fault(next(fault for fault in FAULTS if fault.id == fault_id))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_planted_fault_is_caught_by_the_check_that_names_it_at_its_place(fault: Fault) -> None:
    caught = caught_of(fault.id)
    assert caught.check is not None
    assert caught.check.status is Status.FAIL, caught.check.reason
    assert caught.at_place, caught.check.site
    for language in LANGUAGES:
        for said in (caught.check.claim, caught.check.measured, caught.check.expected, caught.check.reason):
            assert said.text(language)


README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_the_readme_says_of_each_fault_what_is_found(fault: Fault) -> None:
    """Its check, and with the version the README is for its place; which others fail too depends on the processor."""
    (told,) = [line for line in README.splitlines() if line.startswith(f"| `{fault.id}` |")]
    columns = 5 if importlib.metadata.version("transformers") == TOLD_OF else 4
    assert told.split("|")[:columns] == tables.row(caught_of(fault.id), "en").split("|")[:columns]


def test_the_readme_lists_the_faults_there_are_in_their_order_and_every_cell_of_the_grid() -> None:
    table = README.partition("<summary>All planted faults</summary>")[2].partition("</details>")[0]
    told = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert told == [fault.id for fault in FAULTS]
    assert f"{len(FAULTS)} of {len(FAULTS)} planted faults are caught" in " ".join(README.split())
    for shape in SHAPES:
        for dtype in DTYPES:
            (row,) = [line for line in README.splitlines() if line.startswith(f"| {shape.name} | {dtype} |")]
            assert row.count("✓") == len(COLUMNS)


def test_every_check_fails_on_some_fault() -> None:
    failing = {id for fault in FAULTS for caught in [caught_of(fault.id)] for id in (fault.catches, *caught.others)}
    # where the attention function cannot be seen, and where code raises: test_live_models has a fault for each
    assert set(CHECKS) - failing == {"runs", "weights.reference"}


def test_there_are_at_least_thirty_faults_each_told_in_every_language() -> None:
    assert len(FAULTS) >= 30
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)
    assert all(fault.description.text(language) for fault in FAULTS for language in LANGUAGES)
    used = {fault.kernel_change for fault in FAULTS} - {None}
    assert used == set(kernels.CHANGES)


SITUATIONS = {
    repr((fault.scenario, fault.kernel, fault.dtype, sorted(fault.config))): without(fault) for fault in FAULTS
}


@pytest.mark.parametrize("fault", SITUATIONS.values(), ids=SITUATIONS)
def test_without_the_fault_no_check_fails_in_the_same_situation(fault: Fault) -> None:
    healthy = run_fault(fault)
    assert healthy.others == ()
    assert healthy.check is not None
    assert healthy.check.status is not Status.FAIL


def test_a_fault_leaves_with_its_with() -> None:
    from transformers.models.qwen3 import modeling_qwen3 as model

    fault = next(fault for fault in FAULTS if fault.id == "rope_missing_k")
    before = model.apply_rotary_pos_emb.__code__
    with planted(fault):
        assert model.apply_rotary_pos_emb.__code__ is not before
    assert model.apply_rotary_pos_emb.__code__ is before


def test_an_edit_that_matches_nothing_is_an_error_and_no_silent_pass() -> None:
    nowhere = Fault(
        "scale_hidden", "scale.static", (Edit("model", "Qwen3Attention.__init__", "self.nothing = HERE", "1"),)
    )
    with pytest.raises(Unsupported) as error:
        change(nowhere)
    assert error.value.id == "source.anchor_none"


def test_the_changed_source_is_known_as_changed_and_has_no_link_upstream() -> None:
    fault = next(fault for fault in FAULTS if fault.id == "scale_doubled")
    check = caught_of(fault.id).check
    assert check is not None
    assert check.site is not None
    assert not check.site.pinned
    assert check.site.code == "2 * (self.head_dim**-0.5)"


def test_the_table_of_faults_names_check_and_place() -> None:
    fault = next(fault for fault in FAULTS if fault.id == "q_norm_skipped")
    text = tables.faults([caught_of(fault.id)], "en")
    assert "| `q_norm_skipped` | q_norm is left out | `norm.present` | `modeling_qwen3.py:" in text
    assert "1 of 1 planted faults are caught" in text
    assert "漏掉了 q_norm" in tables.faults([caught_of(fault.id)], "zh")


def test_the_command_explains_itself_instead_of_running(capsys: pytest.CaptureFixture[str]) -> None:
    from tracer.verification.faults.__main__ import main

    for arguments, code in (["--help"], 0), (["fr"], 2), (["en", "zh"], 2):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == code
    shown = capsys.readouterr()
    assert "Markdown" in shown.out
    assert "'en', 'zh'" in shown.err
