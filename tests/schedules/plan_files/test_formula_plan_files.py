"""Trees by formula in plan files: read as they were written, refused where they make no sense."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from reference.formula_checks import one_piece
from samples.factored.formula_stars import (
    plane_sample,
    relay_sample,
)
from treadle.errors import FormatError
from treadle.schedules.collective import Collective
from treadle.schedules.factored import (
    PlaneTrees,
    RelayTrees,
)
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify

SAMPLES: dict[str, Callable[[], tuple[Topology, Collective, RelayTrees | PlaneTrees]]] = {
    "relay": relay_sample,
    "plane": plane_sample,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_plan_files_round_trip(name: str, tmp_path: Path) -> None:
    topology, collective, trees = SAMPLES[name]()
    schedule = one_piece(topology, trees)
    algbw = verify(topology, collective, schedule).algbw
    assert algbw is not None
    plan = Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", algbw)
    save_plan(tmp_path / "a", plan)
    loaded = load_plan(tmp_path / "a")
    assert loaded == plan
    save_plan(tmp_path / "b", loaded)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("name", "member", "values", "said"),
    [
        ("relay", "relay.count", [2], "1 values, expected 2"),
        ("relay", "relay.child", [7], "found 7"),
        ("relay", "exchange.block", [0], "make no such trees"),
        ("relay", "exchange.in_width", [2**40], "out of range"),
        ("relay", "relay.native_units", [3, 1], "2 values, expected 3"),
        ("plane", "plane.planes", [3], "values, expected 27"),
        ("plane", "plane.places", [1], "2 values, expected 1"),
        ("plane", "plane.place", [1, 1], "place must hold"),
        ("plane", "plane.pair_count", [1], "values, expected 1"),
        ("plane", "exchange.out_width", [-1], "out of range"),
    ],
)
def test_malformed_members_are_refused(
    name: str, member: str, values: list[int], said: str, tmp_path: Path
) -> None:
    topology, collective, trees = SAMPLES[name]()
    plan = Plan(
        topology, collective, (PlanEntry(0, None, one_piece(topology, trees)),), "by hand", Fraction(1)
    )
    save_plan(tmp_path / "plan", plan)
    with zipfile.ZipFile(tmp_path / "plan") as archive:
        content = {one: archive.read(one) for one in archive.namelist()}
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array(values), version=(1, 0))
    assert f"factored/0/0/{member}.npy" in content
    content[f"factored/0/0/{member}.npy"] = buffer.getvalue()
    with zipfile.ZipFile(tmp_path / "plan", "w") as archive:
        for one, data in content.items():
            archive.writestr(one, data)
    with pytest.raises(FormatError, match=said):
        load_plan(tmp_path / "plan")
