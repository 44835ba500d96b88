"""MSCCL++ execution plans: executed by the independent interpreter, mutated, compared with a golden file."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from typing import Any

import pytest

from samples.exchange_samples import alltoall, over_shortest_paths
from samples.forest_samples import star
from samples.program_cases import fabric, random_case
from treadle import planning, solve
from treadle.errors import FormatError, ScheduleError
from treadle.formats.mscclpp.block_programs import chunk_groups
from treadle.formats.mscclpp.interpreter import interpret_mscclpp_json
from treadle.formats.mscclpp.traffic import traffic
from treadle.formats.mscclpp.writer import MscclppLimits, emit_mscclpp_json
from treadle.formats.verdict import Terms
from treadle.program.passes import split_copies
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.program.steps.exchange_lowering import lower_exchange
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees
from treadle.topologies.catalogue.graphs import torus
from treadle.topologies.topology import Topology


def star_case(
    n: int, kind: CollectiveKind, *, in_place: bool, capable: bool, asked: bool = True, sends: bool = False
) -> tuple[Program, Topology]:
    """One tree per root, all ranks its children, through one switch; if that can, it copies and sums.

    It works for ranks that ask, or by itself unless `asked`; with `sends` the trees leave it unused.
    """
    topology = star(n, capable=capable, asked=capable and asked)

    def path(root: int, v: int, down: bool) -> tuple[int, ...]:
        links = (root, n + v) if down else (v, n + root)
        is_call = not capable or sends or v == (root + 1) % n
        return links if is_call else links[1:] if down else links[:1]

    def forest(direction: Direction) -> list[TreeSpec]:
        down = direction is Direction.BROADCAST
        return [
            TreeSpec(
                root,
                1,
                [-1 if v == root else root for v in range(n)],
                {v: [(path(root, v, down), 1)] for v in range(n) if v != root},
            )
            for root in range(n)
        ]

    reduce, broadcast = (
        forest_from_trees(way, n, forest(way)) for way in (Direction.REDUCE, Direction.BROADCAST)
    )
    schedule = ForestSchedule(
        kind,
        reduce=reduce if kind.reduces else None,
        broadcast=broadcast if kind.broadcasts else None,
    )
    return lower(topology, on_all_ranks(topology, kind), schedule, in_place=in_place), topology


def names(text: str) -> Counter[str]:
    """How often each operation occurs, those within pipelines too."""
    found: Counter[str] = Counter()
    for gpu in json.loads(text)["gpus"]:
        for block in gpu["threadblocks"]:
            for operation in block["ops"]:
                found[operation["name"]] += 1
                found.update(inner["name"] for inner in operation.get("ops", ()))
    return found


@pytest.mark.parametrize("pipeline_bytes", [0, 4096])
@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_emitted_plan_does_what_the_collective_asks(kind: CollectiveKind, pipeline_bytes: int) -> None:
    emitted, ways = 0, Counter[str]()
    for seed in range(14):
        topology, collective, schedule = random_case(seed, kind)
        program = lower(topology, collective, schedule, channels=1 + seed % 2, in_place=seed % 4 < 2)
        domains = [rank * (1 + seed % 3) // program.n_ranks for rank in range(program.n_ranks)]
        if collective.weights is not None and len(set(collective.weights)) > 1:
            with pytest.raises(ScheduleError, match="unequal shards"):
                emit_mscclpp_json(program, topology)
            continue
        cut = split_copies(program)
        if pipeline_bytes and all(len(set(cut.count[group].tolist())) > 1 for group in chunk_groups(cut)):
            with pytest.raises(ScheduleError, match="--pipeline would change nothing"):
                emit_mscclpp_json(program, topology, domains=domains, pipeline_bytes=pipeline_bytes)
            continue
        text = emit_mscclpp_json(program, topology, domains=domains, pipeline_bytes=pipeline_bytes)
        report = interpret_mscclpp_json(text, root=collective.root or 0)
        assert report.violations == ()
        assert report.n_ranks == program.n_ranks
        ways += names(text)
        emitted += 1
    assert emitted >= 5
    assert ways["pws"] + ways["pwsf"]
    assert not ways["flush"]
    assert ways["rre"] or not kind.reduces
    assert bool(ways["pipeline"]) == bool(pipeline_bytes)


@pytest.mark.parametrize("domains", [[0] * 9, [v // 3 for v in range(9)]])
def test_alltoall_in_steps(domains: list[int]) -> None:
    topology = torus(3, 3)
    collective = alltoall(topology)
    program = lower_exchange(topology, collective, over_shortest_paths(topology, collective), merge=False)
    text = emit_mscclpp_json(program, topology, domains=domains)
    assert interpret_mscclpp_json(text).violations == ()
    assert bool(names(text)["pws"] + names(text)["pwsf"]) == (len(set(domains)) > 1)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    ("kind", "operation"), [(CollectiveKind.ALLREDUCE, "glres"), (CollectiveKind.ALLGATHER, "gstore")]
)
def test_switches_copy_and_sum_where_the_plan_asks_them(
    kind: CollectiveKind, operation: str, in_place: bool
) -> None:
    for options, wanted in (
        ({"capable": True}, 5),
        ({"capable": False}, 0),
        # a switch that turns sums round by itself is none of NVLink
        ({"capable": True, "asked": False}, 0),
        # an operation would cross links that sends from rank to rank do not
        ({"capable": True, "sends": True}, 0),
    ):
        program, topology = star_case(5, kind, in_place=in_place, **options)
        text = emit_mscclpp_json(program, topology)
        assert names(text)[operation] == wanted
        assert interpret_mscclpp_json(text).violations == ()
        plain = emit_mscclpp_json(program, topology, switch_channels=False)
        assert names(plain)[operation] == 0
        assert interpret_mscclpp_json(plain).violations == ()


def mutants(base: dict[str, Any], seed: int, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Plans with one signal, wait or move dropped or doubled, or one index changed."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        plan = copy.deepcopy(base)
        block = rng.choice(rng.choice(plan["gpus"])["threadblocks"])
        operations = block["ops"]
        pipelines = [entry["ops"] for entry in operations if entry["name"] == "pipeline"]
        if pipelines and rng.random() < 0.8:
            operations = pipelines[0]
        place = rng.randrange(len(operations))
        entry = operations[place]
        if entry["name"] in ("nop", "pipeline"):
            continue  # some barriers are implied by others; `test_barriers_matter` drops those that are not
        how = rng.choice(("drop", "double", "shift"))
        if how == "drop":
            del operations[place]
        elif how == "double":
            if entry["name"] in ("put", "copy", "gstore"):
                continue  # writing the same twice, unread in between, harms nobody
            operations.insert(place, copy.deepcopy(entry))
        else:
            ends = [end for key in ("src_buff", "dst_buff") for end in entry.get(key, ())]
            if not ends:
                continue
            rng.choice(ends)["index"] += rng.choice((-1, 1))
        found.append((f"{how} {entry}", plan))
    return found


@pytest.mark.parametrize("pipeline_bytes", [0, 4096])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("capable", [False, True])
def test_every_mutation_is_caught(capable: bool, in_place: bool, pipeline_bytes: int) -> None:
    program, topology = star_case(4, CollectiveKind.ALLREDUCE, in_place=in_place, capable=capable)
    text = emit_mscclpp_json(
        program, topology, domains=[0, 0, 0, int(not capable)], pipeline_bytes=pipeline_bytes
    )
    assert interpret_mscclpp_json(text).violations == ()
    for what, plan in mutants(json.loads(text), 7, 30):
        assert is_broken(plan), what


def is_broken(plan: dict[str, Any]) -> bool:
    try:
        return bool(interpret_mscclpp_json(json.dumps(plan)).violations)
    except FormatError:
        return True


def test_limits_are_kept_or_named() -> None:
    def broadcast(messages: int) -> Program:
        sends = [Operation(OperationKind.SEND, i % 2, 1, peer=1) for i in range(messages)]
        receives = [Operation(OperationKind.RECEIVE, i % 2, 1, peer=0) for i in range(messages)]
        return program_from_operations(
            CollectiveKind.BROADCAST, [sends, receives], n_chunks=2, shard_offset=[0, 2, 2], root=0
        )

    topology = fabric(2, star=False)
    with pytest.raises(ScheduleError, match=r"needs \d+ operations, the limit is 64"):
        emit_mscclpp_json(broadcast(100), topology)
    program, topology = star_case(5, CollectiveKind.ALLGATHER, in_place=False, capable=False)
    tight = MscclppLimits(operations=12, thread_blocks=2)
    with pytest.raises(ScheduleError, match="thread blocks a rank"):
        emit_mscclpp_json(program, topology, limits=tight)
    with pytest.raises(ScheduleError, match="memory channels in a thread block, the limit is 3"):
        emit_mscclpp_json(program, topology, limits=MscclppLimits(channels=3))
    roomy = emit_mscclpp_json(program, topology, limits=MscclppLimits(operations=12))
    assert max(len(block["ops"]) for gpu in json.loads(roomy)["gpus"] for block in gpu["threadblocks"]) <= 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a b"}, "name 'a b'"),
        ({"min_bytes": 9, "max_bytes": 8}, "not a range"),
        ({"pipeline_bytes": 24}, "multiple of 16"),
        ({"domains": [0]}, "1 domains, expected one for each of 3 ranks"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    program, topology = star_case(3, CollectiveKind.ALLGATHER, in_place=False, capable=False)
    with pytest.raises((FormatError, ScheduleError), match=message):
        emit_mscclpp_json(program, topology, **options)


@pytest.mark.parametrize("kind", ["allgather", "allreduce"])
def test_only_what_stays_at_a_rank_is_a_copy(kind: str) -> None:
    text = planning.lower(solve("complete:3", kind).plan, to="mscclpp-json").text
    program = traffic(text.encode(), Terms()).program
    names = [
        operation["name"]
        for gpu in json.loads(text)["gpus"]
        for block in gpu["threadblocks"]
        for operation in block["ops"]
    ]
    assert program.operation_kind.tolist().count(OperationKind.COPY) == names.count("copy")


def test_what_blocks_heard_all_know_after_a_barrier() -> None:
    """Of rank 0 two blocks hear of what came; the third copies after it has met them, or at once."""
    plan = json.loads(planning.lower(solve("complete:3", "allgather").plan, to="mscclpp-json").text)
    for count in (0, 3):
        if count:
            barrier = {"name": "barrier", "barrier_id": 0, "num_threadblocks": count}
            sender, *hearers = (block["ops"] for block in plan["gpus"][0]["threadblocks"])
            sender.insert([operation["name"] for operation in sender].index("copy"), barrier)
            for operations in hearers:
                operations.append(barrier)
        program = traffic(json.dumps(plan).encode(), Terms()).program
        copied = next(
            one for one in program.operations(0) if program.operation_kind[one] == OperationKind.COPY
        )
        waits = program.waits[program.wait_offset[copied] : program.wait_offset[copied + 1]]
        assert program.operation_kind[waits].tolist() == [OperationKind.RECEIVE] * (2 if count else 0)
    sender.append(barrier)
    with pytest.raises(ScheduleError, match="barrier waits for ever"):
        traffic(json.dumps(plan).encode(), Terms())
