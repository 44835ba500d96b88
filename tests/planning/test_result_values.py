"""What Python shows of results: short reprs with the key figures, and tables as CSV and data frames."""

from __future__ import annotations

import csv
import dataclasses
import io
import sys
from collections.abc import Iterator
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, is_typeddict

import pytest
from lxml import etree

import treadle
from samples.readers.reader_texts import ASTRA
from treadle import mscclpp, planning, topologies, training
from treadle.brief import MOST_CHARACTERS, brief, format_field
from treadle.errors import MissingDependencyError
from treadle.finder.workload import Network, allreduce_of
from treadle.notebook import MOST_BYTES
from treadle.planning import all_formats, describe_fabric, program_of, schedulers
from treadle.tabular import Tabular, plain

LOG = """# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#       size         count      type   redop    root     time   algbw   busbw #wrong
   1073741824     268435456     float     sum      -1   5000.0  214.7  375.8      0
"""


@dataclasses.dataclass
class OldPlan:
    """What a loss reads of the plan before the repair."""

    algbw: Fraction
    collective: treadle.Collective


def results(folder: Path) -> Iterator[object]:
    """Results of every public function, small and large."""
    for fabric, kind, options in (
        ("dgx_a100:2", "allgather", {}),
        ("dgx_a100:2", "allreduce", {}),
        ("torus:4,4", "alltoall", {}),
        ("torus:3,3", "reduce-scatter", {"algorithm": "bfb"}),
        ("dgx_h100:32", "allgather", {}),
    ):
        solved = treadle.solve(fabric, kind, **options)
        yield solved
        yield treadle.bound(fabric, kind)
        yield treadle.verify(solved)
        if solved.plan.collective.n_ranks < 64:
            yield treadle.simulate(solved, "1K..4K")
            yield treadle.run(solved, "1K", iterations=1, warmup=0)
            yield program_of(solved.plan, 1024)
    ring = treadle.solve("ring:4", "allgather")
    yield treadle.lower(ring)
    yield treadle.compare("ring:4", "allgather", algorithms=["ring", "multitree"], sizes="1K")
    yield treadle.repair(ring, links=["n0--n1"])
    yield from treadle.harden(ring)
    yield treadle.design(16, 4, network=Network(1e-6, 25 * 10**9), workload=allreduce_of(2**20))
    path = folder / "network.yml"
    path.write_text(ASTRA)
    yield treadle.import_topology(path)
    log = folder / "log"
    log.write_text(LOG)
    yield treadle.diagnose(log, topology="dgx_h100:1", collective="allreduce")
    yield describe_fabric(treadle.parse("torus:4,4"))
    yield from schedulers()
    yield from all_formats()
    costs = planning.group_costs("dgx_h100:2", "dp=2,tp=8")
    assert costs.cost("allgather", "tp").is_exact
    yield costs
    builder = treadle.TopologyBuilder("pair")
    builder.duplex(builder.compute("a"), builder.compute("b"), "25GB/s")
    yield builder
    yield topologies.cayley_graph("metacyclic_cayley(8, 2, 3, 2, 3)")
    yield topologies.intersection_array(treadle.parse("hypercube:3"))
    yield topologies.catalogue_entries()[0]


def values(value: object, seen: dict[int, object]) -> Iterator[object]:
    """All values of ours that hang together with one."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield value
        for field in dataclasses.fields(value):
            yield from values(getattr(value, field.name), seen)
    elif hasattr(type(value), "_repr_html_"):
        yield value
    elif isinstance(value, list | tuple):
        for one in value[:50]:
            yield from values(one, seen)
    elif isinstance(value, dict):
        for one in list(value.values())[:50]:
            yield from values(one, seen)


def test_reprs_are_short(tmp_path: Path) -> None:
    seen: dict[int, object] = {}
    kinds: set[str] = set()
    for result in results(tmp_path):
        for value in values(result, seen):
            kinds.add(type(value).__name__)
            text = repr(value)
            assert len(text) <= MOST_CHARACTERS, text
            assert text.count("\n") <= 2, text
    assert len(kinds) > 60
    assert kinds >= {
        "Plan",
        "SolveResult",
        "BoundResult",
        "Comparison",
        "Diagnosis",
        "Lowered",
        "DesignResult",
    }


def test_notebooks_show_every_result(tmp_path: Path) -> None:
    """Key figures, rows and a picture, in little room and well-formed; the same under rich in lines."""
    pictures = 0
    seen: dict[int, object] = {}
    shown = {type(value): value for result in results(tmp_path) for value in values(result, seen)}
    shown = {kind: value for kind, value in shown.items() if hasattr(kind, "_repr_html_")}
    for kind, value in shown.items():
        html = value._repr_html_()
        assert len(html.encode()) <= MOST_BYTES
        root = etree.fromstring(html)
        assert root[0][0].text == kind.__name__
        pictures += len(root.findall("img"))
        assert kind.__name__ in value.__rich__()
    assert pictures > 2
    names = {kind.__name__ for kind in shown}
    assert names >= {"CatalogueEntry", "CayleyGraph", "GroupCosts", "IntersectionArray", "TopologyBuilder"}
    assert names >= {"Plan", "SolveResult", "Topology", "Comparison", "SimulationRun", "Steps"}


def test_names_in_notebooks_are_inert() -> None:
    builder = treadle.TopologyBuilder("<script>alert(1)</script>")
    builder.duplex(builder.compute("<b>"), builder.compute("[red]"), 10**9)
    fabric = builder.build()
    assert "<script" not in fabric._repr_html_()
    assert "<script" not in builder._repr_html_()
    plan = treadle.solve(fabric, "allgather").plan
    assert "<script" not in plan._repr_html_()
    false = dataclasses.replace(plan, algbw=2 * plan.algbw)
    assert "<img" in false._repr_html_()  # of the fabric: what is false is not drawn


def test_reprs_tell_the_key_figures() -> None:
    solved = treadle.solve("dgx_a100:2", "allgather", exact=True)
    optimum = "346.67 GB/s algbw, 325 GB/s busbw (exact: 1040/3 GB/s)"
    assert repr(solved).startswith(f"<SolveResult allgather, 16 ranks; {optimum}; 346.67 GB/s algbw")
    assert repr(solved.plan) == (
        "<Plan allgather of 16 ranks, dgx_a100(2), forestcoll, 346.67 GB/s algbw, 1 entry>"
    )
    assert repr(treadle.verify(solved)) == "<VerifyResult dgx_a100(2), ok, embedded, 1 report>"
    bound = treadle.bound("ring:4", "allgather")
    assert repr(bound) == "<BoundResult allgather, 4 ranks; 2.67 B/s algbw, 2 B/s busbw (exact: 8/3 B/s)>"
    compared = treadle.compare("ring:4", "allgather", algorithms=["ring"])
    assert repr(compared) == "<Comparison allgather, 4 ranks; 2.67 B/s algbw, 2 B/s busbw (exact: 8/3 B/s)>"
    assert compared.optimal_algbw == bound.algbw
    assert (
        repr(next(treadle.harden(treadle.solve("ring:4", "allgather")))) == "<HardenedRow n0--n1, 50.0% loss>"
    )
    cut_off = next(treadle.harden(treadle.solve("path:3", "allgather")))
    assert repr(cut_off).startswith("<HardenedRow n0--n1, ")
    assert "no link is left" in cut_off.refusal


def test_long_reprs_end_in_time() -> None:
    @brief("name", "text", "note", "more", "rest")
    @dataclasses.dataclass
    class Long:
        name: str = "a" * 100
        text: str = "b" * 100
        note: str = "c\nd" * 100
        more: str = "e" * 100
        rest: str = "f" * 100

    text = repr(Long())
    assert len(text) <= MOST_CHARACTERS
    assert text.endswith(", ...>")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("size_bytes", 2**20, "1MB size"),
        ("bandwidth_bytes_per_s", 25 * 10**9, "25 GB/s bandwidth"),
        ("time_s", 0.5, "0.5 s time"),
        ("is_ok", False, "not ok"),
        ("is_late", False, ""),
        ("rows", [1], "1 row"),
        ("entries", (), ""),
        ("n_absent", 0, ""),
        ("share", float("nan"), "share nan"),
        ("seconds", {"total": 1.5}, "1.5 CPU s"),
        ("bound", None, ""),
    ],
)
def test_figures_in_words(name: str, value: Any, expected: str) -> None:
    assert format_field(name, value) == expected


def tables() -> list[Tabular]:
    plan = treadle.solve("ring:4", "allgather")
    return [
        treadle.compare("ring:4", "allgather", algorithms=["ring", "multitree"]),
        treadle.compare("ring:4", "allgather", algorithms=["ring", "double-binary-tree"], sizes="1K,1M"),
        treadle.simulate(plan, "1K..4K"),
        treadle.run(plan, "1K,2K", iterations=1, warmup=0),
        treadle.design(16, 4, network=Network(1e-6, 25 * 10**9), workload=allreduce_of(2**20)),
    ]


def test_tables_are_csv_and_frames(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    for table in tables():
        records = table.records()
        assert records
        assert all(list(row) == list(records[0]) for row in records)
        path = tmp_path / "table.csv"
        text = table.to_csv(path)
        assert path.read_text() == text
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [list(row) for row in rows] == [list(row) for row in records]
        for row, record in zip(rows, records, strict=True):
            for name, value in record.items():
                assert row[name] == ("" if value is None else str(value))
        frame = table.to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame.columns) == list(records[0])
        assert len(frame) == len(records)


def test_tables_have_the_figures_of_their_results() -> None:
    plan = treadle.solve("ring:4", "allgather")
    simulated = treadle.simulate(plan, "1K..4K")
    assert [row["size_bytes"] for row in simulated.records()] == [1024, 2048, 4096]
    assert [row["time_s"] for row in simulated.records()] == [float(row.time) for row in simulated.rows]
    compared = treadle.compare("ring:4", "allgather", algorithms=["ring"])
    assert compared.records()[0]["algbw_bytes_per_s"] == float(compared.rows[0].algbw or 0)
    assert compared.records()[0]["share_of_bound"] == 1.0
    assert compared.records()[0]["busbw_bytes_per_s"] == 2.0  # three quarters of 8/3
    sized = treadle.compare("ring:4", "allgather", algorithms=["ring"], sizes="1M")
    (measures,) = [row.measured for row in sized.rows]
    assert measures is not None
    assert sized.records()[0]["simulated_busbw_bytes_per_s"] == measures.sizes[0].busbw_bytes_per_s


def test_busbw_of_groups_is_that_of_a_group() -> None:
    whole = treadle.compare("ring:4", "allgather", algorithms=["ring"])
    groups = dataclasses.replace(whole.collective, groups=((0, 1), (2, 3)))
    halves = dataclasses.replace(whole, collective=groups)
    assert halves.records()[0]["busbw_bytes_per_s"] == float(whole.rows[0].algbw or 0) / 2
    repaired = treadle.repair(treadle.solve("ring:4", "allgather"), links=["n0--n1"])
    old = dataclasses.replace(repaired.old.collective, groups=((0, 1), (2, 3)))
    stand_in = dataclasses.replace(repaired, old=OldPlan(repaired.old.algbw, old))
    assert stand_in.throughput_loss == 1 - repaired.new.algbw * 3 / 4 / (repaired.old.algbw / 2)


def test_pandas_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'treadle\[pandas\]'"):
        tables()[2].to_pandas()


def test_cells_are_plain() -> None:
    assert plain(None) is None
    assert plain(True) is True
    assert plain(3) == 3
    assert type(plain(treadle.CollectiveKind.ALLGATHER)) is str


def test_every_public_value_shows_itself() -> None:
    """All public classes that have values: no enumerations, errors, tables of keywords, protocols."""
    facades = (treadle, planning, topologies, training, mscclpp)
    kinds = [
        getattr(package, name) for package in facades for name in getattr(package, "__all__", vars(package))
    ]
    values = {
        kind
        for kind in kinds
        if isinstance(kind, type)
        and not issubclass(kind, Enum | BaseException)
        and not is_typeddict(kind)
        and not getattr(kind, "_is_protocol", False)
    }
    assert len(values) > 90
    assert not {kind for kind in values if not (hasattr(kind, "_repr_html_") and hasattr(kind, "__rich__"))}
