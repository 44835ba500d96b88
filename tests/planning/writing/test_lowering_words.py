"""What lowering refuses, word by word; files of sets; and which other numbers of trees are looked at."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from samples.plan_sets import plan_set, with_protocols
from treadle import planning
from treadle.api.lower import _group_numbers
from treadle.errors import InfeasibleError, ScheduleError, TreadleError
from treadle.formats.selection.supported_sizes import FileFacts, Selector
from treadle.lowering import friendlier
from treadle.lowering.friendlier import FEW, MOST_TREES, friendlier_trees
from treadle.lowering.lower import _check_root, _lowered_group, _profile
from treadle.lowering.lowered import FriendlierTrees, LoweredGroup
from treadle.planning import find_format, lower, lower_groups, lower_set, make_problem, solve
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import ForestSchedule


def said(call: Any, error: type[TreadleError] = ScheduleError) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_profiles() -> None:
    assert _profile("rccl") is planning.Profile.RCCL
    known = ", ".join(planning.Profile)
    assert said(lambda: _profile("x" * 50)) == f"unknown profile {'x' * 40!r}; expected one of {known}"


def test_roots_that_runtimes_do_not_compare() -> None:
    record, none = find_format("msccl-xml"), find_format("nccl-graph")
    rooted, plain = (
        make_problem("ring:4", "broadcast", root=2).collective,
        make_problem("ring:4", "allgather").collective,
    )
    assert "accept_any_root" in record.options
    _check_root(record, rooted, accept_any_root=True)
    _check_root(record, plain, accept_any_root=False)
    _check_root(none, rooted, accept_any_root=False)
    assert said(lambda: _check_root(record, plain, accept_any_root=True)) == (
        "--accept-any-root is for broadcast and reduce; allgather has no root"
    )
    assert said(lambda: _check_root(record, rooted, accept_any_root=False)) == (
        "msccl-xml: the runtime compares everything but the root, so the text of root 2 would be chosen for "
        "a broadcast of any root and give wrong data; where all calls have that root, --accept-any-root"
    )


@pytest.mark.parametrize("kind", ["allgather", "allreduce", "alltoall"])
def test_nodes_that_forward_have_no_program(kind: str) -> None:
    """The ends of a path of three reach each other over the middle."""
    words: Any = {} if kind == "alltoall" else {"algorithm": "forestcoll"}
    plan = solve("path:3", kind, ranks="0,2", forward=True, **words).plan
    assert said(lambda: lower(plan), InfeasibleError) == (
        "the plan's paths pass compute node 'n1', which is no rank; msccl-xml has no program for it; "
        "solve without --forward"
    )


def grouped() -> planning.SolveResult:
    return solve("ring:4", "allgather", mesh="2,2", axes="1")


def test_groups_have_a_text_each() -> None:
    plan = grouped().plan
    assert _group_numbers(plan) == [0, 1]
    assert _group_numbers(solve("ring:4", "allgather").plan) == [None]
    assert _lowered_group(plan, 1) == LoweredGroup(1, (2, 3), "group1-ranks2-3")
    assert _lowered_group(plan, None) is None
    made = lower_groups(plan)
    assert [one.group for one in made] == [_lowered_group(plan, number) for number in (0, 1)]
    assert lower(plan, group=1).group == made[1].group
    assert lower(solve("ring:4", "allgather")).group is None
    for call in (lambda: lower(plan, group=2), lambda: lower(plan), lambda: lower_groups(plan, paths=["a"])):
        assert said(call)
    assert said(lambda: lower_set(plan)) == "the plan is of 2 groups at once, and a set is for one"
    assert lower_set(plan, group=1).files_by_range[0].n_ranks == 2


def test_ranks_of_a_text() -> None:
    plan = solve("ring:4", "allgather").plan
    record = next(one for one in planning.all_formats() if "rank" in one.options)
    for rank in (-1, 4):
        assert (
            said(lambda rank=rank: lower(plan, to=record.name, rank=rank)) == f"rank {rank}: expected 0 to 3"
        )
    assert said(lambda: lower(grouped().plan, to=record.name, rank=2, group=0)) == "rank 2: expected 0 to 1"


def two() -> Any:
    return plan_set("ring:4", "allgather", ("one-shot", "ring"), (2048,))


def test_one_text_is_for_one_range() -> None:
    plan = two()
    assert said(lambda: lower(plan)) == (
        "the plan has 2 ranges of sizes, and a text of msccl-xml is for one; lower_set writes a folder with "
        "a text for each, size_bytes (--size) takes the one of a size"
    )
    without = next(
        one
        for one in planning.own_formats()
        if not one.holds_ranges and not one.deliver and one.name == "cpu-xml"
    )
    assert said(lambda: lower(plan, to=without.name)) == (
        "the plan has 2 ranges of sizes, and a text of cpu-xml is for one; its runtimes choose by no size, "
        "size_bytes (--size) takes the one of a size"
    )
    assert said(lambda: lower_set(plan, to="cpu-xml")) == (
        "cpu-xml: no runtime chooses from several such texts by size; lower one (--size)"
    )
    for size, algorithm in ((2047, "one-shot"), (2048, "ring")):
        alone = lower(plan, size_bytes=size)
        whole = solve("ring:4", "allgather", algorithm=algorithm)
        assert alone.n_operations == lower(whole).n_operations


def test_files_of_a_set() -> None:
    """Numbered in their order, with both ends of their sizes; the protocol of each."""
    plan = with_protocols(two(), (0, "LL"), (512, "Simple"))
    found = lower_set(plan, label="my set", name="own")
    main = [one for one in found.ranges if not one.text.fills_in]
    assert [one.text.file for one in main] == [
        "texts/my-set.01.0B-511B.xml",
        "texts/my-set.02.512B-2KB.xml",
        "texts/my-set.03.2KB-.xml",
    ]
    assert [(one.text.min_bytes, one.text.max_bytes) for one in main] == [(0, 511), (512, 2047), (2048, None)]
    assert [one.protocol for one in main] == ["LL", "Simple", "Simple"]
    assert [one.algorithm for one in main] == ["one-shot", "one-shot", "ring"]
    for number, one in enumerate(main, 1):
        assert f'name="own-{number:02}"'.encode() in one.text.data
    assert [one.sizes for one in main] == ["to 511B", "from 512B to below 2KB", "from 2KB"]
    assert {one.text.plan for one in found.ranges} == {"my-set"}
    assert {one.text.root for one in found.ranges} == {-1}
    assert (found.format, found.dialect, found.left_out, found.faults) == ("msccl-xml", "azure", (), ())
    assert found.files_by_range == tuple(one.text for one in found.ranges)
    placed = lower_set(plan, label="my set", in_place=True)
    assert placed.ranges[0].text.file.startswith("texts/my-set.in-place.01.")
    assert placed.ranges[0].text.in_place
    one = lower_set(plan, protocol="LL")
    assert [part.protocol for part in one.ranges if not part.text.fills_in] == ["LL", "LL"]
    part = lower_set(plan, min_size_bytes=600, max_size_bytes="1K")
    assert [(text.min_bytes, text.max_bytes) for text in part.files_by_range if not text.fills_in] == [
        (600, 1024)
    ]
    rooted = lower_set(solve("ring:4", "broadcast", root=2), accept_any_root=True)
    assert rooted.files_by_range[0].root == 2


def test_the_legacy_runtime_reads_few_texts() -> None:
    names = ("one-shot", "ring", "one-shot", "ring", "one-shot")
    many = plan_set("ring:4", "allgather", names, (2**12, 2**14, 2**16, 2**18))
    four = plan_set("ring:4", "allgather", names[:4], (2**12, 2**14, 2**16))
    assert len(lower_set(four, profile="legacy").files_by_range) == 4
    assert said(lambda: lower_set(many, profile="legacy"), InfeasibleError) == (
        "5 texts, and the legacy runtime reads 4 in all; solve with --max-schedules 4, or fewer for several "
        "collectives"
    )
    cut = with_protocols(four, (0, "LL"), (2**13, "Simple"))
    assert said(lambda: lower_set(cut, profile="legacy"), InfeasibleError).endswith(
        "or fewer for several collectives, lower with --protocol Simple"
    )


def test_shapes_of_friendlier_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers whose texts serve enough sizes; of these the fastest, of equal ones the fewest trees."""
    plan = solve("ring:4", "allgather").plan
    schedule: Any = plan.entries[0].schedule
    assert isinstance(schedule, ForestSchedule)
    facts = FileFacts(CollectiveKind.ALLGATHER, 4, 12)
    assert (FEW, MOST_TREES) == (17, 16)
    sizes = dict.fromkeys(range(1, 17), 3) | {2: 17, 4: 18, 8: 21, 16: 17}
    here = [5]

    def served(given: FileFacts, selector: Selector) -> tuple[int, ...]:
        return (0,) * (here[0] if given is facts else sizes[given.n_chunks // 4])

    rates = {2: Fraction(1), 4: Fraction(2), 8: Fraction(2), 16: Fraction(3, 2)}
    asked: list[list[int]] = []

    def found(plan: Any, numbers: list[int]) -> dict[int, Fraction]:
        asked.append(numbers)
        return {number: rates.get(number, Fraction(1)) for number in numbers}

    monkeypatch.setattr(friendlier, "supported_call_sizes", served)
    monkeypatch.setattr(friendlier, "_rates", found)
    claimed = replace(plan, algbw=Fraction(5, 2))

    def told(given: Any = schedule, of: Any = facts) -> FriendlierTrees | None:
        return friendlier_trees(claimed, given, of, Selector.AZURE)

    assert told() == FriendlierTrees(4, 18, Fraction(1, 5))
    assert asked == [[2, 4, 8, 16]]
    here[0] = 16
    assert told() is not None
    here[0] = 17
    assert told() is None
    here[0] = 5
    sizes.update({2: 6, 4: 6, 8: 5, 16: 5})
    assert told() == FriendlierTrees(4, 6, Fraction(1, 5)), "or else the most"
    assert asked[-1] == [2, 4]
    sizes.update({2: 5, 4: 5})
    assert told() is None
    sizes[1] = 21
    claimed = replace(plan, algbw=Fraction(1, 2))
    assert told() == FriendlierTrees(1, 21, Fraction(0)), "no loss below nothing"
    assert told(solve("ring:4", "allgather", algorithm="bfb").plan.entries[0].schedule) is None
    uneven: Any = SimpleNamespace(root_multiplicity=np.array([1, 2]), __class__=ForestSchedule)
    assert told(uneven) is None
    assert (
        friendlier_trees(claimed, schedule, replace(facts, kind=CollectiveKind.ALLREDUCE), Selector.AZURE)
        is None
    )


@pytest.mark.parametrize(("ranks", "is_looked_at"), [(256, True), (257, False)])
def test_friendlier_trees_of_many_ranks(
    ranks: int, is_looked_at: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(friendlier, "_rates", lambda plan, numbers: dict.fromkeys(numbers, Fraction(1)))
    plan = solve("ring:4", "allgather").plan
    facts = FileFacts(CollectiveKind.ALLGATHER, ranks, 3 * ranks)
    monkeypatch.setattr(
        friendlier, "supported_call_sizes", lambda given, selector: (0,) * (given is not facts) * 20
    )
    found = friendlier_trees(plan, cast(Any, plan.entries[0].schedule), facts, Selector.AZURE)
    assert (found is not None) is is_looked_at
