"""The changes that docs/contributing.md tells newcomers to make, made in packages of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import treadle
from child_processes import finished, search_path
from places import ROOT

COMMANDS = """
import contextlib, io, json, sys
from treadle.cli.main import main

for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(words)
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""
"""Commands one after another, and what became of each."""


EXAMPLES = ROOT / "examples" / "plug_ins"


def install(folder: Path, name: str, text: str, group: str, entry: str) -> None:
    """A package as an installer leaves it: one module, and what it says of itself."""
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    told = folder / f"{name}-1.dist-info"
    told.mkdir(exist_ok=True)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
    (told / "entry_points.txt").write_text(f"[{group}]\n{entry}\n", encoding="utf-8")


def run(folder: Path, repository: Path, *argv: str) -> tuple[int, str]:
    """A fresh interpreter, in the repository, where the package is installed."""
    path = os.pathsep.join([str(folder), search_path()])
    done = finished([sys.executable, *argv], environment={**os.environ, "PYTHONPATH": path}, cwd=repository)
    assert done.stderr == ""
    return done.returncode, done.stdout


def outcomes(folder: Path, repository: Path, *commands: str) -> list[tuple[int, str, str]]:
    """Exit status, output and errors of commands, in one interpreter."""
    told = json.dumps([command.split() for command in commands])
    status, shown = run(folder, repository, "-c", COMMANDS, told)
    assert status == 0
    return [tuple(json.loads(line)) for line in shown.splitlines()]


def outcome_of(folder: Path, repository: Path, files: str, chosen: str) -> tuple[int, set[str]]:
    """How many of the repository's tests that are chosen passed, and which failed."""
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    _, shown = run(folder, repository, "-m", "pytest", *files.split(), "-k", chosen, *options)
    return int(re.findall(r"(\d+) passed", shown)[0]), set(re.findall(r"^FAILED .*::(\S+)", shown, re.M))


def changed(text: str, part: str, other: str) -> str:
    assert part in text
    return text.replace(part, other)


def test_a_format_in_one_module(repository: Path, tmp_path: Path) -> None:
    text = (EXAMPLES / "send_list.py").read_text(encoding="utf-8")
    install(tmp_path, "send_list", text, "treadle.formats", "send-list = send_list:FORMAT")
    # a judge that has seen nothing is found out by the same tests
    blind = changed(changed(text, "tuple(faults), ((", "(), (("), '"send-list"', '"blind"')
    blind = changed(changed(blind, 'begins="sends ', 'begins="blind '), '"sends', '"blind')
    install(tmp_path, "blind", blind, "treadle.formats", "blind = blind:FORMAT")
    passed, failed = outcome_of(
        tmp_path, repository, "tests/formats/test_every_format.py", "send-list or (left_out and blind)"
    )
    assert passed >= 6
    assert failed == {"test_what_is_left_out_is_seen[blind]"}


def test_a_broken_plug_in_is_one_line(repository: Path, tmp_path: Path) -> None:
    broken = {
        "send_list": ("raise OSError('no such device')", "cannot be loaded (OSError: no such device)"),
        "three": ("FORMAT = 3", "is not a record of that name"),
    }
    for name, (text, _) in broken.items():
        install(tmp_path, name, text, "treadle.formats", f"{name} = {name}:FORMAT")
    *lowered, verified = outcomes(
        tmp_path,
        repository,
        *(f"lower tests/golden/ring_version1.plan --to {name}" for name in broken),
        "verify tests/golden/allreduce_ring3.cpu.xml",  # none of their affair
    )
    for (status, _, error), (_, said) in zip(lowered, broken.values(), strict=True):
        assert status == 2
        assert said in error
        assert error.count("\n") == 1
    assert verified[0] == 0
    assert "verified     yes" in verified[1]


def test_a_platform_in_one_function(repository: Path, tmp_path: Path) -> None:
    text = (EXAMPLES / "quad.py").read_text(encoding="utf-8")
    install(tmp_path, "quad", text, "treadle.platforms", "quad = quad:quad")
    # one whose switches give out more than they take in is found out
    lame = changed(text, "builder.duplex(switch, top, 4 * link_bandwidth)", "builder.link(switch, top, 4)")
    install(tmp_path, "lame", changed(lame, "quad(", "lame("), "treadle.platforms", "lame = lame:lame")
    rooms = "tests/topologies/catalogue"
    files = f"{rooms}/test_every_platform.py {rooms}/test_catalogue_names.py"
    passed, failed = outcome_of(tmp_path, repository, files, "quad or (says_its_source and lame)")
    assert passed >= 3
    assert failed == {"test_a_platform_says_its_source_and_has_samples[lame]"}


def test_a_tree_scheduler_and_its_record(repository: Path, tmp_path: Path) -> None:
    """A copy of the package with one file and one record more: commands and the universal tests have it."""
    text = (EXAMPLES / "chain.py").read_text(encoding="utf-8")
    page = (repository / "docs" / "contributing.md").read_text(encoding="utf-8")
    (record,) = re.findall(r"^  ```python\n  (.*?)^  ```$", page, re.MULTILINE | re.DOTALL)
    shutil.copytree(Path(treadle.__file__).parent, tmp_path / "treadle")
    baselines = tmp_path / "treadle" / "synthesis" / "trees" / "baselines"
    (baselines / "chain.py").write_text(text, encoding="utf-8")
    # trees that lose their way are found out by the same tests
    lost = changed(changed(text, "ranks - np.sign", "ranks + np.sign"), "def chain", "def lost")
    (baselines / "lost.py").write_text(lost, encoding="utf-8")
    table = tmp_path / "treadle" / "schedulers" / "scheduler_records.py"
    records = f"OWN = (\n{record},{record.replace('chain', 'lost')},"
    table.write_text(changed(table.read_text("utf-8"), "OWN = (\n", records), encoding="utf-8")
    solved, *others = outcomes(
        tmp_path,
        repository,
        "solve ring:5 allreduce --algorithm chain",
        "solve --help",
        "algorithms",
        "compare ring:5 allgather --algorithms chain,ring",
    )
    assert (solved[0], solved[2]) == (0, "")
    assert "verified" in solved[1]
    assert all("chain" in shown for _, shown, _ in others)
    passed, failed = outcome_of(
        tmp_path, repository, "tests/property/test_schedulers.py", "chain or lost-allgather"
    )
    assert passed == 7  # five collectives, its options, its record
    assert failed == {"test_schedules_are_verified_bounded_and_run[lost-allgather]"}
