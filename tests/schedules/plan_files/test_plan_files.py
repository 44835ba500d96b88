"""Plan files: round trips, and everything that can be wrong with a file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from samples import forest_samples as samples
from treadle.errors import FormatError
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import load_plan, save_plan


def ring_plan() -> Plan:
    topology, collective, schedule = samples.ring_allgather()
    return Plan(
        topology=topology,
        collective=collective,
        entries=(PlanEntry(0, 1023, schedule), PlanEntry(1024, None, schedule)),
        algorithm="by hand",
        algbw=Fraction(8),
        optimal_algbw=Fraction(8),
        certificate=BottleneckCut((0, 1, 2)),
        provenance={"version": "0.1.0", "seconds": 0.25, "seed": 3, "name": "ü"},
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "ring.plan"
    save_plan(path, ring_plan())
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, content: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def edit(path: Path, change: Callable[[dict], object]) -> None:
    content = members(path)
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    write(path, {**content, "manifest.json": json.dumps(manifest).encode()})


def refuse(path: Path, match: str | None = None) -> None:
    with pytest.raises(FormatError, match=match) as caught:
        load_plan(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(version=3), "version 3"),
        (lambda m: m.update(version=0), "version 0"),
        (lambda m: m.update(version=True), "version"),
        (lambda m: m.update(treadle="topology"), "plan"),
        (lambda m: m.update(extra=1), "'extra' is unknown"),
        (lambda m: m.pop("algbw"), "'algbw' is missing"),
        (lambda m: m.update(algbw=8), "fraction"),
        (lambda m: m.update(algbw="8/0"), "fraction"),
        (lambda m: m.update(algbw="-8/1"), "fraction"),
        (lambda m: m.update(algbw="0/1"), "positive"),
        (lambda m: m.update(algbw="٨/1"), "fraction"),
        (lambda m: m.update(algbw="8" * 5000 + "/1"), "fraction"),
        (lambda m: m.update(witness=None), "without a certificate"),
        (lambda m: m.update(witness={"kind": "magic"}), "kind 'magic'"),
        (lambda m: m.update(witness=[1]), "object"),
        (lambda m: m["witness"].update(nodes=[-1]), "indices"),
        (lambda m: m.update(topology_sha256="0" * 64), "topology_sha256"),
        (lambda m: m["collective"].update(kind="scatter"), "scatter"),
        (lambda m: m["collective"].update(kind="reduce-scatter"), "entries"),
        (lambda m: m["collective"].update(ranks=[0, 1, 2]), "4 values, expected at most 3"),
        (lambda m: m["collective"].update(ranks=[0, 1, 2, 9]), "not a compute node"),
        (lambda m: m["collective"].update(ranks=[0, 1, 2, 1.5]), "integer"),
        (lambda m: m["collective"].update(root=0), "root"),
        (lambda m: m["entries"][0].update(broadcast=1), "does not exist"),
        (lambda m: m["entries"][0].update(broadcast="0"), "integer"),
        (lambda m: m["entries"][0].update(reduce=0), "two directions"),
        (lambda m: m["entries"][0].update(min_bytes=-1), "expected 0 <= min <= max"),
        (lambda m: m["entries"][1].update(min_bytes=5), "overlap"),
        (lambda m: m.update(entries=[]), "forests"),
        (lambda m: m.update(entries=[3, 4]), "expected objects"),
        (lambda m: m.update(forests=2), "is missing"),
        (lambda m: m.update(forests=10**9), "expected 0 to"),
        (lambda m: m.update(provenance={"a": [1]}), "provenance"),
        (lambda m: m.update(provenance={"model": "two\nlines"}), "one line without control"),
        (lambda m: m.update(algorithm="\x1b[31mred"), "one line without control"),
        (lambda m: m.update(algbw="9" * 999 + "/1"), "which no fabric has"),
    ],
)
def test_malformed_manifest(saved: Path, change: Callable[[dict], object], message: str) -> None:
    edit(saved, change)
    refuse(saved, message)
