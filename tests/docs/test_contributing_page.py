"""The changes that docs/contributing.md tells newcomers to make, made in packages of their own."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

import treadle
from child_processes import finished, search_path

EVERY_FORMAT = "tests/formats/test_every_format.py"


def module_of(repository: Path, heading: str) -> str:
    """The module that a section of the page shows."""
    page = (repository / "docs" / "contributing.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[0]


def install(folder: Path, name: str, text: str, group: str, entry: str) -> None:
    """A package as an installer leaves it: one module, and what it says of itself."""
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    told = folder / f"{name}-1.dist-info"
    told.mkdir(exist_ok=True)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
    (told / "entry_points.txt").write_text(f"[{group}]\n{entry}\n", encoding="utf-8")


def run(folder: Path, repository: Path, *argv: str) -> tuple[int, str, str]:
    """A fresh interpreter, in the repository, where the package is installed."""
    path = os.pathsep.join([str(folder), search_path()])
    done = finished([sys.executable, *argv], environment={**os.environ, "PYTHONPATH": path}, cwd=repository)
    return done.returncode, done.stdout, done.stderr


def outcome_of(folder: Path, repository: Path, file: str, chosen: str) -> tuple[int, str]:
    """The tests of the repository that are chosen, and their last lines."""
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    status, shown, _ = run(folder, repository, "-m", "pytest", file, "-k", chosen, *options)
    return status, shown


def test_a_format_in_one_module(repository: Path, tmp_path: Path) -> None:
    text = module_of(repository, "A format in one module")
    entry = "send-list = send_list:FORMAT"
    install(tmp_path, "send_list", text, "treadle.formats", entry)
    status, shown = outcome_of(tmp_path, repository, EVERY_FORMAT, "send-list")
    assert status == 0, shown
    (passed,) = re.findall(r"(\d+) passed", shown)
    assert int(passed) >= 6
    # a judge that has seen nothing is found out by the same tests
    blind = text.replace("tuple(faults), ((", "(), ((")
    assert blind != text
    install(tmp_path, "send_list", blind, "treadle.formats", entry)
    status, shown = outcome_of(tmp_path, repository, EVERY_FORMAT, "left_out and send-list")
    assert status == 1, shown
    assert "1 failed" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise OSError('no such device')", "cannot be loaded (OSError: no such device)"),
        ("FORMAT = 3", "is no record of that name"),
    ],
)
def test_a_broken_plug_in_is_one_line(text: str, said: str, repository: Path, tmp_path: Path) -> None:
    install(tmp_path, "send_list", text, "treadle.formats", "send-list = send_list:FORMAT")
    command = "from treadle.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"
    golden = repository / "tests" / "golden"
    status, _, error = run(
        tmp_path, repository, "-c", command, "lower", str(golden / "ring_version1.plan"), "--to", "send-list"
    )
    assert status == 2
    assert said in error
    assert error.count("\n") == 1
    # and nobody else's affair
    status, shown, _ = run(
        tmp_path, repository, "-c", command, "verify", str(golden / "allreduce_ring3.cpu.xml")
    )
    assert status == 0
    assert "verified    yes" in shown


def test_a_platform_in_one_function(repository: Path, tmp_path: Path) -> None:
    text = module_of(repository, "A platform in one function")
    install(tmp_path, "quad", text, "treadle.platforms", "quad = quad:quad")
    files = (
        "tests/topologies/catalogue/test_every_platform.py",
        "tests/topologies/catalogue/test_catalogue_names.py",
    )
    for file, least in zip(files, (1, 2), strict=True):
        status, shown = outcome_of(tmp_path, repository, file, "quad")
        assert status == 0, shown
        assert int(re.findall(r"(\d+) passed", shown)[0]) >= least
    # one whose switches give out more than they take in is found out
    lame = text.replace("builder.duplex(switch, top, 4 * link_bandwidth)", "builder.link(switch, top, 4)")
    assert lame != text
    install(tmp_path, "quad", lame, "treadle.platforms", "quad = quad:quad")
    assert outcome_of(tmp_path, repository, files[0], "quad")[0] == 1


def test_a_tree_scheduler_in_one_file(repository: Path, tmp_path: Path) -> None:
    """A copy of the package with one file more: the command line and the universal tests have it."""
    text = module_of(repository, "A new tree scheduler in one file")
    shutil.copytree(Path(treadle.__file__).parent, tmp_path / "treadle")
    path = tmp_path / "treadle" / "synthesis" / "trees" / "baselines" / "chain.py"
    path.write_text(text, encoding="utf-8")
    solving = ("-m", "treadle", "solve", "ring:5", "allreduce", "--algorithm", "chain")
    status, shown, error = run(tmp_path, repository, *solving)
    assert (status, error) == (0, "")
    assert "verified" in shown
    for words in (("solve", "--help"), ("algorithms",), ("compare", "ring:5", "allgather")):
        assert "chain" in run(tmp_path, repository, "-m", "treadle", *words)[1]
    universal = "tests/property/test_schedulers.py"
    status, shown = outcome_of(tmp_path, repository, universal, "chain")
    assert status == 0, shown
    assert int(re.findall(r"(\d+) passed", shown)[0]) == 7  # five collectives, its options, its record
    # trees that lose their way are found out by the same tests
    lost = text.replace("ranks - np.sign", "ranks + np.sign")
    assert lost != text
    path.write_text(lost, encoding="utf-8")
    status, shown = outcome_of(tmp_path, repository, universal, "chain-allgather")
    assert status == 1, shown
