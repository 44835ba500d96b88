"""NCCL's and RCCL's choices and times, against cells computed from their sources and against public logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

import treadle
from treadle import planning
from treadle.errors import ScheduleError
from treadle.machines.libraries import achievable_time
from treadle.machines.nccl import LibraryModel, nccl_model
from treadle.machines.system import Generation, System
from treadle.unsupported import Unsupported

KIB, MIB, GIB = 2**10, 2**20, 2**30
GB = 10**9
ONE_GPU_BOXES = System(Generation.HOPPER, 16, 1, 0, has_switch=False, nics=1, nic_bytes_per_s=50 * GB)


def model(where: str | System, *, nvls: bool = True) -> LibraryModel:
    found = nccl_model(where) if isinstance(where, System) else planning.library_model(treadle.parse(where))
    assert not isinstance(found, Unsupported)
    return found if nvls else replace(found, nvls=None)


def test_nvls_is_taken_from_the_size_that_the_sources_give() -> None:
    found = model("dgx_h100:1")
    assert found.pick("allreduce", 1_144_835).algorithm == "ring"
    assert found.pick("allreduce", 1_144_837).algorithm == "nvls"
    assert model("gb200_nvl72:1").pick("allreduce", 64).algorithm == "nvls"
    assert model("dgx_h100:2").pick("allreduce", MIB).algorithm == "tree"
    assert model("dgx_h100:2").pick("allreduce", 2 * MIB).algorithm == "nvlstree"
    with pytest.raises(ScheduleError, match="alltoall: NCCL sends it point to point and has no model of it"):
        found.pick("alltoall", MIB)


def test_systems_are_recognised_by_their_links() -> None:
    for name, text in (
        ("dgx_h100:2", "NCCL 2.30, 8 channels x 45 GB/s"),
        ("dgx_a100(2, pcie=True)", "NCCL 2.30, 8 channels x 24 GB/s"),
        ("dgx1_v100", "NCCL 2.30, 6 channels x 20 GB/s"),
        ("rail_optimized:4", "NCCL 2.30, 8 channels x 45 GB/s"),
        ("mi250(1, 8)", "RCCL 2.21.5, 1 channel x 161.4 GB/s"),
        ("mi300x:2", "RCCL 2.21.5, 28 channels x 12 GB/s"),
    ):
        assert str(planning.library_model(treadle.parse(name))) == text
    for name, reason in (
        ("torus:4,4", "the names of its nodes do not say which GPUs share a box"),
        ("leaf_spine:4,2", "nothing says which of its GPUs share a host"),
    ):
        assert planning.library_model(treadle.parse(name)) == Unsupported(reason)


def test_several_boxes_have_the_widest_band() -> None:
    library = model("dgx_h100:2")
    time_s = library.pick("allreduce", GIB).time_s
    found = achievable_time(library.system, treadle.CollectiveKind.ALLREDUCE, GIB)
    assert isinstance(found, planning.Achievable)
    ratios = (found.low_s / time_s, found.time_s / time_s, found.high_s / time_s)
    assert ratios == pytest.approx((0.827, 1.15, 1.742))


def test_a_step_is_priced_by_the_model_of_each_group() -> None:
    kind = treadle.CollectiveKind.ALLREDUCE
    costs = planning.step_costs("dgx_h100:2", "fsdp=2,tp=8", schedule="nccl")
    assert costs.time_s(kind, ("tp",), GIB) == model("dgx_h100:1").pick(kind, GIB).time_s
    across = nccl_model(replace(ONE_GPU_BOXES, boxes=2))
    assert costs.time_s(kind, ("fsdp",), MIB) == across.pick(kind, MIB).time_s
    achieved = planning.step_costs("dgx_h100:2", "fsdp=2,tp=8", schedule="achievable")
    found = planning.achievable(treadle.parse("dgx_h100:1"), kind, GIB)
    assert not isinstance(found, Unsupported)
    assert achieved.time_s(kind, ("tp",), GIB) == found.time_s
    assert achieved.time_s(kind, ("fsdp",), MIB) == pytest.approx(1.2 * across.pick(kind, MIB).time_s)
    with pytest.raises(ScheduleError, match=r"rccl: has no model of .*: its GPUs are another"):
        planning.step_costs("dgx_h100:2", "tp=16", schedule="rccl").time_s(kind, ("tp",), MIB)
