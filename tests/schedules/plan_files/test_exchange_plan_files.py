"""Plan files of all-to-all steps: round trips, and hostile members."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from samples import exchange_samples as samples
from treadle.errors import FormatError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange_cost import exchange_algbw
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.topologies import parse


def plan_of(demands: Demands | None = None) -> Plan:
    """Few steps below 1 KB, more of them above; the first again from 1 MB."""
    torus = parse("torus:3,3")
    collective = samples.alltoall(torus, demands)
    one, other = (samples.over_shortest_paths(torus, collective, rounds=rounds) for rounds in (None, 5))
    entries = (PlanEntry(0, 1023, one), PlanEntry(1024, 2**20 - 1, other), PlanEntry(2**20, None, one))
    return Plan(torus, collective, entries, "by hand", exchange_algbw(torus, collective, one))


def edited(path: Path, change: Callable[[dict, dict], object]) -> None:
    """Write the file anew with a changed manifest or members."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(content["manifest.json"])
    change(manifest, content)
    content["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def npy(values: object) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array(values, dtype=np.int8), version=(1, 0))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m, _: m["entries"][0].update(type="steps", broadcast=0), "all-to-all has entries of"),
        (lambda m, _: m["entries"][0].update(sends=2), "sends 2 do not exist"),
        (lambda m, _: m["entries"][0].update(sends="0"), "entries: sends: expected an integer"),
        (lambda m, _: m["entries"][0].pop("sends"), "entries: sends: expected an integer"),
        (lambda m, _: m["entries"][0].update(root=1), "'root' is unknown"),
        (lambda m, _: m["entries"][1].update(sends=0), "steps/1/targets.npy' does not belong"),
        (lambda m, _: m["collective"].update(kind="allgather"), "no demands|has no entries"),
        (lambda m, _: m["collective"].update(demands=True), "collective.demands: expected 'demands.npy'"),
        (lambda m, _: m["collective"].pop("demands"), "'demands.npy' does not belong"),
        (lambda _, c: c.pop("demands.npy"), "demands.npy is missing"),
        (lambda _, c: c.pop("steps/0/targets.npy"), "targets.npy is missing"),
        (lambda _, c: c.update({"steps/0/targets.npy": npy([1, 2])}), "targets has 2 rows"),
        (lambda _, c: c.update({"demands.npy": npy([1, 2])}), "wrong number of dimensions"),
        (lambda _, c: c.update({"demands.npy": npy([[1, 2], [3, 4]])}), "of 2 ranks, the collective has 9"),
        (lambda _, c: c.update({"demands.npy": npy([[-1] * 9] * 9)}), "from 0 to 2"),
        (lambda _, c: c.update({"demands.npy": npy([[1] * 10] * 10)}), "100 values, expected at most 81"),
    ],
)
def test_hostile_files_are_refused_in_a_line(
    tmp_path: Path, change: Callable[[dict, dict], object], said: str
) -> None:
    path = tmp_path / "plan"
    save_plan(path, plan_of(samples.random_demands(9, 4)))
    edited(path, change)
    with pytest.raises(FormatError, match=said) as refusal:
        load_plan(path)
    assert "\n" not in str(refusal.value)
