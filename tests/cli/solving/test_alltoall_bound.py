"""``treadle bound TOPOLOGY alltoall`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from treadle import planning
from treadle.cli.main import main
from treadle.inputs.demand_files import read_demands


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert main(["bound", *arguments, "--json"]) == status
    values: dict[str, Any] = json.loads(capsys.readouterr().out)
    return values


def test_torus_in_units_of_a_link(capsys: pytest.CaptureFixture[str]) -> None:
    """f = 1/9, and with 3.125 GB/s a link a busbw of 26 * f * b (the paper, section 5.2)."""
    values = printed(capsys, 'torus(3,3,3,bandwidth="3125MB/s")', "alltoall")
    assert values["f_exact"] == "1/9"
    assert values["f"] == pytest.approx(1 / 9)
    assert values["inverse_f"] == pytest.approx(9)
    assert values["pair_rate_exact"] == "3125000000/9"
    assert values["inverse"] == pytest.approx(9 / 3.125e9)
    assert values["algbw_bytes_per_s"] == pytest.approx(27 / 9 * 3.125e9)
    assert values["busbw_bytes_per_s"] == pytest.approx(26 / 9 * 3.125e9)
    assert (values["gap"], values["optimal"], values["time_limit_reached"]) == (0, True, False)
    assert values["witness"] == {"kind": "distances", "lengths": [1] * 162}
    assert values["binding_links"] == list(range(162))


def test_unequal_links_have_no_unit(capsys: pytest.CaptureFixture[str]) -> None:
    values = printed(capsys, "dgx_a100:2", "alltoall")
    assert values["pair_rate_exact"] == "3125000000/1"
    assert "f" not in values
    names = {"f_exact", "inverse_f", "f_upper"}
    assert not names & values.keys()


def test_gap(capsys: pytest.CaptureFixture[str]) -> None:
    values = printed(capsys, "jellyfish(64,4)", "alltoall", "--gap", "1e-4")
    assert 0 < values["gap"] <= 1.01e-4
    assert values["pair_rate_bytes_per_s"] < values["pair_rate_upper_bytes_per_s"]
    assert "f_exact" not in values
    assert values["optimal"] is None
    assert values["bound_only"] is True


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "hypercube:3", "alltoall"]) == 0
    text = capsys.readouterr().out
    assert "0.25 B/s for each pair, concurrently" in text
    assert "f = 0.25 of a link (1/4), 1/f = 4" in text
    assert "bottleneck   all 24 links" in text
    assert main(["bound", "jellyfish:64,4", "alltoall"]) == 0
    assert "(gap 0.000" in capsys.readouterr().out


def test_time_limit_reports_the_incumbent(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["jellyfish:200,4", "alltoall", "--gap", "1e-8", "--time-limit", "30ms"]
    values = printed(capsys, *arguments, status=4)
    assert values["time_limit_reached"] is True
    assert 1e-8 < values["gap"] < 1
    assert main(["bound", *arguments]) == 4
    assert "the time limit was reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text"), [("d.csv", "0,1,2\n3, 0,1\r\n1,1,5\n\n"), ("d.json", "[[0,1,2],[3,0,1],[1,1,5]]")]
)
def test_demands(name: str, text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    values = printed(capsys, "uni_ring(1,3)", "alltoall", "--demands", str(path))
    # link 1 -> 2 carries 1 + 3 of rank 1 and 2 of rank 0
    assert values["pair_rate_exact"] == "1/6"
    # the fullest buffer is what rank 2 receives: 2 + 1 + 5
    assert values["algbw_bytes_per_s"] == pytest.approx(8 / 6)
    found = planning.bound("uni_ring(1,3)", "alltoall", demands=path)
    assert found.rate is not None
    assert found.rate.collective.demands == read_demands(path)


BAD = [
    ("", "has 0 rows"),
    ("0,1\n1", "row 2 has 1 value; expected 2"),
    ("0,1,1\n1,0,1", "row 1 has 3 values"),
    ("0,-1\n1,0", "row 1, column 2: found '-1'"),
    ("0,nan\n1,0", "found 'nan'"),
    ("0,1e3\n1,0", "found '1e3'"),
    ("0,1.5\n1,0", "found '1.5'"),
    ("0,2000000\n1,0", "integers from 0 to 2**20"),
    ("0," + "9" * 5000 + "\n1,0", "found '99999999999999999999...'; expected an integer from 0 to 2**20"),
    ("0,0\n0,7", "no rank has data for another"),
    ("[[0,1],[1]]", "row 2 has 1 value;"),
    ("[[0,NaN],[1,0]]", "row 1, column 2"),
    ("[[0,-1],[1,0]]", "row 1, column 2"),
    ("[[0,true],[1,0]]", "row 1, column 2: found 'true'"),
    ("[[0,1" + "0" * 50 + "],[1,0]]", "found 'a huge integer'"),
    ("[[0,[1]],[1,0]]", "found 'a list'"),
    ('[[0,"' + "x" * 99 + '"],[1,0]]', "xxx...'; expected an integer"),
    ("[[0,1.0],[1,0]]", "row 1, column 2"),
    ("[[0," + "9" * 5000 + "],[1,0]]", "expected"),
    ("[1,2]", "list of lists"),
    ('{"demands": 1}', "list of lists"),
    ("[" * 100_000, "is not JSON"),
    ("[[0,1],[1,0]", "is not JSON"),
    ("gpu0,gpu1\n0,1", "found 'gpu0'"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=range(len(BAD)))
def test_hostile_demands(text: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_text(text, encoding="utf-8")
    assert main(["bound", "uni_ring(1,2)", "alltoall", "--demands", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert len(error) < 400


def test_demands_of_another_size_or_kind(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("0,1\n1,0\n", encoding="utf-8")
    for arguments in (
        ["ring:3", "alltoall", "--demands", str(path)],
        ["ring:2", "allgather", "--demands", str(path)],
        ["ring:3", "allgather", "--gap", "0.1"],
        ["ring:3", "alltoall", "--gap", "nan"],
        ["ring:3", "alltoall", "--gap", "2"],
        ["ring:3", "alltoall", "--gap", "-1"],
        ["ring:3", "alltoall", "--demands", str(tmp_path / "absent")],
        ["ring:3", "alltoall", "--demands", str(tmp_path)],
        ["ring:3", "alltoall", "--root", "0"],
    ):
        assert main(["bound", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe0,1")
    assert main(["bound", "ring:2", "alltoall", "--demands", str(binary)]) == 2
    assert "is not valid UTF-8" in capsys.readouterr().err


def test_unreachable_rank(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fabric = {
        "treadle": "topology",
        "version": 1,
        "name": "one way",
        "nodes": [{"name": name, "kind": "compute"} for name in "ab"],
        "links": [{"tail": "a", "head": "b", "bandwidth_bytes_per_s": 1}],
    }
    path = tmp_path / "fabric.json"
    path.write_text(json.dumps(fabric), encoding="utf-8")
    assert main(["bound", str(path), "alltoall"]) == 3
    assert "'b' has data for 'a', but no path leads there" in capsys.readouterr().err


def test_published_methods_stand_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """F = 1/8 of a link on a 4 x 4 torus; a cut of half of it proves as much."""
    for method in ("link-mcf", "decomposed-mcf", "fleischer"):
        assert main(["bound", "torus:4,4", "alltoall", "--method", method, "--json"]) == 0
        values = json.loads(capsys.readouterr().out)
        assert values["method"] == method
        assert values["pair_rate_bytes_per_s"] == pytest.approx(1 / 8, rel=0.05)
        assert 1 / 8 <= values["pair_rate_upper_bytes_per_s"] <= 1.05 / 8
    for method in ("cut", "bisection"):
        assert main(["bound", "torus:4,4", "alltoall", "--method", method]) == 0
        assert "upper bound  2 B/s algbw, 1.88 B/s busbw (may not be tight)" in capsys.readouterr().out


def test_methods_that_do_not_fit_are_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    for words, what in (
        (["alltoall", "--method", "simplex"], "expected one of link-mcf, decomposed-mcf, fleischer, cut"),
        (["allgather", "--method", "cut"], "cut is for an all-to-all"),
        (["alltoall", "--method", "cut", "--gap", "0.1"], "cut takes none"),
    ):
        assert main(["bound", "ring:4", *words]) == 2
        assert what in capsys.readouterr().err
