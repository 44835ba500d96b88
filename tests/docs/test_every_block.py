"""Every block of the README and the documentation runs, here or in a test of its page, or says why not."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools.size import tracked

from engines import missing_engines
from places import ROOT
from treadle import parse
from treadle.cli.main import main
from treadle.options.verbs import VERBS
from treadle.planning import as_cost_model

ELSEWHERE: dict[tuple[str, str], tuple[str, int | None]] = {
    ("README.md", ""): ("tests/docs/test_readme.py", 2),
    ("README.md", "python"): ("tests/docs/test_readme.py", 1),
    ("docs/how-to/run.md", "python"): ("tests/docs/test_run_page.py", 1),
    ("docs/reference/formats.md", ""): ("tests/docs/test_formats_page.py", 2),
    ("docs/how-to/capture.md", ""): ("tests/docs/test_capture_page.py", 2),
    ("docs/how-to/capture.md", "python"): ("tests/docs/test_capture_page.py", 3),
    ("README.md", "text"): ("tests/docs/test_readme.py", 1),
    ("docs/how-to/capture.md", "text"): ("tests/docs/test_capture_page.py", 1),
    ("docs/how-to/capture.md", "toml"): ("tests/docs/test_capture_page.py", 1),
    ("docs/how-to/compare.md", ""): ("tests/docs/test_compare_page.py", 3),
    ("docs/how-to/failures.md", ""): ("tests/docs/test_failures_page.py", 4),
    ("docs/how-to/failures.md", "text"): ("tests/docs/test_failures_page.py", 2),
    ("docs/how-to/jobs.md", ""): ("tests/docs/test_jobs_page.py", 1),
    ("docs/how-to/jobs.md", "toml"): ("tests/docs/test_jobs_page.py", 1),
    ("docs/how-to/jobs.md", "text"): ("tests/docs/test_jobs_page.py", 1),
    ("docs/how-to/jobs.md", "python"): ("tests/docs/test_jobs_page.py", 1),
    ("docs/how-to/diagnose.md", ""): ("tests/docs/test_diagnose_page.py", 1),
    ("docs/how-to/diagnose.md", "text"): ("tests/docs/test_diagnose_page.py", 2),
    ("docs/how-to/groups.md", "text"): ("tests/docs/test_groups_page.py", 4),
    ("docs/how-to/import.md", "text"): ("tests/docs/test_import_page.py", 2),
    ("docs/how-to/import.md", "sh"): ("tests/docs/test_import_page.py", 4),
    ("docs/how-to/import.md", "output"): ("tests/docs/test_import_page.py", 3),
    ("docs/how-to/import.md", "python"): ("tests/docs/test_import_page.py", 1),
    ("docs/reference/training-models.md", "csv"): ("tests/docs/test_training_models_page.py", 1),
    ("docs/reference/training-models.md", "python"): ("tests/docs/test_training_models_page.py", 1),
    ("docs/reference/training-models.md", "toml"): ("tests/docs/test_training_models_page.py", 1),
    ("docs/how-to/python.md", "python"): ("tests/docs/test_python_page.py", None),
    ("docs/how-to/plug-ins.md", ""): ("tests/docs/test_plug_ins_page.py", 1),
    ("docs/how-to/plug-ins.md", "python"): ("tests/docs/test_plug_ins_page.py", 2),
    ("docs/how-to/plug-ins.md", "toml"): ("tests/docs/test_plug_ins_page.py", 1),
}
"""Page and language of blocks that a test of that page runs, and how many it does; None: all."""

NOT_RUN: dict[tuple[str, str], str] = {
    ("ARCHITECTURE.md", "        readers, catalogue"): "a drawing",
    ("docs/proofs/decomposition.md", "outer forest"): "a drawing",
    ("docs/how-to/alltoall.md", "python examples/fft3d.py"): "tests/docs/test_examples.py",
    ("docs/how-to/alltoall.md", "python examples/moe_alltoall.py"): "tests/docs/test_moe_example.py",
    ("docs/reference/graphs.md", "Nodes:"): "tests/parallelism/capture/test_joint.py",
    ("docs/how-to/run.md", "mpirun "): "tests/docs/test_run_page.py",
    ("docs/how-to/calibration.md", "all_reduce_perf"): "nccl-tests, which need GPUs",
    ("docs/how-to/calibration.md", "treadle testbed"): "as on the page of the testbed",
    (
        "docs/how-to/calibration.md",
        "treadle calibrate ring.txt",
    ): "of a machine's; tests/planning/measuring/test_cost_fit.py",
    ("docs/how-to/calibration.md", "treadle simulate forest.plan"): "as above",
    ("docs/how-to/cluster.md", "from joblib"): "tests/planning/test_workers.py: processes of joblib's",
    (
        "docs/how-to/cluster.md",
        "from treadle.workers",
    ): "tests/planning/test_workers.py: a cluster of dask's",
    ("docs/how-to/cluster.md", "dask "): "tests/planning/test_workers.py: a cluster of dask's",
    ("docs/how-to/cluster.md", "treadle compare generalized_kautz:4,12 alltoall --cluster"): "as above",
    (
        "docs/how-to/parallelize.md",
        "treadle parallelize gpt2 --fabric dgx_h100:1 --gpu h100 --mesh 8 --tokens 64K --memory 100MB",
    ): "it exits with 3, as the page says; tests/cli/parallelising run the same on a smaller model",
    (
        "docs/reference/runtimes.md",
        "treadle run ring.plan --runtime mpi-c",
    ): "64 MB; run.md has 16 KB",
    ("docs/reference/device.md", "treadle run h100.plan --runtime device-gpu"): "a GPU; tests/runtime/device",
    ("docs/how-to/testbed.md", "treadle testbed 'hypercube(3)'"): "a minute; that of run.md runs",
    ("docs/how-to/testbed.md", "treadle testbed 'circulant"): "minutes; that of run.md runs",
    ("docs/how-to/testbed.md", "treadle testbed 'ring(8)' --delay"): "minutes; tests/testbed runs one",
    ("docs/how-to/testbed.md", "treadle testbed --plan my.plan"): "a plan of the reader's",
    ("docs/how-to/testbed.md", "treadle calibrate sweep.json"): "of a sweep that is not made here",
    ("docs/how-to/torch.md", "import torch.distributed"): "in each of several processes: run.md's runs",
    ("docs/how-to/torch.md", "import torch\nimport treadle.torch"): "in each of several processes",
    ("docs/how-to/torch.md", "import logging"): "sets up logging of the whole process",
    ("docs/how-to/torch.md", "INFO:treadle.torch"): "what a program like run.md's logs",
    (
        "docs/how-to/torch.md",
        "DistBackendError: treadle",
    ): "tests/runtime/torch/test_torch_agreement.py raises it",
}
"""Page and beginning of a block, or of a line of it, that cannot run here; and why."""

BEFORE = {"docs/how-to/calibration.md": ("treadle solve 'ring(8)' allreduce -o ring.plan",)}
"""What a page takes for granted."""
FILES = {
    ("docs/how-to/architect.md", 'source = "quote of March"'): "prices.toml",
    ("docs/how-to/architect.md", "[floor]"): "floor.toml",
    ("docs/how-to/design.md", "toml"): "job.toml",
    ("docs/reference/workloads.md", "toml"): "job.toml",
    ("docs/reference/command-line.md", "toml"): "treadle.toml",
}
"""Names under which blocks are files for the commands of their page, by language or first line."""
ENGINES = {"mpi-c": "MPI", "--max-steps": "CP-SAT", "exact": "CP-SAT", "--plan": "testbed"}
"""Words of commands that need an engine."""


@dataclass(frozen=True)
class Block:
    """A block between fences: its page, what stands behind the fence, and its lines."""

    page: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text[:40]!r}"


def pages() -> list[str]:
    """The repository's own pages of text."""
    found = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md")]
    found += sorted(path for path in tracked(ROOT, "docs") if path.suffix == ".md")
    return [path.relative_to(ROOT).as_posix() for path in found]


def test_rows_of_tables_stand_below_a_heading() -> None:
    """After an empty line a row is no table's: it is shown as bars and words."""
    for page in pages():
        text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
        for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
            assert re.match(r".*\n\|[\s:|-]+\|$", table, flags=re.M), (page, table[:80])


def blocks(page: str) -> Iterator[Block]:
    text = "\n" + (ROOT / page).read_text(encoding="utf-8")
    assert text.count("\n```") % 2 == 0, page
    for language, body in re.findall(r"^```([^`\n]*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        if not language.startswith("{"):  # a directive of the site, which `make docs` carries out
            yield Block(page, language, body)


def reason(page: str, text: str) -> str:
    """Why a block or a line of a page does not run; "" if it does."""
    return next(
        (why for (where, start), why in NOT_RUN.items() if where == page and text.startswith(start)), ""
    )


def run_here(page: str) -> list[Block]:
    return [
        block
        for block in blocks(page)
        if (page, block.language) not in ELSEWHERE and not (reason(page, block.text) and not _commands(block))
    ]


def _commands(block: Block) -> list[str]:
    """Its lines that run treadle; a block with a reason not to run may have some that do."""
    return [line for line in block.text.splitlines() if line.startswith("treadle ")]


def run_line(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints; into the file behind ``>`` where there is one."""
    command, _, target = line.partition(" > ")
    words = shlex.split(command, comments=True)
    assert main(words[1:]) == 0, line
    out, err = capsys.readouterr()
    assert err == "", line
    if target:
        Path(target.split()[0]).write_text(out, encoding="utf-8")
    return out


def plain_lines(text: str) -> list[str]:
    """The lines that have something in them, each blank once."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("page", [page for page in pages() if run_here(page)])
def test_blocks_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found, names, missing, printed = run_here(page), dict[str, object](), missing_engines(), set[str]()
    for line in BEFORE.get(page, ()):
        run_line(line, capsys)
    for block in found:
        if block.language == "toml":
            tomllib.loads(block.text)
            first = page, block.text.splitlines()[0]
            Path(FILES[first if first in FILES else (page, "toml")]).write_text(block.text, encoding="utf-8")
    for block in found:
        if block.language == "json":
            read = as_cost_model if json.loads(block.text)["treadle"] == "cost-model" else parse
            (tmp_path / "block.json").write_text(block.text, encoding="utf-8")
            read("./block.json")
        elif block.language == "python":
            exec(compile(block.text, page, "exec"), names)
        elif block.language in ("", "sh"):
            for line in block.text.splitlines():
                engine = next((name for word, name in ENGINES.items() if word in line.split()), "")
                if line.strip() and not reason(page, line) and engine not in missing:
                    assert line.startswith("treadle "), f"{page}: {line}: neither run nor accounted for"
                    printed |= set(plain_lines(run_line(line, capsys)))
        elif block.language == "text":
            lost = [line for line in plain_lines(block.text) if line not in {*printed, "..."}]
            assert not lost, f"{block}: no command above it prints {lost}"
        else:
            assert block.language == "toml", f"{block}: nothing runs blocks of {block.language!r}"
    for picture in (ROOT / "docs/images/drawn").glob("*.svg"):  # what the page draws is what is shown
        if Path(picture.name).exists():
            assert Path(picture.name).read_bytes() == picture.read_bytes(), f"{page}: {picture.name} is old"


def test_what_does_not_run_is_there() -> None:
    """No account of blocks, lines and tests that are gone."""
    for page, start in NOT_RUN:
        lines = [text for block in blocks(page) for text in (block.text, *block.text.splitlines())]
        assert any(line.startswith(start) for line in lines), (page, start)
    for (page, language), (test, count) in ELSEWHERE.items():
        several = [block for block in blocks(page) if block.language == language]
        assert len(several) == count or (several and count is None), f"{page}: {test} runs {count} {language}"
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), test


def test_every_picture_is_drawn_by_a_page() -> None:
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in pages()]
    for picture in (ROOT / "docs/images/drawn").iterdir():
        assert any(re.search(rf"treadle draw .*-o {re.escape(picture.name)}", text) for text in texts)
        assert any(f"images/drawn/{picture.name})" in text for text in texts)


def test_the_tour_names_commands_of_its_pages() -> None:
    """All commands, each as it stands on the page beside it."""
    rows = re.findall(
        r"^\| .+ \| `(treadle .+)` \| \[.+\]\((.+)\) \|$",
        (ROOT / "docs/how-to/tour.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert {line.split()[1] for line, _ in rows} == {name.split()[0] for name in VERBS} | {"draw"}
    for line, page in rows:
        assert line in (ROOT / "docs/how-to" / page).read_text(encoding="utf-8"), line
