"""Tables on terminals of any width: nothing is ever cut, and what is left out is named."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from child_processes import search_path, started
from engines import missing_engines
from treadle.cli.main import main
from treadle.cli.output import Output
from treadle.render.table import Table, fold, width_of, wrapped

ROWS = [["forestcoll", "346.67 GB/s", "100.0%", "208"], ["hierarchical-ring", "200 GB/s", "57.7%", "16"]]
TABLE = Table(["algorithm", "algbw", "% optimum", "trees"], ROWS, left=1, least=["trees", "% optimum"])


def test_a_pipe_gets_everything() -> None:
    assert TABLE.lines() == [
        "algorithm                algbw  % optimum  trees",
        "forestcoll         346.67 GB/s     100.0%    208",
        "hierarchical-ring     200 GB/s      57.7%     16",
    ]
    assert TABLE.lines(48) == TABLE.lines()


def test_columns_of_least_use_go_first_and_are_named() -> None:
    lines = TABLE.lines(45)
    assert lines[0].split() == ["algorithm", "algbw", "%", "optimum"]
    assert " ".join(lines[3:]).startswith("(not shown for lack of width: trees; --json")
    assert TABLE.lines(35)[0].split() == ["algorithm", "algbw"]
    assert "% optimum" in " ".join(TABLE.lines(35)[3:])
    assert all(width_of(line) <= 35 for line in TABLE.lines(35))


def test_words_wrap_where_nothing_may_go() -> None:
    table = Table(["topology", "steps"], [["line_graph(complete_bipartite(4, 4), 12)", "10"]], left=1)
    lines = table.lines(30)
    assert all(width_of(line) <= 30 for line in lines)
    assert "".join(line.split("  ")[0] for line in lines[1:]).replace(" ", "") == (
        "line_graph(complete_bipartite(4,4),12)"
    )


def test_rows_become_lines_where_nothing_else_helps() -> None:
    headings = ["size", "measured", "by the model"]
    table = Table(headings, [["1048576", "123456.789", "2.5"], ["1", "", "3"]], left=0)
    assert table.lines(26) == [
        "size          1048576",
        "measured      123456.789",
        "by the model  2.5",
        "",
        "size          1",
        "by the model  3",
    ]


def test_numbers_are_never_folded() -> None:
    assert fold("torus(1048576, 2.5)", 4).split("\n") == ["torus(", "1048576,", "2.5)"]


def test_headings_of_several_lines_stand_above_each_other() -> None:
    assert Table(["size\n(B)", "type"], [["8", "int32"]], left=0).lines() == [
        "size   type",
        " (B)",
        "   8  int32",
    ]


def test_wide_letters_take_two_cells() -> None:
    assert width_of("ab") == 2
    assert width_of("節点") == 4
    assert width_of("e\u0301") == 1
    lines = Table(["name", "n"], [["節点", "1"], ["abcd", "2"]]).lines()
    assert lines == ["name  n", "節点  1", "abcd  2"]


def test_long_lines_hang_below_their_label() -> None:
    text = "witness     cut: 15 of 16 shards must enter box0.gpu0 (1 node) through 325 GB/s"
    lines = wrapped(text, 40)
    assert all(len(line) <= 40 for line in lines)
    assert all(line.startswith(" " * 12) for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
    assert wrapped("short", 40) == ["short"]
    assert wrapped("x" * 50, 40) == ["x" * 50]


COMMANDS = {
    "compare": ["compare", "dgx_a100:1", "allgather", "--algorithms", "ring,forestcoll"],
    "compare, steps": ["compare", "torus:3x3", "allreduce", "--algorithms", "ring,bfb,forestcoll"],
    "compare, groups": ["compare", "ring:4", "allreduce", "--mesh", "2,2", "--axes", "1"],
    "compare, all-to-all": ["compare", "torus:3x3", "alltoall", "--algorithms", "pairwise,pipelined"],
    "simulate": ["simulate", "{}/plan", "--size", "1K,1G", "--slices", "1"],
    "run": ["run", "{}/plan", "--size", "1K,1M", "--iterations", "1"],
    "design": ["design", "--nodes", "16", "--degree", "4", "--alltoall", "bound", "--no-cache"],
    "pareto": ["pareto", "ring:4", "allgather", "--max-steps", "2"],
    "pareto,trees": ["pareto", "ring:4", "allgather", "--trees", "1,2"],
    "compare, sizes": ["compare", "ring:4", "allgather", "--algorithms", "ring", "--size", "1K,1M"],
    "size_set_report": ["solve", "ring:4", "allgather", "--size", "1K,1M", "--algorithm", "bfb,ring"],
    "size_set_report, retune": ["retune", "{}/ring", "--cost-model", "reference", "--size", "1K,1M"],
    "rivals_report": ["design", "--nodes", "8", "--degree", "2", "--no-cache", "--against"],
    "cabling": ["cabling", "check", "{}/planned.csv", "{}/seen.csv"],
    "resilience": ["resilience", "torus:3,3", "--cables", "1", "--samples", "2"],
    "repair": ["repair", "{}/ring", "--every-failure"],
    "calibrate": ["calibrate", "{}/sweep.json", "--plan", "{}/ring"],
    "capture": ["capture", "deepseek-v3", "--tokens", "1M", "--sequence", "4K"],
    "config": ["config"],
    "reproduce": ["reproduce"],
    "reproduce, rows": ["reproduce", "table-3.5"],
    "testbed": [
        *("testbed", "ring:4", "--size", "1K", "--collectives", "allgather", "--algorithms", "bfb"),
        *("--iterations", "1"),
    ],
}
COMMANDS["step_report"] = [
    *("train", "gpt2", "--fabric", "ring:4", "--fabric", "complete:4", "--mesh", "fsdp=4", "--gpu", "a100"),
    *("--sequence", "64", "--schedule", "treadle,bound"),
]
COMMANDS["serve_report"] = [
    *("train", "gpt2", "--fabric", "ring:4", "--fabric", "complete:4", "--mesh", "dp=4", "--gpu", "a100"),
    *("--sequence", "64", "--schedule", "bound", "--phase", "decode"),
]
COMMANDS["parallel_report and plan_report"] = [
    *("parallelize", "{}/tiny.json", "--fabric", "ring:4", "--gpu", "a100", "--mesh", "4", "--tokens", "1K"),
    *("--gap", "0.5", "--explain", "wq"),
]
COMMANDS["size_report"] = ["bound", "ring:4", "allgather", "--size", "1K,1G", "--cost-model", "reference"]
COMMANDS["jobs_report"] = ["bound", "complete:4", "--jobs", "{}/jobs.toml"]
TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 128,
}
"""A model as Hugging Face's config.json has it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables")
    assert main(["solve", "dgx_a100:2", "allgather", "--trees", "1", "-q", "-o", str(path / "plan")]) == 0
    assert main(["solve", "ring:4", "allgather", "-q", "-o", str(path / "ring")]) == 0
    rows = [{"size_bytes": 4**k, "time_s": 1e-5 + 4**k / 10e9} for k in range(5, 15)]
    (path / "sweep.json").write_text(json.dumps({"collective": "allgather", "ranks": 4, "rows": rows}))
    (path / "tiny.json").write_text(json.dumps(TINY))
    head = "from_node,from_port,to_node,to_port"
    (path / "planned.csv").write_text(f"{head}\na,0,b,0\nc,0,d,0\n")
    (path / "seen.csv").write_text(f"{head}\na,0,d,0\nc,0,b,0\n")
    (path / "jobs.toml").write_text("[[job]]\nkind = 'allreduce'\n[[job]]\nkind = 'alltoall'\n")
    return path


def replayed(
    said: list[Callable[[], None]],
    width: int | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """What a report prints on a terminal of that width; None: into a pipe."""
    monkeypatch.setenv("COLUMNS", str(width or 80))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: width is not None)
    for say in said:
        say()
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_no_number_is_cut_on_any_terminal(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = {"pareto": "CP-SAT", "testbed": "testbed"}.get(name, "")
    if engine in missing_engines():
        pytest.skip(f"{engine}: {missing_engines()[engine]}")
    said: list[Callable[[], None]] = []
    show = Output.show

    def kept(*words: object, **options: object) -> None:
        words = tuple([*word] if isinstance(word, Iterator) else word for word in words)
        said.append(partial(show, *words, **options))
        show(*words, **options)

    # the command runs once, its report is printed in all widths
    monkeypatch.setattr(Output, "show", kept)
    status = 1 if name == "cabling" else 0  # faults were found
    assert main([word.replace("{}", str(folder)) for word in COMMANDS[name]]) == status
    whole = capsys.readouterr().out
    assert whole
    assert whole == replayed(said, None, capsys, monkeypatch)
    for width in (60, 80):
        text = replayed(said, width, capsys, monkeypatch)
        assert "…" not in text
        # a path may be wider than any terminal, and then stands alone
        wide = [line for line in text.splitlines() if width_of(line) > width]
        assert not [line for line in wide if len(line.split()) > 2], text
        # every number on the terminal is one of the pipe's, whole
        assert _numbers(text) <= _numbers(whole), text
        if "not shown for lack of width" not in text:
            assert _words(text) >= _words(whole)


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", text))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z]+", text))


def test_a_real_terminal_is_measured() -> None:
    """Through a pseudo-terminal that gets wider, with nothing in the environment that says so."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    code = f"""
import fcntl, struct, termios
from treadle.cli.main import main
for columns in (60, 160):
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    assert main({COMMANDS["size_report"]}) == 0
    print("ends", flush=True)
"""
    said = b""
    with started(
        [sys.executable, "-c", code], stdout=theirs, env={**environment, "PYTHONPATH": search_path()}
    ) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # the other end is closed: all has been said
            while part := os.read(ours, 65536):
                said += part
        assert process.wait(60) == 0
    os.close(ours)
    narrow, wide, _ = said.decode().replace("\r", "").split("ends\n")
    assert max(map(width_of, narrow.splitlines())) <= 60
    assert 80 < max(map(width_of, wide.splitlines())) <= 96
    assert narrow.count("(not shown") == 1
