"""What public functions take: whatever is meant as a fabric, a plan or a size, and one line for all else."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import pytest

import treadle
from treadle.checking import describe_type, is_of
from treadle.errors import FormatError, TopologyError, TreadleError
from treadle.finder.workload import Network, allreduce_of
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


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A schedule of others for four ranks."""
    path = tmp_path / "theirs.xml"
    path.write_text(treadle.lower(PLAN).text)
    return path


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
    assert describe_type(hint) == words


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
