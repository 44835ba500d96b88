"""Which of a plan's in-network copies and sums an MSCCL++ text leaves to switches."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction

from treadle.errors import ScheduleError
from treadle.formats.request import Given
from treadle.program.program import Program
from treadle.schedules.collective import CollectiveKind

_SLOW = Fraction(5, 4)
"""How much longer than with equal shares the busiest asker's link may be busy."""


def requested_in(text: str) -> Given:
    """The operations of switches in a text of `emit_mscclpp_json`, which writes them into whole outputs."""
    stores: set[tuple[int, int]] = set()
    sums: set[tuple[int, int]] = set()
    if not any(name in text for name in ("gstore", "glres")):
        return Given(frozenset(), frozenset())  # most texts, which may be large
    for gpu in json.loads(text)["gpus"]:
        for block in gpu["threadblocks"]:
            for operation in (inner for outer in block["ops"] for inner in (outer, *outer.get("ops", ()))):
                if operation["name"] not in ("gstore", "glres"):
                    continue
                (target,) = operation["dst_buff"]
                chunks = range(target["index"], target["index"] + target["size"])
                stores.update((gpu["id"], chunk) for chunk in chunks)
                if operation["name"] == "glres":
                    sums.update((gpu["id"], chunk) for chunk in chunks)
    return Given(frozenset(stores), frozenset(sums))


def check_allocation(program: Program, asked: Given) -> None:
    """Refuse allreduces of which one rank asks for much more sums than its share.

    Raises
    ------
    ScheduleError
        With what passes so: the asker's link carries what it asks for besides its own data.
    """
    if not asked.sums or program.kind is not CollectiveKind.ALLREDUCE:
        return
    chunks = Counter(rank for rank, _ in asked.sums)
    rank, most = max(chunks.items(), key=lambda item: (item[1], -item[0]))
    share, fair = Fraction(most, len(asked.sums)), Fraction(1, program.n_ranks)
    if (1 + share) > _SLOW * (1 + fair):
        raise ScheduleError(
            f"MSCCL++: slow: rank {rank} asks its switch for {100 * float(share):.0f}% of the sums, so that "
            f"{100 / float(1 + share):.0f}% of its link's rate pass; {100 / float(1 + fair):.0f}% pass if "
            f"all {program.n_ranks} ranks ask for as much: use a plan with a root at every rank"
        )
