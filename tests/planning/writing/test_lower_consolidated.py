"""``treadle lower --consolidate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.cli.main import main


def test_consolidated_text_has_fewer_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An allgather on a 4 x 4 torus: one message a step on each of 64 links."""
    plan, out = str(tmp_path / "torus.plan"), tmp_path / "torus.xml"
    assert main(["solve", "torus(4,4)", "allgather", "--algorithm", "bfb", "-o", plan, "-q"]) == 0
    found = []
    for options in ([], ["--consolidate"]):
        assert main(["lower", plan, "-o", str(out), "--json", *options]) == 0
        found.append(json.loads(capsys.readouterr().out)["messages"])
        assert 'srcbuf="s"' in out.read_text(encoding="utf-8") or not options
    assert found[0] > found[1] == 4 * 64


def test_other_formats_refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "ring.plan")
    assert main(["solve", "ring(4)", "allgather", "-o", plan, "-q"]) == 0
    assert main(["lower", plan, "--to", "cpu-xml", "--consolidate"]) == 2
    assert "--consolidate is for msccl-xml" in capsys.readouterr().err
