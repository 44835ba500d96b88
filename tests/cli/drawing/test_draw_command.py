"""``treadle draw``: files, words, JSON, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.cli.main import main


def test_a_fabric_and_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["draw", "dgx_a100(2, 2)", "-o", "fabric.svg"]) == 0
    size = (tmp_path / "fabric.svg").stat().st_size
    assert capsys.readouterr().out == f"drawing      fabric.svg, {size:,} bytes\n"
    assert main(["solve", "dgx_a100(2, 2)", "allgather", "-o", "two.plan", "-q"]) == 0
    for show in ("load", "cut", "tree:box1.gpu0"):
        assert main(["draw", "two.plan", "--show", show, "-o", f"{show[:3]}.svg", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["picture"] == f"{show[:3]}.svg"
        assert found["bytes"] == (tmp_path / found["picture"]).stat().st_size
    assert main(["draw", "ring:4", "allgather", "-o", "ring.png", "-q"]) == 0
    assert (tmp_path / "ring.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ring:4"], "-o FILE is missing"),
        (["ring:4", "-o", "x.bmp"], "bmp"),
        (["ring:4", "-o", "x"], "expected a name that ends in .html, or for a drawing in .svg, .png or .pdf"),
        (["ring:4", "--show", "load", "-o", "x.svg"], "this is a fabric; solve it first"),
        (["absent.plan", "-o", "x.svg"], "absent.plan"),
        (["ring:4", "allgather", "--show", "tree:9", "-o", "x.svg"], "no rank '9'"),
    ],
)
def test_refusals(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["draw", *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1
    assert not list(tmp_path.iterdir())
