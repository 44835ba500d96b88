"""NCCL graphs against plans: damages that NCCL would turn into other rings are seen."""

from __future__ import annotations

import re

import pytest

from treadle import planning
from treadle.errors import FormatError
from treadle.formats.nccl.interpreter import interpret
from treadle.formats.verdict import Check, Planned, Terms, Verdict
from treadle.schedules.plan import Plan
from treadle.synthesis.trees.baselines.boxes import find_boxes


def ring_plan(fabric: str, collective: str = "allgather") -> Plan:
    return planning.solve(fabric, collective, algorithm="ring").plan


def written(plan: Plan) -> list[bytes]:
    return [data for _, data in planning.lower(plan, to="nccl-graph").files]


def judged(files: list[bytes], plan: Plan) -> Verdict:
    boxes = find_boxes(plan.topology, plan.collective)
    planned = Planned(plan.topology, plan.collective, plan.entries[-1].schedule, lambda: boxes)
    return interpret(files, Terms(planned=planned))


@pytest.mark.parametrize("fabric", ["ring(5)", "dgx_a100(2)", "mi250(1)"])
@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
def test_what_is_written_is_the_plans(fabric: str, collective: str) -> None:
    plan = ring_plan(fabric, collective)
    found = judged(written(plan), plan)
    (channels,) = {data.count(b"<channel>") for data in written(plan)}
    assert found == Verdict(
        Check.COMPARED,
        (),
        (("channel", channels), ("file", len(written(plan)))),
        plan.collective.n_ranks,
        detail=", its rings joined as NCCL joins boxes",
    )


def test_without_a_plan_a_graph_is_only_parsed() -> None:
    found = interpret(written(ring_plan("ring(5)")), Terms())
    assert (found.check, found.n_ranks) == (Check.PARSED, 5)
    assert found.summary == "parsed back; nothing executed"
    found = interpret(written(ring_plan("dgx_a100(2)")), Terms())
    assert (found.counts, found.n_ranks) == ((("channel", 8), ("file", 2)), 16)
    with pytest.raises(FormatError, match=r"^NCCL graph: not well-formed"):
        interpret([b"<graphs"], Terms())
    with pytest.raises(FormatError, match=r"^box1\.xml: not well-formed"):
        interpret([b"<graphs"], Terms(source="box1.xml"))


def test_other_orders_of_devices_are_other_rings() -> None:
    plan = ring_plan("ring(5)")
    (text,) = written(plan)
    gpus = re.findall(rb'<gpu dev="\d"/>', text)
    swapped = text.replace(gpus[1], b"first", 1).replace(gpus[2], gpus[1], 1).replace(b"first", gpus[2], 1)
    assert judged([swapped], plan).violations == ("NCCL would join other rings than the plan's",)


def test_channels_share_the_data_as_the_plan_does() -> None:
    """Both rings of the file are the plan's, but one would carry two thirds."""
    plan = ring_plan("ring(5)")
    (text,) = written(plan)
    channel = re.findall(rb"<channel>.*?</channel>", text, re.DOTALL)[0]
    twice = text.replace(channel, channel * 2, 1).replace(b'nchannels="2"', b'nchannels="3"')
    assert judged([twice], plan).violations == ("NCCL would join other rings than the plan's",)


def test_boxes_cards_and_files_are_the_plans() -> None:
    plan = ring_plan("dgx_a100(2)")
    first, second = written(plan)
    assert judged([first, second], plan).violations == ()
    assert "other rings" in judged([second, first], plan).violations[0]
    assert judged([first, second, second], plan).violations == ("3 files for 2 boxes",)
    card = re.findall(rb'<net dev="(\d)"/>', first)[0]
    moved = first.replace(b'<net dev="%s"/>' % card, b'<net dev="9"/>', 1)
    (fault,) = judged([moved, second], plan).violations
    assert fault == "box 0: channel 0 does not come and go by the cards of its first and last device"
    alone = ring_plan("ring(8)")
    assert judged([first], alone).violations == (
        "NCCL would join other rings than the plan's",
        *(
            f"box 0: channel {place} does not come and go by the cards of its first and last device"
            for place in range(8)
        ),
    )
    (short,) = written(ring_plan("ring(5)"))
    assert judged([short], alone).violations[0] == "box 0: a channel passes 5 devices, the box has 8"
