"""The page on models and devices of training: its tables are those of the code, and its blocks run."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from treadle.training import read_accelerator, read_model, zoo_model


def page(repository: Path) -> str:
    return (repository / "docs" / "reference" / "training-models.md").read_text(encoding="utf-8")


def block(text: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_python_block_runs(repository: Path) -> None:
    scope: dict[str, object] = {}
    compared = 0
    for statement in ast.parse(block(page(repository), "python")).body:
        code = ast.unparse(statement)
        if isinstance(statement, ast.Expr):
            assert eval(code, scope) is True, code
            compared += 1
        else:
            exec(code, scope)
    assert compared == 3


def test_files_of_the_page_are_read(repository: Path) -> None:
    model = read_model(block(page(repository), "csv"))
    assert [layer.name for layer in model.layers] == ["embedding", "block 0", "block 1", "head"]
    assert model.parameters == 2 * (32_768_000 + 12_582_912)
    assert read_accelerator(block(page(repository), "toml")).peak("bf16") == 5e14


def test_figures_of_the_page(repository: Path) -> None:
    """Those that other tests compute are said here once more, so that neither changes alone."""
    text = " ".join(page(repository).split())
    for name, printed in (("switch-base-256", "143B"), ("switch-c", "1095B")):
        flops = zoo_model(name).forward_flops({"encoder": 512, "decoder": 114})
        assert f"{float(flops) / 1e9:.0f}B" == printed
        assert printed in text
    xxl = zoo_model("switch-xxl")
    halved = xxl.parameters - sum(layer.expert_parameters // 2 for layer in xxl.layers)
    assert f"{halved / 1e9:.0f}B" == "201B"
    tables = zoo_model("dlrm").layer("tables").experts / 187_767_403
    assert tables - 1 == pytest.approx(0.0003, abs=1e-5)
