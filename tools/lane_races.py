"""The device runtime's lanes as threads, built with ThreadSanitizer: data that two threads race for.

`make races`, or `python -m tools.lane_races`. All six collectives in and out of place, both protocols, one
and three threads a block, four launches in a row. That races are told is shown by the same without credits.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from treadle import planning
from treadle.planning import program_of
from treadle.runtime.device import checked_blocks, emulated
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_program import BlockProgram, DeviceProtocol, FlagPurpose
from treadle.runtime.device.emulated import BlockThreads, measure_emulated
from treadle.schedules.collective import CollectiveKind

_FLAGS = ("-fsanitize=thread", "-g", "-O1")
_FABRICS = ("ring:4", "dgx_a100(2, 2)", "dgx_h100(1, 4, nvls=True)", "dgx_h100(2, 4, nvls=True)")
"""The last two leave copies and sums to switches, where `multicast` asks for them."""
_RACE_FOUND = 66


class _WatchedThreads(BlockThreads):
    """Built with the sanitizer."""

    def __init__(self, lanes: BlockProgram, **options: Any) -> None:
        super().__init__(lanes, flags=_FLAGS, **options)


def main(arguments: Sequence[str]) -> int:
    """Run everything in processes with the sanitizer's runtime; 1 where a race was found, or could not be."""
    if arguments:
        return _run_lanes(has_credits=arguments[0] == "whole")
    library = subprocess.run(
        ["g++", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = {**os.environ, "LD_PRELOAD": library, "TSAN_OPTIONS": f"exitcode={_RACE_FOUND}"}
    found = []
    for part in ("whole", "without-credits"):
        # the sanitizer wants addresses where it expects them
        fixed = ["setarch", "-R"] if shutil.which("setarch") else []
        words = [*fixed, sys.executable, "-m", "tools.lane_races", part]
        done = subprocess.run(words, env=environment, capture_output=part != "whole", check=False)
        found.append(done.returncode)
    print(f"lanes: exit status {found[0]}; without credits: {found[1]}, {_RACE_FOUND} is a race")
    return 0 if found == [0, _RACE_FOUND] else 1


def _run_lanes(*, has_credits: bool) -> int:
    vars(emulated).update(BlockThreads=_WatchedThreads)
    if not has_credits:
        vars(checked_blocks).update(judge_lanes=lambda *_, **__: (), lower_to_lanes=_without_credits)
    wrong = 0
    for fabric in _FABRICS:
        for kind in CollectiveKind:
            multicast = "nvls" in fabric and kind is not CollectiveKind.ALLTOALL
            plan = planning.solve(fabric, kind.value, multicast=multicast).plan
            for in_place in (False, True)[: 1 if kind is CollectiveKind.ALLTOALL else 2]:
                for threads in (1, 3):
                    rows = measure_emulated(
                        program_of(plan, 0, in_place=in_place),
                        [20, 4100, 40_000],
                        device_protocols=tuple(DeviceProtocol),
                        threads=threads,
                        slice_bytes=512,
                        switches=plan.topology,
                    )
                    wrong += sum(row.wrong for row in rows)
    print(f"{wrong} wrong elements")
    return 1 if wrong and has_credits else 0


def _without_credits(*given: Any, **named: Any) -> BlockProgram:
    made = lower_to_blocks(*given, **named)
    credits = {number for number, flag in enumerate(made.flags) if flag.purpose is FlagPurpose.CREDIT}
    lanes = []
    for lane in made.lanes:
        operations = tuple(
            replace(one, waits=tuple(wait for wait in one.waits if wait.flag not in credits))
            for one in lane.operations
        )
        lanes.append(replace(lane, operations=operations))
    return replace(made, lanes=tuple(lanes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
