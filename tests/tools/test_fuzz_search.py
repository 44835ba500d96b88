"""The search itself: it finds what is planted, makes it small, and draws the same from the same seed."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tools.fuzz import worker
from tools.fuzz.__main__ import TARGET_NAMES
from tools.fuzz.finding import Case, Finding, Kind, UnservedError, WrongAnswerError, plain, require
from tools.fuzz.judge import judge
from tools.fuzz.supervisor import Search, Watched, WorkerError
from tools.fuzz.targets import TARGETS, Target
from tools.fuzz.worker import explore, seed_of_round

from treadle.errors import FormatError


def planted(case: Case) -> None:
    """Wrong for large sums, a crash at the number 13, refused at odd lengths of more than three."""
    if 13 in case:
        raise KeyError(13)
    if len(case) > 3 and len(case) % 2:
        raise FormatError(f"{len(case)} numbers")
    require(sum(case) < 100, "a large sum", sum(case))


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target("planted", st.lists(st.integers(0, 60), max_size=8), planted, 200)
    monkeypatch.setitem(TARGETS, "planted", made)
    return made


def explored(target: Target, seed: int, known: set[tuple[str, str, str]] = frozenset()) -> tuple[list, list]:
    """All cases and all findings of a round."""
    cases: list[Any] = []
    findings: list[Finding] = []
    n = explore(target, seed=seed, known=known, begin=cases.append, note=findings.append)
    assert n == len(cases)
    return cases, findings


def test_a_planted_fault_is_found_and_made_small(target: Target) -> None:
    _, findings = explored(target, 5)
    last = findings[-1]
    smallest = {Kind.CRASH: 1, Kind.REFUSED: 5, Kind.WRONG: 2}
    assert len(last.case) == smallest[last.kind]
    assert last.signature == findings[0].signature


def test_all_planted_faults_are_found_when_known_ones_are_passed_over(target: Target) -> None:
    known: set[tuple[str, str, str]] = set()
    for number in range(6):
        _, findings = explored(target, seed_of_round("any", number), known)
        assert not known & {found.signature for found in findings}
        known |= {found.signature for found in findings}
    assert known == {
        ("planted", "crash", "KeyError in test_fuzz_search.planted"),
        ("planted", "refused", "# numbers"),
        ("planted", "wrong", "a large sum"),
    }


def test_a_seed_draws_the_same_cases_and_another_one_others(target: Target) -> None:
    assert explored(target, 7) == explored(target, 7)
    assert explored(target, 7)[0] != explored(target, 8)[0]
    assert seed_of_round("a", 1) != seed_of_round("a", 2)
    assert seed_of_round("a", 1) == seed_of_round("a", 1)


def test_shrinking_ends_in_time(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SHRINKING_S", 0.0)
    _, findings = explored(target, 5)
    assert len(findings) <= 2


def test_rightly_refused_cases_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(case: Case) -> None:
        raise UnservedError

    monkeypatch.setitem(TARGETS, "planted", Target("planted", st.none(), check, 1))
    assert judge("planted", None) is None


def test_warnings_and_lack_of_memory_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(case: Case) -> None:
        if case:
            raise MemoryError
        import warnings

        warnings.warn("division by zero", RuntimeWarning, stacklevel=1)

    monkeypatch.setitem(TARGETS, "planted", Target("planted", st.booleans(), check, 1))
    warned, short = judge("planted", False), judge("planted", True)
    assert warned is not None
    assert warned.kind is Kind.CRASH
    assert short is not None
    assert short.kind is Kind.MEMORY


def test_places_do_not_depend_on_names_and_numbers() -> None:
    one = plain("rank 3 gets -1.38e-16 of 'gpu0' ... expected 0\n")
    assert one == plain("rank 12 gets 7 of 'x y' ... expected 55")
    assert one != plain("rank 3 sends -1.38e-16 of 'gpu0' ... expected 0")


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_targets_draw_json_and_judge_it(name: str) -> None:
    target, seen = TARGETS[name], []
    assert target.name == name

    @settings(max_examples=4, phases=[Phase.generate], suppress_health_check=list(HealthCheck), deadline=None)
    @given(target.cases)
    def check(case: Case) -> None:
        seen.append(case)
        assert json.loads(json.dumps(case)) == case

    check()
    found = judge(name, seen[0])
    assert found is None or found.target == name
    assert len(seen) >= 4


def test_target_names_are_all() -> None:
    assert tuple(TARGETS) == TARGET_NAMES


def watched(script: str, folder: Path, **limits: Any) -> Watched:
    """A process that begins a case as workers do and then goes on as told."""
    begun = f"""
        import json, os, pathlib, time
        folder = pathlib.Path({str(folder)!r})
        (folder / "notes.jsonl").write_text(json.dumps({{"package": "x"}}) + "\\n")
        (folder / "draft").write_text(json.dumps({{"cpu_s": 0.0, "target": "t", "case": [1]}}))
        (folder / "draft").rename(folder / "current.json")
    """
    return Watched([sys.executable, "-c", textwrap.dedent(begun) + textwrap.dedent(script)], folder, **limits)


def trouble_of(worker: Watched) -> Finding | None:
    """What is found about a process, at the latest when it has ended."""
    try:
        for _ in range(1200):
            ended = worker.process.poll() is not None
            found = worker.trouble()
            if found is not None or ended:
                return found
            time.sleep(0.05)
        raise AssertionError("neither trouble nor an end")
    finally:
        worker.end()


def test_cases_that_end_the_process_are_found(tmp_path: Path) -> None:
    found = trouble_of(watched("os.abort()", tmp_path / "job"))
    assert found is not None
    assert (found.kind, found.place, found.case) == (Kind.DIED, "signal SIGABRT", [1])
    found = trouble_of(watched("os._exit(7)", tmp_path / "job"))
    assert found is not None
    assert found.place == "exit status 7"


def test_cases_that_hang_are_ended(tmp_path: Path) -> None:
    found = trouble_of(watched("while True: pass", tmp_path / "job", cpu_s=1.0))
    assert found is not None
    assert found.kind is Kind.HANG
    found = trouble_of(watched("time.sleep(1000)", tmp_path / "job", wall_s=1.0))
    assert found is not None
    assert found.kind is Kind.HANG


@pytest.mark.parametrize(("megabytes", "kind"), [(1, None), (96, Kind.MEMORY)])
def test_what_the_process_held_before_is_not_the_cases(
    megabytes: int, kind: Kind | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(*_: object) -> None:
        assert len(bytearray(b"x") * (megabytes * 2**20)) > 0  # written, and so resident

    monkeypatch.setattr("tools.fuzz.judge.MEMORY_BYTES", 64 * 2**20)
    monkeypatch.setattr("tools.fuzz.judge._judged", take)
    held = bytearray(b"x") * (128 * 2**20)
    found = judge("plan-files", {})
    assert (None if found is None else found.kind) is kind
    assert len(held) == 128 * 2**20


def test_cases_that_take_memory_are_ended(tmp_path: Path) -> None:
    script = "held = bytearray(b'1') * (400 * 2**20); time.sleep(1000)"
    found = trouble_of(watched(script, tmp_path / "job", memory_bytes=200 * 2**20))
    assert found is not None
    assert found.kind is Kind.MEMORY


def test_a_process_that_is_through_is_no_trouble(tmp_path: Path) -> None:
    worker = watched("pass", tmp_path / "job")
    assert trouble_of(worker) is None
    assert worker.notes() == [{"package": "x"}]
    assert worker.notes() == []


def test_a_process_that_does_not_begin_is_no_finding(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="no_such_module"):
        trouble_of(Watched([sys.executable, "-c", "import no_such_module"], tmp_path / "job"))


def test_the_smallest_case_of_a_fault_is_kept() -> None:
    done = Search()
    for case in ([1, 2, 3], [1], [1, 2]):
        done.add(Finding("t", Kind.WRONG, "p", str(case), case))
    assert [found.case for found in done.findings.values()] == [[1]]


def test_wrong_answers_tell_their_place() -> None:
    with pytest.raises(WrongAnswerError, match="two bounds: 3"):
        require(False, "two bounds", 3)
    require(True, "two bounds")
