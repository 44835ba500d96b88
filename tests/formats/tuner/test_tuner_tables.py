"""Tuner tables: what NCCL's example plugin would take, by a plugin of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from samples.plan_sets import plan_set
from treadle.formats.format import find_format
from treadle.formats.verdict import Planned, Terms
from treadle.planning import Lowered, lower
from treadle.schedules.plan import Plan
from treadle.synthesis.trees.baselines.boxes import find_boxes

TWO_BOXES = ("dgx_a100:2", "allreduce", ("one-shot", "double-binary-tree", "ring"), (8192, 2**20))


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
