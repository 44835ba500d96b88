"""Tables on terminals of any width: nothing is ever cut, and what is left out is named."""

from __future__ import annotations

from treadle.render.table import Table, fold, width_of


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
