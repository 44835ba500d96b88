"""MSCCL++ plans of protocol LL: executed, mutated, and each rule of packets broken by itself."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from samples.program_cases import random_case
from treadle import planning, solve
from treadle.errors import FormatError, InfeasibleError, ScheduleError
from treadle.formats.mscclpp.interpreter import interpret_mscclpp_json
from treadle.formats.mscclpp.writer import emit_mscclpp_json
from treadle.mscclpp.plan_rows import read_row
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind

Text = dict[str, Any]


def violations(plan: Text, root: int = 0) -> str:
    return "; ".join(interpret_mscclpp_json(json.dumps(plan), root=root).violations)


def operations(plan: Text, name: str = "") -> list[tuple[list[Text], int]]:
    """Places of operations, as list and index."""
    return [
        (block["ops"], at)
        for gpu in plan["gpus"]
        for block in gpu["threadblocks"]
        for at, operation in enumerate(block["ops"])
        if name in ("", operation["name"])
    ]


def written(fabric: str = "complete:3", kind: str = "allreduce", **options: Any) -> Text:
    plan = solve(fabric, kind).plan
    made = planning.lower(plan, to="mscclpp-json", protocol="LL", max_size_bytes=2**18, **options)
    assert made.faults == ()
    found: Text = json.loads(made.text)
    return found


def mutated(base: Text, rng: random.Random) -> Text | None:
    """One operation left out, doubled or moved by a chunk; None where that may change nothing."""
    plan = copy.deepcopy(base)
    found, at = rng.choice(operations(plan))
    if found[at]["name"] == "nop":
        return None  # one before packets that are read is written for none
    how = rng.choice(("drop", "double", "shift"))
    if how == "double" and found[at]["name"] in ("upkt", "repkt"):
        return None  # each thread writes what it wrote before
    ends = [end for key in ("src_buff", "dst_buff") for end in found[at].get(key, ())]
    if how == "drop":
        del found[at]
    elif how == "double":
        found.insert(at, copy.deepcopy(found[at]))
    elif ends:
        rng.choice(ends)["index"] += rng.choice((-1, 1))
    else:
        return None
    return plan


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_plans_do_what_the_collective_asks_and_mutants_do_not(kind: CollectiveKind) -> None:
    rng, tried, ways = random.Random(5), 0, Counter[str]()
    for seed in range(6):
        topology, collective, schedule = random_case(seed, kind)
        if collective.weights is not None and len(set(collective.weights)) > 1:
            continue
        root = collective.root or 0
        program = lower(topology, collective, schedule, channels=1 + seed % 2, in_place=seed % 4 < 2)
        text = emit_mscclpp_json(program, topology, protocol="LL", max_bytes=2**18)
        assert interpret_mscclpp_json(text, root=root).violations == ()
        base = json.loads(text)
        ways.update(found[at]["name"] for found, at in operations(base))
        for _ in range(20):
            plan = mutated(base, rng)
            if plan is None:
                continue
            tried += 1
            with suppress(FormatError):
                assert violations(plan, root), plan
    assert tried >= 10
    assert ways["ppkt"]
    assert ways["rppkt"] or not kind.broadcasts
    assert ways["respkt"] or not kind.reduces
    assert not ways["wait"] + ways["put"] + ways["rre"]


def test_the_command_s_options_and_what_cannot_be() -> None:
    plan = written()
    assert (plan["protocol"], plan["use_double_scratch_buffer"], plan["max_message_size"]) == (
        "LL",
        False,
        2**18,
    )
    for fabric, options, message in (
        ("complete:3", {"protocol": "LL128", "max_size_bytes": 2**18}, "mscclpp-json has Simple, LL"),
        ("complete:3", {"protocol": "LL"}, "say --max-size"),
        ("complete:3", {"protocol": "LL", "max_size_bytes": 2**32 - 1}, "within 32 bits"),
        ("complete:3", {"protocol": "LL", "max_size_bytes": 2**18, "pipeline_bytes": 64}, "--pipeline out"),
        ("dgx_a100:2,2", {"protocol": "LL", "max_size_bytes": 2**18}, "ranks 0 and 2 are in two"),
    ):
        with pytest.raises((ScheduleError, InfeasibleError, FormatError), match=message):
            planning.lower(solve(fabric, "allgather").plan, to="mscclpp-json", **options)


def test_a_fabric_s_messages_are_the_same_in_both_protocols(tmp_path: Path) -> None:
    """Packets of `written` take the simulated time of puts, and MSCCL++ would be handed their calls."""
    plan = solve("dgx_a100:1,4", "allreduce").plan
    times = []
    for protocol in ("Simple", "LL"):
        made = planning.lower(plan, to="mscclpp-json", protocol=protocol, max_size_bytes=2**20, instances=1)
        (tmp_path / "plan.json").write_text(made.text, encoding="utf-8")
        row = read_row(tmp_path / "plan.json", None)
        assert (row.last_bytes, len(row.neighbours)) == (2**20, 12)
        times.append(planning.simulate(tmp_path / "plan.json", [2**20], topology=plan.topology).rows[0].time)
    assert times[0] == times[1]


def shifted_scratch(plan: Text) -> None:
    """Other data where packets lie: what is copied to the output goes by scratch."""
    found, at = operations(plan, "upkt")[0]
    target = found[at]["dst_buff"][0]
    own = {"type": "s", "index": 1, "size": target["size"]}
    found[at]["dst_buff"] = [own]
    copied = {"name": "copy", "src_buff": [dict(own)], "dst_buff": [target]}
    found[at + 1 : at + 1] = [{"name": "nop"}, copied]


def without(*names: str) -> Callable[[Text], None]:
    def change(plan: Text) -> None:
        for gpu in plan["gpus"]:
            for block in gpu["threadblocks"]:
                block["ops"] = [one for one in block["ops"] if one["name"] not in names]

    return change


def through_port(plan: Text) -> None:
    found, at = operations(plan, "ppkt")[0]
    found[at]["channel_type"] = "port"


def second(plan: Text) -> None:
    found, at = operations(plan, "ppkt")[0]
    found.insert(at, copy.deepcopy(found[at]))


def in_pipeline(plan: Text) -> None:
    found, at = operations(plan, "upkt")[0]
    context = {"unit_size": 16, "num_chunks": 1}
    found[at] = {"name": "pipeline", "iter_context": context, "ops": [found[at]]}


def unequal(plan: Text) -> None:
    found, at = operations(plan, "respkt")[0]
    del found[at]["src_buff"][1:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("upkt"), "nobody reads the packets"),
        (second, "a second time"),
        (shifted_scratch, "lie where other data do"),
        (without("rlxsignal", "rlxwait"), "may still read packets of the launch before"),
        (without("ppkt"), "waits for ever"),
        (unequal, "does not take these"),
        (lambda plan: plan.update(max_message_size=2**33), "offsets of 32 bits"),
    ],
)
def test_each_rule_of_packets(change: Callable[[Text], None], message: str) -> None:
    plan = written()
    change(plan)
    assert message in violations(plan)


def test_packets_through_ports_need_ports() -> None:
    plan = written()
    through_port(plan)
    with pytest.raises(FormatError, match="integer from 0 to -1"):
        violations(plan)


def test_packets_in_pipelines_move_as_a_whole_in_every_turn() -> None:
    plan = written()
    in_pipeline(plan)
    assert violations(plan) == ""
    found, at = operations(plan, "ppkt")[0]
    found[at] = {"name": "pipeline", "iter_context": {"unit_size": 16, "num_chunks": 1}, "ops": [found[at]]}
    assert "a second time" in violations(plan)


def test_scratch_of_protocol_simple_has_no_room_for_flags() -> None:
    """The same packets fit if scratch has twice the chunks."""
    plan = written()
    plan["protocol"] = "Simple"
    assert "no room for flags in protocol Simple" in violations(plan)
    for gpu in plan["gpus"]:
        gpu["scratch_chunks"] *= 2
    assert violations(plan) == ""


def test_double_scratch_asks_that_all_who_are_written_to_are_heard_of() -> None:
    """An allreduce brings word of everyone; a broadcast's root hears of nobody."""
    plan = written()
    without("rlxsignal", "rlxwait")(plan)
    plan["use_double_scratch_buffer"] = True
    assert violations(plan) == ""
    rooted = written(kind="broadcast", accept_any_root=True)
    assert violations(rooted) == ""
    without("rlxsignal", "rlxwait")(rooted)
    rooted["use_double_scratch_buffer"] = True
    assert "two launches on" in violations(rooted)
