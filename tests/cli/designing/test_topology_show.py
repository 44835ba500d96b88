"""`treadle topology show` and `list`: what a designer reads about a direct-connect fabric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import main


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["topology", "show", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(shown(capsys, *arguments, "--json"))
    return values


def test_a_one_way_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "kautz(4, 2)")
    assert "Moore-optimal" in text
    assert "some links are unidirectional" in text
    # 1 + (d^(n-1) - 1) / (d^(n-1) (d^2 - 1)) = 21/20, where 79/80 would be the least
    assert "T_B = 21/20 M/B = 1.0500, at least 79/80" in text
    assert "intersection" not in text


def test_bidirectional_moore_optimality(capsys: pytest.CaptureFixture[str]) -> None:
    # 17 = 1 + 4 + 12 nodes at most within two hops, 21 with one-way links
    values = as_json(capsys, "circulant(20, 3, 4)")
    assert (values["diameter"], values["moore_steps"], values["moore_steps_bidirectional"]) == (3, 2, 3)
    assert (values["moore_optimal"], values["moore_optimal_bidirectional"]) == (False, True)
    text = shown(capsys, "circulant(20, 3, 4)")
    assert "Moore-optimal for bidirectional links (unidirectional: at least 2)" in text


def test_a_large_cayley_digraph_is_known_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    values = as_json(capsys, 'abelian_cayley("10000", 1, 9999, 100, 9900)')
    assert values["vertex_transitive"] is True
    assert values["allgather_breadth_first"]["bw_optimal"] is True
    assert values["allgather_breadth_first"]["steps"] == values["diameter"]


def test_full_lifts_the_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert as_json(capsys, "complete(30)", "--full")["omitted"] == []


def test_a_file_is_shown_like_the_catalogue(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "fabric.json"
    assert main(["topology", "export", "diamond()", "-o", str(path)]) == 0
    values = as_json(capsys, str(path))
    # Table A.3: Diamond, N = 8, d = 2, T_L = 3
    assert (values["ranks"], values["degree"], values["diameter"], values["moore_optimal"]) == (8, 2, 3, True)


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["topology", "list", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("boxes", "named"),
    [
        (2, "box0.nvswitch, box1.nvswitch"),
        (3, "box0.nvswitch, box1.nvswitch, box2.nvswitch"),
        (4, "box0.nvswitch and 3 more"),
    ],
)
def test_switches_that_copy_and_sum_say_for_whom(
    capsys: pytest.CaptureFixture[str], boxes: int, named: str
) -> None:
    assert main(["topology", "show", f"dgx_h100({boxes}, nvls=True, sharp=True)"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        f"in-network {named}: multicast and aggregation, GPU-initiated (NVLS) ib0: multicast and "
        "aggregation, returns sums itself (SHARP)"
    ) in said


def test_list_is_filtered_by_name_group_or_summary(capsys: pytest.CaptureFixture[str]) -> None:
    by_name = json.loads(listed(capsys, "kautz", "--json"))["catalogue"]
    assert [entry["name"] for entry in by_name] == ["kautz", "generalized_kautz"]
    by_group = json.loads(listed(capsys, "distance regular", "--json"))["catalogue"]
    assert {entry["group"] for entry in by_group} == {"distance-regular graphs"}
    by_summary = json.loads(listed(capsys, "INFINIBAND", "--json"))["catalogue"]
    assert "dgx_h100" in {entry["name"] for entry in by_summary}
    assert json.loads(listed(capsys, "no such thing", "--json")) == {
        "schema": "topology-list/1",
        "catalogue": [],
    }
    assert "nothing in the catalogue matches 'no such thing'" in listed(capsys, "no such thing")


def test_list_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    text = listed(capsys)
    assert max(map(len, text.splitlines())) <= 130
    assert 'direct-connect graphs (also bandwidth="1B/s", latency="0ns"):' in text
    for line in ("  kautz(d, n)", "  diamond()", "  torus(*dims)", "  jellyfish(n, d, *, seed=0)"):
        assert line in text.splitlines()
    assert "  ring(n, *, bidirectional=True)" in text.splitlines()
    assert '  fat_tree(k, *, bandwidth="50GB/s")' in text.splitlines()
