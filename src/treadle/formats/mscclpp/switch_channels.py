"""Finds the in-network operations of an MSCCL++ plan, and rejects an unequal distribution of sums."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction

from treadle.errors import ScheduleError
from treadle.formats.request import Given
from treadle.program.program import Program
from treadle.schedules.collective import CollectiveKind

_SLOW = Fraction(5, 4)
"""Largest busy time of a link, relative to equal shares of the ranks."""


def requested_in(text: str) -> Given:
    """Return the in-network operations of a plan, which `emit_mscclpp_json` writes into entire outputs."""
    if not any(name in text for name in ("gstore", "glres")):
        return Given()  # Parsing is slow, and most files have none.
    used = [
        (gpu["id"], operation)
        for gpu in json.loads(text)["gpus"]
        for block in gpu["threadblocks"]
        for outer in block["ops"]
        for operation in (outer, *outer.get("ops", ()))
    ]

    def chunks(*names: str) -> frozenset[tuple[int, int]]:
        targets = [(rank, one["dst_buff"]) for rank, one in used if one["name"] in names]
        return frozenset((rank, to["index"] + at) for rank, (to,) in targets for at in range(to["size"]))

    return Given(stores=chunks("gstore", "glres"), sums=chunks("glres"))


def check_allocation(program: Program, asked: Given) -> None:
    """Raise ScheduleError for an allreduce in which one rank triggers much more than its share of the sums.

    The link of a rank carries the sums that it triggers in addition to its own data.
    """
    if not asked.sums or program.kind is not CollectiveKind.ALLREDUCE:
        return
    chunks = Counter(rank for rank, _ in asked.sums)
    rank, most = max(chunks.items(), key=lambda item: (item[1], -item[0]))
    share, fair = Fraction(most, len(asked.sums)), Fraction(1, program.n_ranks)
    if (1 + share) > _SLOW * (1 + fair):
        raise ScheduleError(
            f"MSCCL++: slow: rank {rank} triggers {100 * float(share):.0f}% of the in-network sums, so that "
            f"{100 / float(1 + share):.0f}% of its link's rate pass; {100 / float(1 + fair):.0f}% pass if "
            f"all {program.n_ranks} ranks trigger as many; use a plan with a root at every rank"
        )
