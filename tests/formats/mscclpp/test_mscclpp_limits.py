"""MSCCL++ plans at the limits of the executor's tables and one beyond, and refusals word for word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.mscclpp.test_mscclpp_json import star_case
from treadle.errors import ScheduleError
from treadle.formats.mscclpp.traffic import traffic
from treadle.formats.mscclpp.writer import emit_mscclpp_json
from treadle.formats.verdict import Terms
from treadle.schedules.collective import CollectiveKind

GATHER, STAR = star_case(5, CollectiveKind.ALLGATHER, in_place=False, capable=False)


def written(**options: Any) -> dict[str, Any]:
    """An allgather of five chunks."""
    plan: dict[str, Any] = json.loads(emit_mscclpp_json(GATHER, STAR, **options))
    return plan


@pytest.mark.parametrize(
    ("kind", "name"), [(CollectiveKind.ALLGATHER, "gstore"), (CollectiveKind.ALLREDUCE, "glres")]
)
def test_what_asks_a_switch_names_none_of_a_fabrics(kind: CollectiveKind, name: str) -> None:
    program, topology = star_case(3, kind, in_place=True, capable=True)
    text = emit_mscclpp_json(program, topology)
    with pytest.raises(ScheduleError) as caught:
        traffic(text.encode(), Terms(source="a.json"))
    source, where, said = str(caught.value).split(": ")
    assert (source, where.split()[0]) == ("a.json", "gpu")
    assert said == f"{name} is an in-network operation, and the plan does not name its switch"


def test_a_channel_that_only_one_end_has_leads_nowhere() -> None:
    plan = written()
    (channels,) = plan["gpus"][1]["channels"]
    channels["connected_to"] = [2, 2, *channels["connected_to"][2:]]
    with pytest.raises(ScheduleError) as caught:
        traffic(json.dumps(plan).encode(), Terms(source="a"))
    assert str(caught.value) == "a: gpu 0 threadblock 0 op 0: a channel has no other end"
