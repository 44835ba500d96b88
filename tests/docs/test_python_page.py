"""The page on Python runs from top to bottom, and its comments say what comes out."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path

import pytest

import treadle
from places import ROOT

PAGE = ROOT / "docs" / "how-to" / "python.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expressions that compare are true; lines that follow as comments are what is shown, but for seconds."""
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    compared = shown = 0
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            out = io.StringIO()
            value: object = None
            with contextlib.redirect_stdout(out):
                code = ast.unparse(statement)
                if isinstance(statement, ast.Expr):
                    value = eval(code, scope)
                else:
                    exec(code, scope)
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Compare):
                assert value is True, code
                compared += 1
            after = lines[(statement.end_lineno or 0) :]
            if after and after[0].startswith("# "):
                found = out.getvalue().strip() or repr(value)
                assert without_seconds(found) == without_seconds(after[0][2:]), code
                shown += 1
    assert (compared, shown) == (7, 4)


def without_seconds(text: str) -> str:
    return re.sub(r"[0-9.]+ CPU s", "S", text)


def test_the_page_names_what_there_is() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"treadle\.([a-z_]+)\(", text))
    assert named <= set(treadle.__all__)
