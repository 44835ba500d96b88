"""Tuner tables: what NCCL's example plugin would take, by a plugin of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from samples.plan_sets import plan_set, with_protocols
from treadle.errors import FormatError, InfeasibleError
from treadle.formats.format import find_format
from treadle.formats.verdict import Planned, Terms
from treadle.planning import Lowered, lower
from treadle.schedules.plan import Plan
from treadle.synthesis.trees.baselines.boxes import find_boxes

TWO_BOXES = ("dgx_a100:2", "allreduce", ("one-shot", "double-binary-tree", "ring"), (8192, 2**20))


LEFT_OUT = "sizes 0 to 8191: left out, NCCL chooses: one-shot is no algorithm of NCCL's"
SIMPLE = (
    "written with the protocol Simple, as the plan names none; NCCL itself takes LL or LL128 for small ones "
    "(--protocol)"
)
SHIPPED = (
    "the plugin as NVIDIA ships it sets 1 channel for every call, of rows with -1 and of no row: begin its "
    "pluginGetCollInfo with *nChannels = 0, or give --channels"
)


def taken(text: str, collective: str, size: int, nodes: int, ranks: int) -> tuple[str, str, int] | None:
    """Algorithm, protocol and channels (0: NCCL's, once the plugin begins with 0) of a call.

    As ``loadConfig`` and ``pluginGetCollInfo`` of plugins/tuner/example/plugin.c do it: unknown words are
    taken for allreduce, ring and simple, lines are cut after 255 characters, the first row that serves is
    taken.
    """
    rows = []
    for line in text.split("\n"):
        for part in (line[i : i + 255] for i in range(0, len(line), 255)):
            fields = [field.strip() for field in part.split(",")]
            if not part.startswith("#") and len(fields) >= 8:
                rows.append(fields)
    for kind, low, high, algorithm, protocol, channels, *rest in rows:
        known = kind if kind in ("broadcast", "reduce", "allgather", "reducescatter") else "allreduce"
        asked = zip((nodes, ranks, 1, 0), (int(field) for field in rest), strict=False)
        if known == collective and int(low) <= size <= int(high) and all(b in (-1, a) for a, b in asked):
            return algorithm, protocol, max(0, int(channels))
    return None


def terms(plan: Plan) -> Terms:
    boxes = find_boxes(plan.topology, plan.collective)
    schedule = plan.entries[-1].schedule
    return Terms(
        planned=Planned(plan.topology, plan.collective, schedule, lambda: boxes, ranges=plan.entries)
    )


def made(plan: Plan, **options: object) -> Lowered:
    found = lower(plan, to="nccl-tuner", **options)  # type: ignore[arg-type]
    assert found.faults == ()
    return found


def test_only_ranges_of_nccls_own_have_rows() -> None:
    found = made(plan_set(*TWO_BOXES))
    for size, algorithm in (
        (0, None),
        (8191, None),
        (8192, "tree"),
        (2**20 - 1, "tree"),
        (2**20, "ring"),
        (2**33, "ring"),
    ):
        row = taken(found.text, "allreduce", size, 2, 16)
        assert (None if row is None else row[0]) == algorithm
    for other in (("allgather", 2, 16), ("allreduce", 4, 16), ("allreduce", 2, 8)):
        assert taken(found.text, other[0], 2**20, *other[1:]) is None
    assert found.cautions == (
        LEFT_OUT,
        f"sizes 8192 to 1048575: {SIMPLE}",
        SHIPPED,
    )
    assert dict(found.loading.environment)["NCCL_TUNER_PLUGIN"] == "libnccl-tuner-example.so"


@pytest.mark.parametrize(
    ("case", "collective", "algorithm"),
    [
        (("dgx_h100(1, nvls=True)", "allreduce", ("ring", "nvls"), (4096,)), "allreduce", "nvls"),
        (("dgx_a100:2", "allgather", ("one-shot", "ring"), (4096,)), "allgather", "ring"),
        (("dgx_a100:2", "reduce-scatter", ("one-shot", "ring"), (4096,)), "reducescatter", "ring"),
        (("dgx_a100:1", "broadcast", ("double-binary-tree", "ring"), (4096,)), "broadcast", "ring"),
    ],
)
def test_rows_of_other_collectives(case: tuple[str, ...], collective: str, algorithm: str) -> None:
    plan = plan_set(*case)  # type: ignore[arg-type]
    nodes = len(find_boxes(plan.topology, plan.collective))
    row = taken(made(plan).text, collective, 2**20, nodes, plan.collective.n_ranks)
    assert row == (algorithm, "simple", 0)


def test_protocols_and_channels() -> None:
    plan = plan_set(*TWO_BOXES)
    found = made(plan, protocol="LL128", channels=8)
    assert found.cautions == (LEFT_OUT,)
    text = found.text
    assert taken(text, "allreduce", 2**20, 2, 16) == ("ring", "ll128", 8)
    cut = with_protocols(plan, (0, "LL"), (65536, "LL128"), (2**24, "Simple"))
    text = made(cut).text
    assert [taken(text, "allreduce", size, 2, 16) for size in (65535, 65536, 2**24 - 1, 2**24)] == [
        ("tree", "ll", 0),
        ("tree", "ll128", 0),
        ("ring", "ll128", 0),
        ("ring", "simple", 0),
    ]
    nvls = made(plan_set("dgx_h100(1, nvls=True)", "allreduce", ("nvls",), ()), protocol="LL")
    assert taken(nvls.text, "allreduce", 2**20, 1, 8) == ("nvls", "simple", 0)
    assert nvls.cautions == ("sizes 0 to any: NVLS has the protocol Simple alone", SHIPPED)
    assert made(plan_set("dgx_h100(1, nvls=True)", "allreduce", ("nvls",), ())).cautions == (SHIPPED,)
    for first, said in ((2**16 - 1, (f"sizes 65535 to any: {SIMPLE}",)), (2**16, ())):
        rings = made(plan_set("ring:3", "allgather", ("multitree", "ring"), (first,)))
        assert rings.cautions[1:] == (*said, SHIPPED)


def test_plans_without_any_of_nccls_own_are_refused() -> None:
    for plan, words in (
        (
            plan_set("dgx_a100:2", "allreduce", ("one-shot", "halving-doubling"), (4096,)),
            "no range is served",
        ),
        (plan_set("dgx_a100:1", "broadcast", ("double-binary-tree",), ()), "NCCL has no tree for broadcast"),
        (plan_set("torus:3,3", "alltoall", ("routes",), ()), "none to choose"),
    ):
        with pytest.raises(InfeasibleError, match=words):
            lower(plan, to="nccl-tuner")


def test_a_name_alone_makes_no_algorithm_of_nccls() -> None:
    plan = plan_set(*TWO_BOXES)
    false = replace(plan, entries=tuple(replace(entry, algorithm="ring") for entry in plan.entries))
    text = made(false).text
    assert taken(text, "allreduce", 0, 2, 16) is None
    assert taken(text, "allreduce", 2**20, 2, 16) == ("ring", "simple", 0)


def mutants(text: str) -> Iterator[tuple[str, str]]:
    heading, tree, ring, _ = text.split("\n")
    yield "tree for ring", text.replace(",tree,", ",ring,")
    yield "too early", text.replace(",8192,", ",8000,")
    yield "too late", text.replace(",8192,", ",8200,")
    yield "too short", text.replace(f",{2**64 - 1},", f",{2**30},")
    yield "too long", text.replace(f",{2**20 - 1},", f",{2**21},")
    yield "no tree", "\n".join((heading, ring, ""))
    yield "all sizes first", "\n".join((heading, ring.replace(f",{2**20},", ",0,"), tree, ring, ""))
    yield "other ranks", text.replace(",2,16,", ",2,32,")
    yield "any ranks", text.replace(",2,16,", ",2,-1,")
    yield "other boxes", text.replace(",2,16,", ",4,16,")
    yield "another collective", text.replace("allreduce", "allgather")
    yield "one pipe", text.replace(",-1,-1", ",4,-1")


def test_the_judge_finds_wrong_rows() -> None:
    plan = plan_set(*TWO_BOXES)
    text, record = made(plan).text, find_format("nccl-tuner")
    assert record.interpreted([text.encode()], terms(plan)).violations == ()
    for words, other in mutants(text):
        assert other != text
        assert record.interpreted([other.encode()], terms(plan)).violations, words


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("allreduces,0,1,ring,ll,1,1,1", "'allreduces': expected broadcast"),
        ("allreduce,0,1,rings,ll,1,1,1", "'rings': expected tree"),
        ("allreduce,0,1,ring,Simple,1,1,1", "'Simple': expected ll"),
        ("allreduce,0,1,ring,ll,1,1", "7 fields, expected 8 to 10"),
        ("allreduce,0,1,ring,ll,1,1,1,1,1,1", "11 fields"),
        ("allreduce,2,1,ring,ll,1,1,1", "serves no call"),
        ("allreduce,0,1,ring,ll,0,1,1", "serves no call"),
        ("allreduce,-1,1,ring,ll,1,1,1", "'-1': expected 0 to"),
        ("allreduce,0,99999999999999999999,ring,ll,1,1,1", "expected 0 to"),
        ("allreduce,0,1,ring,ll,1e3,1,1", "'1e3': expected -1 to"),
        ("allreduce,0,1,ring,ll,1,1,1" + " " * 250, "longer than the plugin reads"),
        ("", "holds no row"),
    ],
)
def test_what_the_plugin_would_misread_is_refused_with_its_line(row: str, words: str) -> None:
    heading = "# collective_type,min_bytes,max_bytes,algorithm"
    with pytest.raises(FormatError, match=words):
        find_format("nccl-tuner").interpreted([f"{heading}\n{row}\n".encode()], Terms())
    with pytest.raises(FormatError, match="comment that names the columns"):
        find_format("nccl-tuner").interpreted([b"allreduce,0,1,ring,ll,1,1,1\n"], Terms())
