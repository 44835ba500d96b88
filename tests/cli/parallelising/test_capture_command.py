"""``treadle capture``: what it prints and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.main import main

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


def test_the_linear_layer_prints_as_in_figure_5_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")
    (tmp_path / "affine.py").write_text(AFFINE)
    assert main(["capture", f"{tmp_path}/affine.py:make", "--print"]) == 0
    assert FIGURE in capsys.readouterr().out
