"""What counts in CI: findings that the parent commit does not have."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tools.fuzz.compare import Verdict, judge_findings, verdict_of
from tools.fuzz.finding import Finding, Kind
from tools.fuzz.parent import NoParentError, parent_package
from tools.fuzz.repeat import Repeater, Repetition, WorkerError, repeat

import treadle

CASE = {"base": "workload", "text": '[[collectives]]\nkind = "allreduce"\nsize = "64MB"\n'}
FINDING = Finding("readers", Kind.CRASH, "ZeroDivisionError in workload.parse_workload", "", CASE)


def shows(kind: Kind | None) -> Repeater:
    """A repetition with this outcome."""

    def again(finding: Finding, state: Path) -> Repetition:
        found = None if kind is None else Finding(finding.target, kind, "elsewhere", "", finding.case)
        return Repetition(found, "package")

    return again


def fails(finding: Finding, state: Path) -> Repetition:
    raise WorkerError("ImportError")


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [
        (shows(Kind.CRASH), [], Verdict.NEW),
        (shows(Kind.CRASH), [shows(None)], Verdict.NEW),
        (shows(Kind.CRASH), [shows(Kind.REFUSED)], Verdict.NEW),
        (shows(Kind.CRASH), [fails], Verdict.NEW),
        (shows(Kind.CRASH), [shows(Kind.CRASH)], Verdict.OLDER),
        (shows(Kind.CRASH), [fails, shows(Kind.CRASH)], Verdict.OLDER),
        (shows(None), [shows(Kind.CRASH)], Verdict.UNSTEADY),
        (fails, [], Verdict.UNSTEADY),
    ],
)
def test_verdicts(here: Repeater, there: list[Repeater], verdict: Verdict, tmp_path: Path) -> None:
    assert verdict_of(FINDING, tmp_path, here, there) is verdict


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder), *words],
        check=True,
        capture_output=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
    )


@pytest.fixture
def history(tmp_path: Path) -> Callable[..., Path]:
    """Makes a repository with commits, each a mapping of files to their content."""

    def made(*commits: dict[str, str]) -> Path:
        folder = tmp_path / "repository"
        folder.mkdir()
        git(folder, "init", "--quiet")
        for number, files in enumerate(commits):
            for name, content in files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
            git(folder, "add", "--all")
            git(folder, "commit", "--quiet", "--allow-empty", "-m", str(number))
        return folder

    return made


CORE, MODULE = "src/core/a.cpp", "src/treadle/a.py"


def test_a_parent_with_the_same_core_is_not_built(history: Callable[..., Path], tmp_path: Path) -> None:
    repository = history({CORE: "1", MODULE: "old"}, {MODULE: "new"})
    package = parent_package(repository, tmp_path / "state", build=lambda tree, built: pytest.fail("built"))
    assert (package / "treadle/a.py").read_text() == "old"
    assert list((package / "treadle").glob("_core*.so"))
    assert parent_package(repository, tmp_path / "state") == package


def test_a_parent_with_another_core_is_built(history: Callable[..., Path], tmp_path: Path) -> None:
    repository = history({CORE: "1", MODULE: "old"}, {CORE: "2"})

    def build(tree: Path, built: Path) -> None:
        assert (tree / CORE).read_text() == "1"
        built.mkdir()

    package = parent_package(repository, tmp_path / "state", build=build)
    assert package == tmp_path / "state/parent-built"


def test_changes_of_the_core_that_are_not_committed_count(
    history: Callable[..., Path], tmp_path: Path
) -> None:
    repository = history({CORE: "1"}, {MODULE: "new"})
    (repository / CORE).write_text("2")
    built: list[Path] = []
    parent_package(repository, tmp_path / "state", build=lambda tree, folder: built.append(folder))
    assert built


@pytest.mark.parametrize("n_commits", [0, 1])
def test_without_history_there_is_no_parent_and_everything_is_new(
    n_commits: int, history: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = history(*[{MODULE: "x"}] * n_commits)
    with pytest.raises(NoParentError):
        parent_package(repository, tmp_path / "state")
    found = judge_findings(
        [FINDING], tmp_path, with_parent=True, here=shows(Kind.CRASH), repository=repository
    )
    assert list(found) == [(FINDING, Verdict.NEW)]
    assert "no parent to compare with" in capsys.readouterr().out


def package_with(fault: str, folder: Path) -> dict[str, str]:
    """The files of this package, with a fault planted in the reader of workloads."""
    root = Path(treadle.__file__).parent
    files = {}
    for path in root.rglob("*"):
        if path.suffix in (".py", ".json", ".csv", ".toml", ".txt", ".c", ".h"):
            files[f"src/treadle/{path.relative_to(root)}"] = path.read_text(encoding="utf-8")
    name = "src/treadle/finder/workload.py"
    start = 'def parse_workload(text: str, *, default_name: str = "workload") -> Workload:\n'
    assert start in files[name]
    files[name] = files[name].replace(start, start + fault)
    return files


def test_a_planted_fault_from_commit_to_verdict(history: Callable[..., Path], tmp_path: Path) -> None:
    """One that the parent commit has too, and in that commit itself, whose parent has none."""
    fault = "    1 // 0\n"
    repository = history(package_with("", tmp_path), package_with(fault, tmp_path), {})
    for core in Path(treadle.__file__).parent.glob("_core*.so"):
        shutil.copy2(core, repository / "src/treadle")
    here = partial(repeat, source=repository / "src")
    seen = here(FINDING, tmp_path / "state")
    assert seen.package.startswith(str(repository))
    assert seen.found is not None
    assert seen.found.signature == FINDING.signature
    for verdict in (Verdict.OLDER, Verdict.NEW):
        state = tmp_path / verdict.value
        found = judge_findings([FINDING], state, with_parent=True, here=here, repository=repository)
        assert list(found) == [(FINDING, verdict)]
        git(repository, "reset", "--soft", "HEAD~1")
