"""Settings near those that do not fit into memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from samples.training.small_steps import mesh_of
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import RooflineTimes
from treadle.training.devices import accelerator
from treadle.training.fitting_settings import Alternative, fitting_settings
from treadle.training.models.zoo import zoo_model
from treadle.training.step import TrainingSetup
from treadle.training.training_options import TrainingOptions

A100 = accelerator("a100")


def found(mesh: Mesh, gigabytes: float, sequences: int = 64, **options: Any) -> tuple[Alternative, ...]:
    device = replace(A100, memory_bytes=int(gigabytes * 2**30))
    times = RooflineTimes(device, "bf16", 0.5)
    setup = TrainingSetup(
        zoo_model("gpt2"),
        mesh,
        device,
        "bf16",
        times,
        sequences,
        {"": 1024},
        TrainingOptions(kappa=1, **options),
    )
    alternatives = fitting_settings(setup)
    assert all(one.fits == (one.memory_bytes <= device.memory_bytes) for one in alternatives)
    return alternatives


def words(*given: Any, **options: Any) -> list[str]:
    return [one.options for one in found(*given, **options)]


FRUGAL = {"recompute": "full", "micro_batches": 8}


@pytest.mark.parametrize(
    ("mesh", "gigabytes", "options", "expected"),
    [
        # a change of each kind, the least of it first, and at most three
        (mesh_of(dp=8), 10, {}, ["--recompute full", "--micro-batches 2", "--zero 1"]),
        (mesh_of(dp=8), 3, {}, ["--micro-batches 8"]),
        (mesh_of(dp=8), 2, FRUGAL, ["--zero 1", "--mesh fsdp=8", "--mesh dp=4,tp=2"]),
        (mesh_of(dp=8), 1, FRUGAL, ["--mesh fsdp=8"]),
        (mesh_of(dp=8), 0.92, FRUGAL | {"zero": 1}, ["--mesh fsdp=8 --zero 0", "--mesh dp=2,tp=4"]),
        # two where one is not enough
        (mesh_of(dp=8), 0.9, FRUGAL, ["--zero 1 --mesh dp=2,tp=4", "--mesh fsdp=4,tp=2"]),
        # more micro-batches, where they share the sequences equally
        (mesh_of(fsdp=2, tp=4), 0.5, FRUGAL, ["--micro-batches 32"]),
    ],
)
def test_the_nearest_settings_that_fit(
    mesh: Mesh, gigabytes: float, options: dict[str, Any], expected: list[str]
) -> None:
    assert words(mesh, gigabytes, **options) == expected


def test_if_nothing_fits_the_least_is_told() -> None:
    (least,) = found(mesh_of(dp=8), 0.1, **FRUGAL)
    assert (least.options, least.fits) == ("--mesh fsdp=2,tp=4", False)
    for mesh in (mesh_of(dp=1), Mesh((2,), ("dp",), (1, 0))):
        assert len(found(mesh, 0.1)) == 1
    assert found(mesh_of(tp=4), 0.1, sequences=1, recompute="full") == ()
