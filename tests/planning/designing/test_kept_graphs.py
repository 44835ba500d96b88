"""Graphs that searches found serve the next design of their size; whatever else a file says is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.finder.construction import expression
from treadle.finder.designing.cached_graphs import cache_graphs, cached_graphs
from treadle.finder.designing.candidates import named_option
from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.designing.design_result import DesignResult
from treadle.finder.searches.fresh import SearchLimit
from treadle.finder.workload import Network, allreduce_of
from treadle.planning import design


def designed(cache: Path, search: int | None = None, *, use_cache: bool = True) -> DesignResult:
    return design(
        90,
        4,
        network=Network(alpha_s=1e-5, bandwidth_bytes_per_s=12_500_000_000),
        workload=allreduce_of(2**20),
        alltoall=AlltoallRates.BOUND,
        search=None if search is None else SearchLimit(sets=search),
        cache=cache,
        use_cache=use_cache,
    )


def figures(result: DesignResult) -> list[tuple[str, object]]:
    return [(row.option.expression, row.option.candidate.t_b_both) for row in result.rows]


def test_what_was_found_is_known_to_the_next_design(tmp_path: Path) -> None:
    before = designed(tmp_path)
    found = designed(tmp_path, 1500)
    assert any(found.is_fresh(row) for row in found.rows)
    after = designed(tmp_path)
    assert figures(after) == figures(found) != figures(before)
    assert set(after.kept) == {row.option.expression for row in found.rows if found.is_fresh(row)}
    assert after.efforts == before.efforts == ()
    assert figures(designed(tmp_path, use_cache=False)) == figures(before)
    assert cached_graphs(90, 4, tmp_path, bidirectional=True)[0] == ()
    assert cached_graphs(91, 4, tmp_path, bidirectional=False)[0] == ()


@pytest.mark.parametrize(
    "graphs",
    [
        ["torus(9, 10)", "ring(90)", "complete(90)", "dgx_a100(2)", "nothing(90)", "torus(9"],
        ["/etc/passwd", "x.json", "torus:9,10", 'torus(9, 10, bandwidth="2B/s")', 3, None, ["torus(9, 10)"]],
        ["(" * 900, "line_graph(" * 80 + ")", "torus(" + "9," * 400 + ")"],
        ["torus(9, 10)"] * 17,
        {"torus(9, 10)": 1},
        "torus(9, 10)",
    ],
)
def test_only_graphs_of_the_size_are_taken(tmp_path: Path, graphs: object) -> None:
    """A torus of 9 x 10 is one; its figures are computed, and no file is opened."""
    torus = named_option("torus(9, 10)", 90, 4).candidate
    cache_graphs(90, 4, [torus], tmp_path, bidirectional=False)
    assert [one.construction for one in cached_graphs(90, 4, tmp_path, bidirectional=False)[0]] == [
        torus.construction
    ]
    (path,) = tmp_path.glob("*.graphs")
    path.write_text(json.dumps({"nodes": 90, "degree": 4, "graphs": graphs}))
    found, _ = cached_graphs(90, 4, tmp_path, bidirectional=False)
    texts = {expression(one.construction) for one in found}
    assert texts <= {"torus(9, 10)", 'torus(9, 10, bandwidth="2B/s")'}
    assert all(one.steps == 9 for one in found)
    for damaged in (b"", b"[]", b"\xff", b'{"nodes": 90}', b"[" * 2000):
        path.write_bytes(damaged)
        assert cached_graphs(90, 4, tmp_path, bidirectional=False)[0] == ()
