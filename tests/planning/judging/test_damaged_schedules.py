"""Damaged schedules of others: whatever they say, a verdict or one line, and what passes can be simulated."""

from __future__ import annotations

import json
import random
import re
from functools import cache
from pathlib import Path

import pytest

from samples.foreign import foreign_files
from treadle import planning
from treadle.api.simulate import simulate
from treadle.errors import TreadleError
from treadle.schedulers.third_party.placed_schedules import route_file
from treadle.topologies import parse

NUMBERS = (b"0", b"-1", b"3", b"7", b"64", b"4096", b"1000000", b"99999999999", b"0.5")
PIECES = (b"null", b"[]", b"{}", b'"', b"<", b"\x00", b"\xff", b"NaN", b",", b"1e999")


@cache
def lowered(kind: str, to: str) -> bytes:
    made = planning.lower(planning.solve("dgx_a100(1)", kind, algorithm="ring").plan, to=to)
    return made.files[0][1]


FILES = {
    "taccl": (lambda: json.dumps(foreign_files.taccl_ring_allreduce(4)).encode(), "ring(4)"),
    "taccl-alltoall": (lambda: json.dumps(foreign_files.taccl_relayed_alltoall(4)).encode(), "ring(4)"),
    "te-ccl": (lambda: json.dumps(foreign_files.teccl_star_allgather(4), indent=1).encode(), "complete(4)"),
    "te-ccl-alltoall": (lambda: json.dumps(foreign_files.teccl_ring_alltoall()).encode(), "ring(4)"),
    "forestcoll": (lambda: lowered("allgather", "forestcoll-xml"), "dgx_a100(1)"),
    "msccl": (lambda: lowered("allreduce", "msccl-xml"), "dgx_a100(1)"),
    "mscclpp": (lambda: lowered("allreduce", "mscclpp-json"), "dgx_a100(1)"),
}


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A number changed (most often: what is still well-formed tests most), or bytes put in, out or twice."""
    how = draw.randrange(6)
    if how < 3:
        place = draw.choice(list(re.finditer(rb"-?\d+", data)))
        return data[: place.start()] + draw.choice(NUMBERS) + data[place.end() :]
    start = draw.randrange(len(data))
    end = min(len(data), start + draw.randrange(1, 60))
    if how == 3:
        return data[:start] + draw.choice(PIECES) + data[start + 1 :]
    return data[:start] + (data[end:] if how == 4 else data[start:end] + data[start:])


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_end_in_a_verdict_or_one_line(name: str, tmp_path: Path) -> None:
    made, fabric_name = FILES[name]
    data, fabric, draw = made(), parse(fabric_name), random.Random(name)
    path, passed, refused = tmp_path / "file", 0, []
    path.write_bytes(data)
    assert route_file(path, fabric).report.is_ok
    for _ in range(70):
        path.write_bytes(damaged(data, draw))
        try:
            placed = route_file(path, fabric)
        except TreadleError as error:
            refused.append(str(error))
            continue
        if placed.report.is_ok and passed < 3:
            assert simulate(placed, [2**20], auto_slices=False).rows[0].time > 0
        passed += placed.report.is_ok
        refused += [violation.message for violation in placed.report.violations]
    assert refused
    assert not any("\n" in message or len(message) > 600 for message in refused)
