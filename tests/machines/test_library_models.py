"""NCCL's and RCCL's choices and times, against cells computed from their sources and against public logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

import treadle
from treadle import planning
from treadle.errors import ScheduleError
from treadle.machines.libraries import achievable_time, library_of
from treadle.machines.nccl import ChannelGraph, LibraryModel, nccl_model
from treadle.machines.system import Generation, System
from treadle.topologies import TopologyBuilder
from treadle.unsupported import Unsupported

KIB, MIB, GIB = 2**10, 2**20, 2**30
GB = 10**9
B200 = System(Generation.BLACKWELL, 1, 8, 900 * GB)
ONE_GPU_BOXES = System(Generation.HOPPER, 16, 1, 0, has_switch=False, nics=1, nic_bytes_per_s=50 * GB)
FOUR = System(Generation.MI200, 1, 4, 138 * GB, has_switch=False, cpu="amd")
PCIE = System(Generation.AMPERE, 1, 8, 32 * GB, has_fast_links=False, has_switch=False)


def model(where: str | System, *, nvls: bool = True) -> LibraryModel:
    found = nccl_model(where) if isinstance(where, System) else planning.library_model(treadle.parse(where))
    assert not isinstance(found, Unsupported)
    return found if nvls else replace(found, nvls=None)


def test_picks_and_times_are_those_of_the_sources() -> None:
    no_nvls = model("dgx_h100:1", nvls=False)
    pcie = LibraryModel(PCIE, "2.30", ChannelGraph(1, 5, 5))
    for found, kind, size, pick, time_us in (
        (model("dgx_h100:1"), "allreduce", 4 * KIB, "ring/LL, 1 channel", 15.05),
        (model("dgx_h100:1"), "allreduce", MIB, "ring/LL, 24 channels", 28.01),
        (model("dgx_h100:1"), "allreduce", 2 * MIB, "nvls/Simple, 16 channels", 32.71),
        (model("dgx_h100:1"), "allreduce", GIB, "nvls/Simple, 16 channels", 3972.6),
        (no_nvls, "allreduce", 16 * MIB, "ring/LL128, 24 channels", 129.2),
        (no_nvls, "allreduce", GIB, "ring/Simple, 24 channels", 5275.6),
        (model("dgx_h100:1"), "allgather", MIB, "ring/LL, 24 channels", 17.3),
        (model("dgx_h100:1"), "allgather", GIB, "ring/Simple, 24 channels", 2642),
        (model("dgx_h100:2"), "allgather", MIB // 2, "ring/LL, 8 channels", 35.9),
        (model("dgx_h100:2"), "broadcast", 4 * KIB, "ring/LL, 1 channel", 9.41),
        (model("dgx_h100:2"), "allreduce", MIB, "tree/LL128, 16 channels", 62.5),
        (model("dgx_h100:2"), "allreduce", GIB, "nvlstree/Simple, 24 channels", 4428),
        (model("dgx_h100:16"), "allreduce", 64 * MIB, "nvlstree/Simple, 24 channels", 558),
        (model("dgx_a100:1"), "allreduce", GIB, "ring/Simple, 24 channels", 7885),
        (model("dgx_a100:2"), "allreduce", MIB, "tree/LL128, 16 channels", 70.3),
        (model("dgx_a100:2"), "allreduce", GIB, "ring/Simple, 16 channels", 10772),
        (model(B200), "allreduce", GIB, "nvls/Simple, 24 channels", 2635),
        (model("gb200_nvl72:1"), "allreduce", GIB, "nvls/Simple, 24 channels", 2333),
        (model("gb200_nvl72:1"), "allgather", GIB, "ring/Simple, 32 channels", 1720),
        (pcie, "allreduce", MIB, "ring/Simple, 2 channels", 455),
        (model("mi300x:1"), "allreduce", 8 * MIB, "ring/Simple, 56 channels", 90.1),
        (model(ONE_GPU_BOXES), "allgather", 64 * KIB, "pat/Simple, 2 channels", 70.6),
        # three links of 46 GB/s each carry 138 GB/s of busbw, not the 161.4 of a whole machine
        (library_of(FOUR), "allreduce", GIB, "ring/Simple", 11717),
        # boxes of four never take NVLS
        (model("dgx_h100(1, 4)"), "allreduce", GIB, "ring/Simple, 24 channels", 4509.7),
    ):
        got = found.pick(kind, size)
        assert str(got) == pick
        assert got.time_s * 1e6 == pytest.approx(time_us, rel=0.005)


def test_nvls_is_taken_from_the_size_that_the_sources_give() -> None:
    found = model("dgx_h100:1")
    assert found.pick("allreduce", 1_144_835).algorithm == "ring"
    assert found.pick("allreduce", 1_144_837).algorithm == "nvls"
    assert model("gb200_nvl72:1").pick("allreduce", 64).algorithm == "nvls"
    assert model("dgx_h100:2").pick("allreduce", MIB).algorithm == "tree"
    assert model("dgx_h100:2").pick("allreduce", 2 * MIB).algorithm == "nvlstree"
    with pytest.raises(ScheduleError, match="alltoall: NCCL sends it point to point and has no model of it"):
        found.pick("alltoall", MIB)


def test_public_measurements_are_within_the_stated_errors() -> None:
    """nccl-tests issue 309 (NCCL 2.26): busbw of one and four H100 boxes; preprint: two A100 boxes."""
    old = replace(model("dgx_h100:1"), version="2.26")
    busbw = [GIB / one.pick("allreduce", GIB).time_s * 7 / 4 / 1e9 for one in (old, replace(old, nvls=None))]
    assert busbw == [pytest.approx(482, rel=0.05), pytest.approx(369, rel=0.05)]
    # 2.28 has another formula of NVLS
    new = model("dgx_h100:1")
    assert replace(new, version="2.28").pick("allreduce", GIB).time_s == new.pick("allreduce", GIB).time_s
    assert replace(new, version="2.27").pick("allreduce", GIB).time_s == old.pick("allreduce", GIB).time_s
    four = model("dgx_h100:4")
    assert 16 * GIB / four.pick("allreduce", 16 * GIB).time_s * 31 / 16 / 1e9 == pytest.approx(366, rel=0.02)
    a100 = model("dgx_a100:2")
    assert GIB / a100.pick("allgather", GIB).time_s / 1e9 == pytest.approx(187, rel=0.08)


def test_a_log_s_table_and_picks_override_the_formulas() -> None:
    kind = treadle.CollectiveKind.ALLREDUCE
    found = model("dgx_h100:1")
    stated = replace(found, table={(kind, "tree", "Simple"): (1.0, 500.0), (kind, "ring", "LL"): (9.0, 0.0)})
    assert str(stated.pick(kind, 2**26)) == "tree/Simple, 24 channels"
    assert stated.pick(kind, 2**26).time_s == pytest.approx(1e-6 + 2**26 / (500e9 * 0.8))
    assert ("ring", "LL") not in dict(stated.times(kind, KIB))
    logged = replace(found, picks={(kind, 2**26): ("ring", "Simple", 8)}).pick(kind, 2**26)
    assert str(logged) == "ring/Simple, 8 channels"
    assert logged.time_s == pytest.approx(dict(found.times(kind, 2**26))["ring", "Simple"])


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


def test_a_pcie_server_is_recognised() -> None:
    """Eight GPUs of 32 GB/s, four on the PCIe switch of each CPU."""
    builder = TopologyBuilder("server")
    cpus = [builder.switch(f"box0.cpu{number}") for number in range(2)]
    builder.duplex(*cpus, 40 * GB)
    for number in range(8):
        builder.duplex(builder.compute(f"box0.gpu{number}"), cpus[number // 4], 32 * GB)
    found = planning.system_of(builder.build())
    assert isinstance(found, System)
    assert (found.generation, found.gpus_per_box, found.link_bytes_per_s) == (PCIE.generation, 8, 32 * GB)
    assert not found.has_fast_links


def test_several_boxes_have_the_widest_band() -> None:
    library = model("dgx_h100:2")
    time_s = library.pick("allreduce", GIB).time_s
    found = achievable_time(library.system, treadle.CollectiveKind.ALLREDUCE, GIB)
    assert isinstance(found, planning.Achievable)
    ratios = (found.low_s / time_s, found.time_s / time_s, found.high_s / time_s)
    assert ratios == pytest.approx((0.827, 1.15, 1.742))


def test_a_group_has_its_share_of_the_nics() -> None:
    system = planning.system_of(treadle.parse("dgx_h100:4"))
    assert not isinstance(system, Unsupported)
    whole, half, one = (system.group(*shape) for shape in ((4, 8), (2, 4), (4, 1)))
    assert (whole, half.nics, half.nic_bytes_per_s) == (system, 4, 50 * GB)
    assert (one.gpus_per_box, one.nics, one.nic_bytes_per_s) == (1, 1, 50 * GB)
    assert system.group(1, 4).nics == 0
    two_nics = replace(system, nics=2)
    assert (two_nics.group(4, 1).nics, two_nics.group(4, 1).nic_bytes_per_s) == (1, 100 * GB // 8)


def test_a_ring_in_one_slice_takes_what_nccl_predicts() -> None:
    """Presets have NCCL's effective rates, channels and caps: Treadle's simulation of its ring agrees."""
    plan = treadle.solve("dgx_h100:1", "allreduce", algorithm="ring").plan
    options = planning.SimulationOptions(slices=1)
    sizes = [KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, GIB]
    found = model("dgx_h100:1", nvls=False)
    run = treadle.simulate(plan, sizes, options=options, auto_slices=False, cost_model="nccl-hopper")
    own = [float(one.time) for one in run.rows]
    assert own == [pytest.approx(found.pick("allreduce", size).time_s, rel=0.001) for size in sizes]


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


def test_rows_of_the_library_are_in_results() -> None:
    found = treadle.compare("dgx_a100:2", "allreduce", algorithms=["nccl", "ring"])
    assert [row.algbw for row in found.rows] == [found.rows[0].algbw] * 2
    with pytest.raises(ScheduleError, match="nccl: RCCL runs on its GPUs"):
        treadle.solve("mi300x:1", "allreduce", algorithm="nccl")
