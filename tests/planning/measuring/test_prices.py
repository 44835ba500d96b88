"""Prices of collectives in groups of ranks: values of each kind, and the machine that a group has."""

from __future__ import annotations

from pathlib import Path

import pytest

import treadle
from treadle.errors import TreadleError
from treadle.topologies.files import save_topology


def test_groups_have_their_part_of_the_machine() -> None:
    """One GPU per host: the network. A part of an MI300X box: RCCL over the links among its GPUs."""
    alone = treadle.price("dgx_h100(4, gpus_per_box=1)", "*", "allgather", "64MB", kind="library-model")
    assert alone.source.startswith("NCCL 2.30, 2 channels x 24 GB/s: ring/Simple")
    assert alone.time_s == pytest.approx(1.21 * 64 * 2**20 * 3 / 4 / 48e9, rel=0.1)
    assert alone.time_s == treadle.price("dgx_h100:4", "box*.gpu3", "allgather", "64MB").time_s
    hosts = "dgx_h100(8, gpus_per_box=1)"
    scatter, sums = (
        treadle.price(hosts, "*", kind, "4MB").time_s for kind in ("reduce-scatter", "allreduce")
    )
    assert scatter / sums == pytest.approx(0.52, rel=0.02), "by NCCL's logs"
    whole = treadle.price("mi300x:1", "*", "allreduce", "8MB")
    assert whole.time_s == pytest.approx(1.45 * 90.1e-6, rel=1e-3)
    assert whole.low_s is not None
    assert whole.low_s < 91.1e-6 < whole.time_s, "a public time"
    assert whole.source.startswith("RCCL 2.21.5, 28 channels x 12 GB/s: ring/Simple")
    part = treadle.price("mi300x:1", range(4), "allreduce", "64MB")
    assert part.time_s > 64 * 2**20 * 6 / 4 / (3 * 48e9)


def test_ranks_as_groups_of_a_mesh() -> None:
    """Ranks in two levels are a group over two axes; ranks without a mesh are priced while others idle."""
    levels = treadle.price("dgx_h100:2", [9, 8, 1, 0], "allreduce", "8MB")
    assert (levels.group.mesh.notation, levels.group.axes) == ("1,2,4,2,1", ("1", "3"))
    same = treadle.price("dgx_h100:2", "2,4,2:0,2", "allreduce", "8MB")
    assert (levels.time_s, levels.optimum) == (same.time_s, same.optimum)
    for ranks in ([0, 1, 9], [0, 1, 2]):
        odd = treadle.price("dgx_h100:2", ranks, "allgather", "8MB", kind="bound")
        assert odd.source.endswith("other ranks idle")
        assert odd.optimum == treadle.bound("dgx_h100:2", "allgather", ranks=ranks).algbw


def test_fabric_of_a_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "fabric.json"
    times = []
    for nodes in (4, 8):
        save_topology(path, treadle.parse(f"ring({nodes}, bandwidth='1GB/s')"))
        times.append(treadle.price(path, [0, 1, 2, 3], "allgather", "1MB", kind="bound").time_s)
    assert times[0] < times[1]


@pytest.mark.parametrize(
    ("group", "size", "message"),
    [([0], 1, "at least 2 ranks"), ([0, 99], 1, "rank 99"), ("*", 0, "at least 1 byte"), (3, 1, "group")],
)
def test_errors(group: object, size: int, message: str) -> None:
    with pytest.raises(TreadleError, match=message):
        treadle.price("dgx_h100:1", group, "allgather", size)  # type: ignore[arg-type]
