"""``treadle reproduce``: the list, a table, JSON, refusals."""

from __future__ import annotations

import json

import pytest

from treadle.cli.main import main
from treadle.reproduction.paper_figures import EXHIBITS


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["exhibits"]
    assert [one["name"] for one in values] == [exhibit.name for exhibit in EXHIBITS]
    assert all(one.get("reason") or one["quick_s"] > 0 for one in values)


def test_a_table_beside_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "alltoall-figure-3"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "printed in: Basu et al." in out
    rows = [line.split() for line in out.splitlines()]
    assert ["3D", "torus:", "upper", "bound", "GB/s", "6.0185", "6.01", "x", "1"] in rows
    assert "erratum: (1/9) / (2/27) = 1.5" in out
    assert "see also: treadle compare 'hypercube(3)' alltoall" in out


def test_what_the_quick_form_leaves_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "figure-3.3", "--quick"]) == 0
    assert "left out: L^3 and L^4, of up to 2304 nodes (--full" in capsys.readouterr().out


def test_json_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "figure-B.1", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    row = values["rows"][-1]
    assert (row["label"], row["ours_exact"], row["printed"], row["agrees"]) == ("(a) / (d)", "4", "4", True)
    assert values["full"] is True


@pytest.mark.parametrize(
    ("name", "message"), [("table-9.9", "did you mean"), ("figure-4.3", "an illustration")]
)
def test_what_is_not_here_is_a_line(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
