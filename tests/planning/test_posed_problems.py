"""Problems posed in odd ways, and every word of what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from treadle.errors import FormatError, ScheduleError, TopologyError, TreadleError
from treadle.input_files import naming_file, read_input_string
from treadle.inputs.meshes import as_axes, as_mesh
from treadle.inputs.problem import busbw_values, resolve_kind, select_ranks
from treadle.planning import import_options, make_problem, model_of
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.tabular import Tabular, plain, plain_row
from treadle.topologies import Topology, TopologyBuilder, parse


def switched(*, multicast: str = "", aggregation: str = "", asked: str = "") -> Topology:
    """Four nodes at two switches, of which some copy, some add, and some do so for ranks that ask."""
    builder = TopologyBuilder("switched")
    switches = {name: builder.switch(name) for name in "st"}
    builder.duplex(switches["s"], switches["t"], 4)
    for place, name in enumerate("abcd"):
        builder.duplex(builder.compute(name), switches["st"[place // 2]], 2)
    plain = builder.build()

    def which(names: str) -> Any:
        return np.array([name in list(names) for name in plain.node_names])

    able = which(multicast) | which(aggregation)
    return replace(
        plain,
        multicast=which(multicast),
        aggregation=which(aggregation),
        turns_round=able & ~which(asked),
    )


@pytest.mark.parametrize(
    ("able", "kind", "mesh", "told"),
    [
        ({}, "allgather", None, ""),
        ({}, "allreduce", None, "allreduce without in-network multicast and aggregation"),
        ({"multicast": "s"}, "allgather", None, ""),
        ({"multicast": "s"}, "allreduce", None, "allreduce with in-network multicast"),
        ({"aggregation": "s"}, "allreduce", None, "allreduce with in-network aggregation"),
        (
            {"multicast": "s", "aggregation": "s", "asked": "s"},
            "allreduce",
            None,
            "allreduce with in-network multicast and aggregation, for ranks that ask",
        ),
        (
            {"multicast": "st", "aggregation": "s", "asked": "s"},
            "allreduce",
            None,
            "allreduce with in-network multicast and aggregation, by themselves or for ranks that ask",
        ),
        ({}, "allgather", "2,2", ""),
        ({}, "allreduce", "2,2", "allreduce without in-network multicast and aggregation"),
        ({"multicast": "s"}, "allgather", "2,2", "allgather in groups, without in-network multicast"),
        ({"multicast": "s"}, "reduce-scatter", "2,2", ""),
        ({"aggregation": "s"}, "allgather", "2,2", ""),
        ({"aggregation": "s"}, "reduce", "2,2", "reduce in groups, without in-network aggregation"),
        (
            {"multicast": "s", "aggregation": "t"},
            "allreduce",
            "2,2",
            "allreduce in groups, without in-network multicast and aggregation",
        ),
        ({}, "alltoall", None, ""),
        ({}, "alltoall", "2,2", "alltoall in groups, ranks of other groups forward"),
    ],
)
def test_what_switches_are_assumed_to_do(
    able: dict[str, str], kind: str, mesh: str | None, told: str
) -> None:
    words: Any = {} if mesh is None else {"mesh": mesh, "axes": "1"}
    problem = make_problem(switched(**able), kind, **words)
    assert model_of(problem.topology, problem.collective) == told


@pytest.mark.parametrize(
    ("kind", "exact"),
    [("allgather", "7/4"), ("allreduce", "7/2"), ("broadcast", "7/3"), ("alltoall", "7/4")],
)
def test_throughput_as_nccl_tests_scale_it(kind: str, exact: str) -> None:
    """Of 7/3 bytes/s among four: three quarters, twice that, all."""
    collective = make_problem("ring:4", kind).collective
    told = busbw_values("best", Fraction(7, 3), collective)
    assert told == {"best_bytes_per_s": float(Fraction(exact)), "best_exact": exact}
    groups = make_problem("ring:4", "allgather", mesh="2,2", axes="1").collective
    assert busbw_values("x", Fraction(3), groups)["x_exact"] == "3/2"
    assert busbw_values("x", Fraction(4), groups)["x_exact"] == "2/1"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("A2A", "alltoall"),
        ("all2all", "alltoall"),
        ("BCAST", "broadcast"),
        ("All_Gather", "allgather"),
        ("reduce scatter", "reduce-scatter"),
        ("reduce", "reduce"),
    ],
)
def test_names_of_collectives(name: str, kind: str) -> None:
    assert resolve_kind(name) is CollectiveKind(kind)
    assert resolve_kind(CollectiveKind(kind)) is CollectiveKind(kind)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([0, 5], "rank 5: ring(5) has ranks 0 to 4"),
        ([-1], "rank -1: ring(5) has ranks 0 to 4"),
        ([1, 3, 1], "rank 1 (n1) is chosen twice"),
        ("3,n3", "rank 3 (n3) is chosen twice"),
        ("3-1", "ranks '3-1': expected a rising range within 0 to 4 of ring(5)"),
        ("2-5", "ranks '2-5': expected a rising range within 0 to 4 of ring(5)"),
        ("5", "ranks '5': expected a rising range within 0 to 4 of ring(5)"),
        ("0,x*", "ranks 'x*': no compute node of ring(5) has that name"),
        ("x" * 70, f"ranks '{'x' * 60}': no compute node of ring(5) has that name"),
        ("0,", "ranks '': no compute node of ring(5) has that name"),
    ],
)
def test_ranks_that_are_none(ranks: Any, said: str) -> None:
    with pytest.raises(TopologyError) as caught:
        select_ranks(parse("ring:5"), ranks)
    assert str(caught.value) == said


def test_ranks_keep_the_order_in_which_they_are_named() -> None:
    assert select_ranks(parse("ring:5"), [4, 0, 2]) == [4, 0, 2]
    assert select_ranks(parse("ring:5"), "n4, 2-3 ,0") == [4, 2, 3, 0]
    assert select_ranks(parse("ring:5"), "4-4,2-2") == [4, 2]
    assert select_ranks(parse("ring:5"), "n[31],0") == [1, 3, 0]
    assert select_ranks(switched(), "3,1") == [3, 1]


@pytest.mark.parametrize(
    ("kind", "words", "said"),
    [
        ("allgather", {"ranks": "2"}, "ring(5): allgather needs at least 2 ranks, found 1"),
        ("alltoall", {"ranks": []}, "ring(5): alltoall needs at least 2 ranks, found 0"),
        ("reduce", {"ranks": "1,2", "root": "n4", "forward": True}, "root 'n4' is not among the ranks"),
        (
            "alltoall",
            {"mesh": "1,5", "axes": "0,1", "demands": "x"},
            "x: cannot be read: No such file or directory",
        ),
        (
            "allgather",
            {"mesh": "2,2", "axes": "1"},
            "mesh 2,2: it lays out 4 ranks, and ring(5) has 5; --ranks (ranks=) chooses some",
        ),
        (
            "allgather",
            {"axes": ["a", "b"]},
            "axes a,b: the mesh that has them is missing; expected --mesh NAME=SIZE,... (mesh=)",
        ),
        (
            "allgather",
            {"mesh": "a=5,b=1"},
            "mesh a=5,b=1: the axes that groups go over are missing; expected --axes (axes=) with some of "
            "a, b",
        ),
        (
            "allgather",
            {"mesh": "a=5,1", "axes": "a"},
            "mesh 'a=5,1': no axis names for 1; name all axes, as dp=16,tp=8, or none",
        ),
        (
            "allgather",
            {"mesh": "pp=8,16,8", "axes": "pp"},
            "mesh 'pp=8,16,8': no axis names for 16, 8; name all axes, as dp=16,tp=8, or none",
        ),
    ],
)
def test_problems_that_are_none(kind: str, words: dict[str, Any], said: str) -> None:
    with pytest.raises(TreadleError) as caught:
        make_problem("ring:5", kind, **words)
    assert str(caught.value) == said


def test_a_collective_as_value_takes_no_words() -> None:
    fabric = parse("ring:4")
    value = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    assert make_problem(fabric, value, forward=False, ranks=None).collective is value
    assert make_problem("ring:4", value, file_format=None).collective is value
    for words in ({"ranks": [0, 1]}, {"forward": True}, {"root": 0}, {"weights": [1]}, {"axes": "a"}):
        with pytest.raises(ScheduleError) as caught:
            make_problem(fabric, value, **words)  # type: ignore[arg-type]
        assert str(caught.value) == (
            "without, weights, demands, ranks, forward, root, mesh and axes belong to a collective's name, "
            "not its value"
        )


def test_who_forwards() -> None:
    """Those that are left out, where they may; nobody where all take part."""
    some = make_problem("ring:5", "allgather", ranks="4,1", forward=True)
    assert (some.collective.ranks, some.collective.forwarders) == ((4, 1), (0, 2, 3))
    assert some.topology.n_nodes == 5
    absent = make_problem("path:4", "allgather", ranks="2,1")
    assert (absent.collective.ranks, absent.collective.forwarders) == ((0, 1), ())
    assert absent.topology.node_names == ("n2", "n1")
    whole = make_problem("ring:5", "allgather", forward=True).collective
    assert (whole.forwarders, whole.ranks_forward) == ((), False)
    ends = make_problem(switched(), "reduce", ranks="d,b", root="d").collective
    assert ends.root == 0
    assert make_problem("ring:5", "reduce", ranks="3,4", root="1").collective.root == 1
    assert make_problem("ring:5", "reduce", ranks="3,4", root=0).collective.root == 0
    assert make_problem("ring:5", "allgather").collective.root is None


def test_meshes_and_axes_as_typed() -> None:
    mesh = as_mesh(" a = 2 , b = 123456789 ")
    assert (mesh.axis_names, mesh.n_ranks) == (("a", "b"), 2 * 123_456_789)
    assert as_mesh(mesh) is mesh
    assert as_mesh("3,1,2").axis_names == ("0", "1", "2")
    for text in ("1234567890", "a=1234567890", "02", "a=0", "", "2,,3"):
        with pytest.raises(FormatError):
            as_mesh(text)
    with pytest.raises(FormatError, match=f"^mesh '{'x' * 60}': expected NAME=SIZE"):
        as_mesh("x" * 61)
    assert as_axes(" a , b") == ("a", "b")
    assert as_axes(3) == ("3",)
    assert as_axes([1, "c"]) == ("1", "c")


def test_cells_of_tables(tmp_path: Path) -> None:
    class Own:
        def __str__(self) -> str:
            return "own"

    assert plain_row(
        {"a": Fraction(1, 4), "b": np.int64(3), "c": Own(), "d": None, "e": "x", "f": False}
    ) == {
        "a": 0.25,
        "b": 3.0,
        "c": "own",
        "d": None,
        "e": "x",
        "f": False,
    }
    assert type(plain(CollectiveKind.REDUCE)) is str
    assert plain(7) == 7
    assert type(plain(7)) is int

    class Empty(Tabular):
        def records(self) -> list[dict[str, Any]]:
            return []

    assert Empty().to_csv(tmp_path / "table.csv") == "\n"
    assert (tmp_path / "table.csv").read_text() == "\n"

    class Two(Tabular):
        def records(self) -> list[dict[str, Any]]:
            return [{"b": 1, "a": "x,y"}, {"a": None, "b": 2.5}]

    assert Two().to_csv() == 'b,a\n1,"x,y"\n2.5,\n'
    with pytest.raises(NotImplementedError):
        Tabular().records()


def test_small_text_files(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffé\n".encode())
    assert read_input_string(path, 6) == "é\n"
    for most, data, said in (
        (5, b"\xef\xbb\xbf\xc3\xa9\n", " is larger than 5 bytes, the most that is read"),
        (5, b"\n\xff", "2:1: byte 0xff is not valid UTF-8; expected words"),
    ):
        path.write_bytes(data)
        with pytest.raises(FormatError) as caught:
            read_input_string(path, most, expected="words")
        assert str(caught.value) == f"{path}:{said}"
    with pytest.raises(FormatError) as caught:
        read_input_string("a\0b", 5)
    assert str(caught.value).endswith(": cannot be read: not a file name")
    for text in ("wrong", "file: wrong"):
        with pytest.raises(FormatError) as caught, naming_file("file"):
            raise FormatError(text)
        assert str(caught.value) == "file: wrong"


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ({}, {}),
        ({"links": "Library", "pcie": None}, {"links": "library"}),
        ({"nic_bandwidth": "1GB/s", "bandwidth": 3}, {"nic_bandwidth": 10**9, "bandwidth": 3}),
        ({"chunk_size": "2KB", "boxes": 1}, {"chunk_size": 2000, "boxes": 1}),
        ({"chunk_size": 1}, {"chunk_size": 1}),
    ],
)
def test_options_of_imports(words: dict[str, Any], values: Mapping[str, Any]) -> None:
    options = import_options(**words)
    for name, value in values.items():
        assert getattr(options, name) == value
    assert import_options() == import_options(boxes=None, links=None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"boxes": 0}, "--boxes: expected at least 1, found 0"),
        ({"boxes": "two"}, "--boxes: expected at least 1, found two"),
        ({"chunk_size": 0}, "--chunk-size: expected at least 1, found 0"),
        ({"links": "x" * 50}, f"--links '{'x' * 40}': expected nominal or library"),
        ({"pcie": "nix"}, "--pcie 'nix': expected "),
    ],
)
def test_options_of_imports_that_are_none(words: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError) as caught:
        import_options(**words)
    assert str(caught.value).startswith(said)
