"""``treadle capture``: what it prints and writes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.cli.main import main
from treadle.parallelism.graph.model_files import read_model_graph

AFFINE = """
import torch
from torch import nn

class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1024, 2048))
        self.bias = nn.Parameter(torch.empty(2048))

    def forward(self, x):
        return torch.matmul(x, self.weight) + self.bias

def make():
    return Affine(), (torch.empty(64, 4096, 1024),)
"""
FIGURE = """\
Nodes:
  primals_1: PLACEHOLDER [ab]
  primals_2: PLACEHOLDER [b]
  primals_3: PLACEHOLDER [cda]
  mm: EINSUM "cda,ab->cdb"(primals_3, primals_1) -> [cdb]
  add: ELEMENTWISE(mm[cdb], primals_2[b]) -> [cdb]
  tangents_1: PLACEHOLDER [cdb]
  sum_1: REDUCTION(tangents_1[cdb]) over{c,d} -> [fgb]
  mm_1: EINSUM "acd,cdb->ab"(primals_3, tangents_1) -> [ab]
  output: OUTPUT[add[cdb], mm_1[ab], sum_1[b]]
"""


def test_a_model_of_the_zoo_is_told_by_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "gemma-2-2b", "--tokens", "128K"]) == 0
    out = capsys.readouterr().out
    assert "model        gemma-2-2b: 2.61B parameters" in out
    assert "step         131072 tokens: b = 32 samples of s = 4096" in out
    assert "shared       embedding tok_embeddings.weight is head output.weight" in out
    (row,) = [line.split() for line in out.splitlines() if line.startswith("windowed block")]
    assert row[2] == "13"


def test_the_linear_layer_prints_as_in_figure_5_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")
    (tmp_path / "affine.py").write_text(AFFINE)
    assert main(["capture", f"{tmp_path}/affine.py:make", "--print"]) == 0
    assert FIGURE in capsys.readouterr().out


def test_the_file_holds_the_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "g.json"
    assert main(["capture", "gpt2", "--tokens", "8K", "-o", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    model = read_model_graph(file.read_text(), source=str(file))
    assert told["digest"] == model.digest
    assert told["graph"] == str(file)
    assert [(one["name"], one["repeats"]) for one in told["parts"]] == [
        (part.name, part.repeats) for part in model.parts
    ]
    assert sum(one["repeats"] * one["parameters"] for one in told["parts"]) > told["parameters"], "tied"


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "gpt2", "--tokens", "8K", "-q"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpt3", "--tokens", "8K"], "unknown model 'gpt3'"),
        (["gpt2", "--tokens", "many"], "--tokens 'many': expected a number of tokens"),
        (["gpt2"], "--tokens N is missing"),
    ],
)
def test_mistakes_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def part(name: str, repeats: int, elements: int, kinds: str) -> Any:
    nodes = [SimpleNamespace(kind=SimpleNamespace(value=kind)) for kind in kinds.split()]
    atoms = [SimpleNamespace(name="b", size=3), SimpleNamespace(name="s", size=4)]

    class Graph(SimpleNamespace):
        def __str__(self) -> str:
            return f"graph of {name}\nmore"

    graph = Graph(nodes=nodes, atoms=atoms)
    return SimpleNamespace(name=name, repeats=repeats, parameter_elements=elements, graph=graph)
