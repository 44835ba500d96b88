"""What public functions take: whatever is meant as a fabric, a plan or a size, and one line for all else."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

import treadle
from child_processes import finished
from treadle.checking import checked, format_error, is_of
from treadle.errors import FormatError, TopologyError, TreadleError
from treadle.finder.workload import Network, allreduce_of
from treadle.inputs.fabrics_and_plans import as_fabric, as_plan, as_sizes
from treadle.inputs.runtime_files import FileVerification
from treadle.topologies import dump_topology, ring

FUNCTIONS = {
    name: getattr(treadle, name)
    for name in treadle.__all__
    if inspect.isfunction(getattr(treadle, name)) or inspect.isbuiltin(getattr(treadle, name))
}


class Stranger:
    """A type that no function expects."""


NETWORK = Network(10**-6, 25 * 10**9)
PLAN = treadle.solve("ring:4", "allgather")
GOOD: dict[str, dict[str, Any]] = {
    "bound": {"topology": "ring:4", "collective": "allgather"},
    "cabling": {"topology": "ring:4"},
    "capture": {"source": "gpt2"},
    "check_cabling": {"planned": "x", "observed": "x"},
    "compare": {"topology": "ring:4", "collective": "allgather"},
    "design": {"nodes": 8, "degree": 2, "network": NETWORK, "workload": allreduce_of(2**20)},
    "diagnose": {"log": "x"},
    "draw": {"subject": "ring:4"},
    "from_networkx": {"graph": networkx.path_graph(2)},
    "grow": {"topology": "ring:4", "nodes": 5},
    "harden": {"plan": PLAN},
    "import_topology": {"path": "x"},
    "load_plan": {"path": "x"},
    "lower": {"plan": PLAN},
    "operator_rule": {"operator": "own.op.default", "kind": "ELEMENTWISE", "specification": "...->..."},
    "parallelize": {"model": "gpt2", "fabrics": "ring:4", "mesh": "4", "gpu": "a100"},
    "parse": {"text": "ring:4"},
    "price": {"topology": "ring:4", "group": [0, 1], "collective": "allgather", "size": "1MB"},
    "reconfigure": {"topology": "ring:4", "other": "ring:4"},
    "register_format": {"record": None},
    "repair": {"plan": PLAN},
    "report": {"plan": PLAN},
    "resilience": {"topology": "ring:4"},
    "retune": {"plan": PLAN, "cost_model": "reference", "sizes": "1K"},
    "run": {"plan": PLAN, "sizes": "1K"},
    "save_plan": {"path": "x", "plan": PLAN.plan},
    "scheduler": {"name": "x", "form": "trees", "collectives": ["allgather"]},
    "simulate": {"plan": PLAN, "sizes": "1K"},
    "solve": {"topology": "ring:4", "collective": "allgather"},
    "solve_sizes": {"topology": "ring:4", "collective": "allgather", "sizes": "1K"},
    "train": {"model": "gpt2", "fabrics": "ring:4", "mesh": "dp=4", "gpu": "a100", "schedules": "bound"},
    "verify": {"plan": PLAN},
}
"""Arguments of each public function that it needs."""


def parameters(function: Callable[..., Any]) -> list[str]:
    """All names that a function takes, those of its options included."""
    names: list[str] = []
    hints = vars(inspect.getmodule(function))
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            names.append(name)
            continue
        (table,) = typing.get_args(eval(parameter.annotation, hints))
        types = getattr(table, "types", None)  # of `treadle.options.keywords`
        names += typing.get_type_hints(table) if types is None else types()
    return names


def test_all_public_functions_are_here() -> None:
    assert set(GOOD) == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("function", "name"), [(one, name) for one in FUNCTIONS for name in parameters(FUNCTIONS[one])]
)
def test_a_wrong_type_is_an_error_of_one_line_that_names_the_parameter(function: str, name: str) -> None:
    """An object of a type that nobody expects, at each parameter of each function in turn."""
    call = FUNCTIONS[function]
    arguments = {**GOOD[function], name: Stranger()}
    with pytest.raises(TreadleError) as caught:
        list(call(**arguments))  # of a generator the first step
    message = str(caught.value)
    assert "expected " in message
    assert "found a Stranger" in message
    assert name in message
    assert "pricer" not in message, "of what is called, not of what that calls"
    assert "\n" not in message
    assert len(message) < 200


def unread_hints(function: Callable[..., Any]) -> list[str]:
    """Parameters whose annotation names what their module imports for type checkers only."""
    inner = inspect.unwrap(function)
    found = []
    for name, text in inner.__annotations__.items():
        try:
            eval(text, vars(inspect.getmodule(inner)))
        except NameError:
            found.append(name)
    return [name for name in found if name != "return"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_annotation_can_be_read(function: str) -> None:
    left = {
        "bound": ["method"],
        "from_networkx": ["graph"],
        "price": ["topology", "group", "collective", "kind"],  # `group_pricer` checks them
    }
    assert unread_hints(FUNCTIONS[function]) == left.get(function, [])


@pytest.mark.parametrize("function", ["solve", "bound", "compare", "lower", "run", "diagnose", "train"])
def test_an_option_that_there_is_not_is_named(function: str) -> None:
    with pytest.raises(TreadleError, match=f"{function}: unknown option 'colour'"):
        FUNCTIONS[function](**GOOD[function], colour="red")


def fabrics(folder: Path) -> list[object]:
    """Everything that means a ring of four."""
    path = folder / "ring"
    path.write_text(dump_topology(ring(4)))
    return [
        "ring:4",
        str(path),
        path,
        ring(4),
        ring(4).to_networkx(),
        PLAN,
        PLAN.plan,
        treadle.bound("ring:4", "allgather"),
        treadle.import_topology(path),
        treadle.verify(PLAN),
    ]


def test_whatever_is_meant_as_a_fabric_is_one(tmp_path: Path) -> None:
    for fabric in fabrics(tmp_path):
        found: Any = fabric
        assert treadle.bound(found, "allgather").topology == ring(4), fabric
        assert treadle.verify(PLAN, found).is_ok
    assert treadle.compare(PLAN, "allgather", algorithms=["ring"], sizes="1K").sizes == (1024,)


def test_a_path_is_a_file_where_the_catalogue_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("petersen_line").write_text(dump_topology(ring(5)))
    assert treadle.bound(Path("petersen_line"), "allgather").topology == ring(5)
    assert len(treadle.bound("petersen_line:", "allgather").topology.compute_nodes) == 15


def test_a_graph_without_bandwidths_says_how_to_give_them() -> None:
    with pytest.raises(
        TopologyError, match=r"say it by from_networkx\(graph, bandwidth='25GB/s'\)"
    ) as caught:
        treadle.bound(networkx.path_graph(3), "allgather")
    assert "--" not in str(caught.value)


def test_whatever_is_meant_as_a_plan_is_one(tmp_path: Path) -> None:
    path = tmp_path / "ring.plan"
    treadle.save_plan(path, PLAN.plan)
    for plan in (PLAN, PLAN.plan, path, str(path)):
        assert treadle.verify(plan).is_ok
        assert treadle.simulate(plan, "1K").rows[0].size_bytes == 1024
        assert treadle.run(plan, 1024, iterations=1, warmup=0).wrong == 0
        assert treadle.lower(plan).text
        assert treadle.verify(treadle.repair(plan, links=["n0--n1"])).is_ok


def test_results_are_saved_by_their_plans(tmp_path: Path) -> None:
    path = tmp_path / "ring.plan"
    treadle.save_plan(path, PLAN)
    assert treadle.load_plan(path) == PLAN.plan
    swapped: Any = treadle.save_plan
    for plan in (PLAN, PLAN.plan):
        with pytest.raises(TreadleError, match=r"have changed places; expected save_plan\(path, plan\)"):
            swapped(plan, path)


def test_a_path_is_parsed_and_a_plan_is_called_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (Path("petersen"), tmp_path / "fabric.json"):  # the catalogue has a graph of the first name
        path.write_text(dump_topology(ring(5)))
        assert treadle.parse(path) == ring(5)
    plan = tmp_path / "ring.plan"
    treadle.save_plan(plan, PLAN.plan)
    for take in (treadle.parse, treadle.import_topology, lambda path: treadle.bound(path, "allgather")):
        with pytest.raises(FormatError, match=r"is a plan, not a topology; .* treadle\.load_plan reads it"):
            take(plan)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A schedule of others for four ranks."""
    path = tmp_path / "theirs.xml"
    path.write_text(treadle.lower(PLAN).text)
    return path


def test_a_schedule_of_others_is_verified_as_the_command_does(text: Path) -> None:
    for path in (text, str(text)):
        alone = treadle.verify(path)
        assert isinstance(alone, FileVerification)
        assert (alone.is_ok, alone.format, alone.n_ranks) == (True, "msccl-xml (azure)", 4)
        placed = treadle.verify(path, ring(4))
        assert placed.is_ok
        assert placed.report.algbw == PLAN.algbw
        assert placed.placed is not None
        assert placed.placed.optimal_algbw == PLAN.algbw
    other = treadle.verify(text, "ring:5")
    assert not other.is_ok
    assert "the file has 4 ranks" in str(other.report.violations[0])
    text.write_text(text.read_text().replace('type="s"', 'type="nop"', 1))
    broken = treadle.verify(text)
    assert not broken.is_ok
    with pytest.raises(TreadleError, match="root and profile are only for runtime files"):
        treadle.verify(PLAN, root=1)  # type: ignore[call-overload]


def test_a_schedule_of_others_is_simulated_on_the_fabric_that_is_named(text: Path) -> None:
    ours = treadle.simulate(PLAN, "1M,2M")
    theirs = treadle.simulate(text, "1M,2M", topology="ring:4")
    assert [row.size_bytes for row in theirs.rows] == [2**20, 2**21]
    assert float(theirs.rows[1].time) == pytest.approx(float(ours.rows[1].time), rel=0.01)
    with pytest.raises(FormatError, match="a third-party schedule does not name its fabric; give topology="):
        treadle.simulate(text, "1M")
    with pytest.raises(FormatError, match="topology: only for a third-party schedule"):
        treadle.simulate(PLAN, "1M", topology="ring:4")
    with pytest.raises(TreadleError, match="the file has 4 ranks"):
        treadle.simulate(text, "1M", topology="ring:5")
    assert len(treadle.simulate(PLAN).rows) == 21  # 1K to 1G, as the command line does


def test_where_a_plan_is_needed_a_schedule_of_others_is_called_one(text: Path) -> None:
    for call in (treadle.lower, treadle.repair, lambda plan: treadle.run(plan, "1K")):
        with pytest.raises(FormatError, match=r"runtime file \(msccl-xml\), not a plan"):
            call(text)


def test_where_a_plan_is_needed_a_fabric_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    path.write_text(dump_topology(ring(4)))
    for fabric in ("ring:4", "ring(4)", path, str(path)):
        with pytest.raises(FormatError, match="this is a fabric, not a plan; treadle"):
            treadle.verify(fabric)


@pytest.mark.parametrize("limit", [-1, -0.5, float("nan")])
def test_time_limits_are_not_negative(limit: float) -> None:
    for function in ("solve", "bound", "compare", "harden", "repair", "diagnose"):
        with pytest.raises(
            TreadleError, match=f"{function}: time_limit_s: expected 0 or more seconds, found "
        ):
            FUNCTIONS[function](**GOOD[function], time_limit_s=limit)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1K", [1024]),
        (1024, [1024]),
        ([1024, "1M"], [1024, 2**20]),
        ("1K..4K", [1024, 2048, 4096]),
        (("1K,3K", 5), [1024, 3072, 5]),
        (range(8, 10), [8, 9]),
    ],
)
def test_sizes_are_numbers_or_texts(given: Any, expected: list[int]) -> None:
    assert as_sizes(given, "sizes") == expected


@pytest.mark.parametrize("given", [None, 1.5, True, [None], {"a": 1}, b"1K"])
def test_what_is_no_size_is_refused(given: Any) -> None:
    with pytest.raises(TreadleError, match=r"sizes: expected bytes, a string such as 64MB or 1K\.\.1G"):
        as_sizes(given, "sizes")


@pytest.mark.parametrize("given", [0, -1024, "0B", [1024, 0], "1K,0B"])
def test_sizes_below_a_byte_are_refused(given: Any) -> None:
    with pytest.raises(FormatError, match=r"simulate: sizes: expected at least 1 byte, found "):
        treadle.simulate(PLAN, given)


def test_a_run_of_nothing_moves_nothing_and_less_is_refused() -> None:
    assert treadle.run(PLAN, [0], iterations=1).wrong == 0
    with pytest.raises(FormatError, match="run: sizes: expected at least 0 bytes, found -1024"):
        treadle.run(PLAN, -1024)


def test_a_simulation_of_no_size_is_refused() -> None:
    with pytest.raises(FormatError, match="simulate: sizes: expected at least one, found none"):
        treadle.simulate(PLAN, [])


def test_single_sizes_have_units_too() -> None:
    texts = [treadle.lower(PLAN, to="mscclpp-json", pipeline_bytes=size).text for size in ("1MB", 2**20)]
    assert texts[0] == texts[1]
    with pytest.raises(FormatError, match="1 apple"):
        treadle.lower(PLAN, to="mscclpp-json", pipeline_bytes="1 apple")


def test_numbers_are_not_truth_values() -> None:
    @checked()
    def weigh(amount: int, share: float = 1.0, deep: bool = False, names: tuple[str, ...] = ()) -> int:
        del share, deep, names
        return amount

    assert weigh(3, 2, True, ("a",)) == 3
    for wrong in ({"amount": True}, {"amount": 1, "share": "x"}, {"amount": 1, "deep": 1}, {"amount": 2.0}):
        with pytest.raises(TreadleError, match="weigh: "):
            weigh(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TreadleError, match="names: expected a sequence, of each a text, found 'ab'"):
        weigh(1, names="ab")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hint", "fitting", "words"),
    [
        (int | str | None, [1, "a", None], "an integer or a text"),
        (dict[str, int], [{}, {"a": 1}], "a mapping"),
        (tuple[int, str], [(1, "a")], "a sequence, of each an integer"),
        (Callable[[int], int], [print], "a function"),
        (typing.Literal["a", "b"], ["a"], "'a' or 'b'"),
        (list[int], [[1, 2], (), range(3)], "a sequence, of each an integer"),
    ],
)
def test_annotations_in_words(hint: Any, fitting: list[Any], words: str) -> None:
    assert all(is_of(value, hint) for value in fitting)
    assert not is_of(Stranger(), hint)
    assert format_error(hint) == words


def test_what_is_neither_fabric_nor_plan() -> None:
    for convert in (as_fabric, as_plan):
        for wrong in (None, 3, [], Stranger(), Stranger):
            with pytest.raises(TreadleError, match="expected a"):
                convert(wrong)


def test_public_names_are_told_with_a_line_each() -> None:
    documented = [line.split()[0] for line in (treadle.__doc__ or "").splitlines() if line.startswith("    ")]
    public = [name for name in treadle.__all__ if not name.startswith("_")]
    assert sorted(documented) == sorted(public)
    assert {name for name in dir(treadle) if not name.startswith("_")} >= set(public)
    assert not {"TYPE_CHECKING", "annotations", "load_lazily"} & set(dir(treadle))


def test_modules_of_the_package_are_attributes_at_once() -> None:
    """In a process of its own: here everything has been imported."""
    script = (
        "import treadle; print(treadle.topologies.ring(3).name, treadle.planning.verify.__name__);"
        "print(hasattr(treadle, 'topologise'), hasattr(treadle, '_nothing'))"
    )
    found = finished([sys.executable, "-c", script])
    assert found.stdout.split() == ["ring(3)", "verify", "False", "False"]


def test_bandwidths_and_latencies_have_units_in_python_too() -> None:
    typed = treadle.topologies.ring(4, bandwidth="25GB/s", latency="1us")  # type: ignore[arg-type]
    assert typed == treadle.topologies.ring(4, bandwidth=25 * 10**9, latency=1000)
    assert treadle.parse(typed.name) == typed
    boxes = treadle.topologies.dgx_a100(2, nic_bandwidth="50GB/s")  # type: ignore[arg-type]
    assert boxes == treadle.topologies.dgx_a100(2, nic_bandwidth=50 * 10**9)
    faster = treadle.topologies.with_links(ring(4), bandwidth="8Gbit/s", latency="1ns")  # type: ignore[arg-type]
    assert set(faster.bandwidths.tolist()) == {10**9}
    said = "ring: bandwidth: expected a text such as 25GB/s, or an integer number of bytes/s, found "
    for wrong in ([], None, 1.5, float("inf"), float("nan"), True):
        with pytest.raises(TreadleError, match=said):
            treadle.topologies.ring(4, bandwidth=wrong)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="has no unit"):
        treadle.topologies.ring(4, bandwidth="25")  # type: ignore[arg-type]


def test_a_builder_takes_units() -> None:
    builder = treadle.TopologyBuilder("pair")
    for name in ("a", "b"):
        builder.compute(name)
    builder.duplex("a", "b", "25GB/s")
    builder.link("a", "b", "8Gbit/s")
    assert builder.build().bandwidths.tolist() == [25 * 10**9, 25 * 10**9, 10**9]
    for call in (builder.link, builder.duplex):
        with pytest.raises(TopologyError, match=r"an integer number of bytes/s, found 1\.5"):
            call("a", "b", 1.5)


@pytest.mark.parametrize("bandwidth", [25e9, 25 * 10**9, np.float64(25e9), np.int64(25 * 10**9), "25GB/s"])
def test_a_whole_number_is_bytes_per_second_wherever_bandwidths_are_taken(
    bandwidth: Any, tmp_path: Path
) -> None:
    expected = [25 * 10**9]
    builder = treadle.TopologyBuilder("pair")
    for name in ("a", "b"):
        builder.compute(name)
    builder.link("a", "b", bandwidth)
    edges, graph = tmp_path / "edges.csv", networkx.path_graph(2)
    edges.write_text("a b\n")
    fabrics = [
        treadle.topologies.ring(4, bandwidth=bandwidth),
        treadle.topologies.with_links(ring(4), bandwidth=bandwidth),
        treadle.from_networkx(graph, bandwidth=bandwidth),
        treadle.import_topology(edges, format="edge-list", bandwidth=bandwidth).topology,
        builder.build(),
    ]
    graph.edges[0, 1]["bandwidth"] = bandwidth
    for fabric in (*fabrics, treadle.from_networkx(graph)):
        assert np.unique(fabric.bandwidths).tolist() == expected


def test_what_is_no_whole_number_of_bytes_per_second_is_refused() -> None:
    graph = networkx.path_graph(2)
    for wrong in (12.5, -1, True):
        with pytest.raises(TopologyError, match="from_networkx: bandwidth: expected "):
            treadle.from_networkx(graph, bandwidth=wrong)
    graph.edges[0, 1]["bandwidth"] = 12.5  # meant as GB/s, no doubt
    with pytest.raises(
        TopologyError, match=r"expected an integer number of bytes/s, or a string .* such as 12\.5GB/s"
    ):
        treadle.from_networkx(graph)
