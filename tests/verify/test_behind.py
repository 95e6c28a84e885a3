"""What is judged behind the model's back: in order, one piece at a time, and what goes wrong there comes to light."""

import sys
import threading
from typing import Any

import pytest

from tests.verify.conftest import IDS, live_model
from tracer.verification import catalogue
from tracer.verification.behind import Behind
from tracer.verification.case import Case
from tracer.verification.entry import verify_model


def tracers_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tracer")]


class TestBehind:
    def test_results_come_in_order_on_the_callers_thread(self) -> None:
        taken: list[tuple[int, int, int]] = []
        here = threading.get_ident()

        def work(number: int) -> tuple[int, int]:
            return number, threading.get_ident()

        with Behind() as behind:
            for number in range(5):
                behind.begin(
                    lambda number=number: work(number), lambda made: taken.append((*made, threading.get_ident()))
                )
                assert len(taken) == number  # the one before is finished first
            behind.finish()
        assert [number for number, _, _ in taken] == list(range(5))
        assert all(there != here for _, there, _ in taken)
        assert {back for _, _, back in taken} == {here}

    def test_the_caller_goes_on_meanwhile(self) -> None:
        went_on = threading.Event()
        with Behind() as behind:
            behind.begin(lambda: went_on.wait(60), lambda waited: None if waited else pytest.fail("the caller waited"))
            went_on.set()
            behind.finish()

    def test_finishing_nothing_does_nothing(self) -> None:
        with Behind() as behind:
            behind.finish()

    def test_what_goes_wrong_is_raised_where_it_is_finished_and_nothing_is_taken(self) -> None:
        def fail() -> None:
            raise ValueError("in the work")

        taken: list[Any] = []
        with Behind() as behind:
            behind.begin(fail, taken.append)
            with pytest.raises(ValueError, match="in the work"):
                behind.finish()
            behind.finish()
        assert not taken

    def test_no_thread_is_left_also_where_the_caller_fails(self) -> None:
        with pytest.raises(KeyError), Behind() as behind:
            behind.begin(lambda: None, lambda _: None)
            raise KeyError
        assert not tracers_threads()

    def test_threads_take_shorter_turns_only_meanwhile(self) -> None:
        before = sys.getswitchinterval()
        with pytest.raises(KeyError), Behind():
            assert sys.getswitchinterval() < 0.001
            raise KeyError
        assert sys.getswitchinterval() == before


class TestVerification:
    def test_a_fault_in_a_judge_reaches_the_caller(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(case: Case) -> list[Any]:
            raise RuntimeError(f"layer {case.layer}")

        monkeypatch.setattr(catalogue, "EVERYWHERE", (broken,))
        with pytest.raises(RuntimeError, match="layer 0"):
            verify_model(live_model(), tokens=IDS)
        assert not tracers_threads()

    def test_progress_is_told_on_the_callers_thread(self) -> None:
        threads = set()
        verify_model(live_model(), tokens=IDS, progress=lambda done, total: threads.add(threading.get_ident()))
        assert threads == {threading.get_ident()}
        assert not tracers_threads()
