"""Every scheduler's plans on small fabrics as lanes of the device runtime, as threads, every byte checked.

`make lanes`, or `python -m tools.lane_universe [WORD]`: the schedulers whose name has the word. All
collectives in and out of place, both protocols, one and four threads a block, four launches in a row; each
program of lanes is proved right in all orders first. Plans that no program of ranks can express are counted
apart.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from treadle import planning
from treadle.errors import InfeasibleError, MissingDependencyError, ScheduleError
from treadle.planning import program_of
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.emulated import measure_emulated
from treadle.schedulers.schedulers import schedulers
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan

_FABRICS = (
    "ring:4",
    "complete:4",
    "hypercube:2",
    "mesh:2,3",
    "hypercube:3",
    "double_binary_tree:6",
    "kautz:2,1",
    "dgx_a100:2,2",
    "dgx_a100_flat:2,2",
    "dgx_h100(1, gpus_per_box=4, nvls=True)",
)
"""Rings, grids, trees, one direction only, boxes, and a switch that sums."""
_SIZES = (20, 4100, 40_000)
_THREADS = (1, 4)


def main(arguments: Sequence[str]) -> int:
    """A line for each scheduler; 1 where an element was wrong."""
    word = arguments[0] if arguments else ""
    total: Counter[str] = Counter()
    for name in [one.name for one in schedulers(plug_ins=False) if word in one.name]:
        found: Counter[str] = Counter()
        for plan in _plans(name, found):
            _run(plan, found)
        print(
            f"{name:26}" + ", ".join(f"{count} {what}" for what, count in sorted(found.items())), flush=True
        )
        total += found
    print("all: " + ", ".join(f"{count} {what}" for what, count in sorted(total.items())))
    return 1 if total["elements wrong"] or not total["runs"] else 0


def _plans(name: str, found: Counter[str]) -> Iterator[Plan]:
    (one,) = (one for one in schedulers(plug_ins=False) if one.name == name)
    for fabric in _FABRICS:
        for kind in one.collectives:
            problem = planning.make_problem(fabric, kind)
            if one.unsupported(problem.topology, problem.collective) is not None:
                continue
            try:
                yield planning.solve(problem.topology, kind, algorithm=name).plan
            except (ScheduleError, InfeasibleError, MissingDependencyError):
                found["plans refused"] += 1


def _run(plan: Plan, found: Counter[str]) -> None:
    kind = plan.collective.kind
    for in_place in (False, True)[: 1 if kind is CollectiveKind.ALLTOALL else 2]:
        try:
            program = program_of(plan, 1024, in_place=in_place)
        except (ScheduleError, InfeasibleError):
            found["plans without a program"] += 1
            return
        for threads in _THREADS:
            rows = measure_emulated(
                program,
                _SIZES,
                switches=plan.topology,
                device_protocols=tuple(DeviceProtocol),
                threads=threads,
                slice_bytes=512,
            )
            found["runs"] += len(rows)
            found["elements wrong"] += sum(row.wrong for row in rows)
    found["plans run"] += 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
