"""The commands of the page on comparisons run, in the order in which they stand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.formats.schedule_source import schedule_sources

SHARES = {
    "torus:4,4": {"tacos": 100.0, "te-ccl": 93.8},
    "mesh:4,4": {"tto": 91.3},
    "torus:3,3": {"te-ccl-alltoall": 100.0, "taccl-alltoall": 100.0},
    "dgx_a100:2": {"taccl": 98.9},
    "mi250:2": {"blink": 37.9},
}
"""Of the optimum, per cent, of peers on the page."""


def test_commands_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (repository / "docs" / "how-to" / "compare.md").read_text(encoding="utf-8")
    sums, files, peers = re.findall(r"^```\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert main(shlex.split(sums)[1:]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("nvls (in-network)"))
    assert row.split()[2] == "700.00"
    shown = ""
    for line in files.splitlines():
        assert main(shlex.split(line)[1:]) == 0, line
        shown = capsys.readouterr().out
    assert "ring.xml" in shown
    for line in peers.splitlines():
        assert main([*shlex.split(line)[1:], "--json"]) == 0, line
        rows = json.loads(capsys.readouterr().out)["schedules"]
        shares = {row["algorithm"]: round(100 * (1 - row["gap"]), 1) for row in rows}
        for name, share in SHARES[line.split()[2]].items():
            assert shares[name] == share, (line, name)
            assert f"{share:g}%" in page or f"{share:.0f}%" in page


def test_every_kind_of_file_is_listed(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "schedules-of-others.md").read_text(encoding="utf-8")
    for record in schedule_sources():
        assert f"| `{record.name}`: " in page
