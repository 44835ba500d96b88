"""Fabrics that logs show themselves: system trees of public cases, and what differs between hosts."""

from __future__ import annotations

from pathlib import Path

from samples.logs.nccl_logs import curve, info, ranks, system_tree, table
from treadle.api.diagnose import diagnose
from treadle.diagnosis.diagnosed import Diagnosis
from treadle.diagnosis.limit_position import LimitPosition
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import dgx1_v100

GB = 10**9
ALLREDUCE = CollectiveKind.ALLREDUCE


def examined(folder: Path, lines: list[str]) -> Diagnosis:
    path = folder / "nccl.log"
    path.write_text("\n".join(lines) + "\n")
    return diagnose(path)


def shares(found: Diagnosis) -> dict[str, tuple[float, int]]:
    (judged,) = found.checked_tables
    return {
        one.name: (round(float(one.limit.busbw) / GB, 2), round(100 * one.share)) for one in judged.references
    }


def hybrid_cube_mesh(host: int) -> list[str]:
    """A DGX-1's tree: NVLinks between pairs, one NIC below the PCIe switch of GPUs 2 and 3."""
    mesh = dgx1_v100()
    lines = ["=== System : maxBw 12.0 totalBw 132.0 ==="]
    for cpu in range(2):
        lines.append(f"CPU/{cpu} (1/1/2)")
        for group in (2 * cpu, 2 * cpu + 1):
            lines.append(f"+ PCI[12.0] - PCI/{0x10 + group:x}000 (1000c01010000000)")
            indent = " " * lines[-1].index("PCI/")
            for gpu in (2 * group, 2 * group + 1):
                lines.append(f"{indent}+ PCI[12.0] - GPU/{0x21 + gpu:x}000 ({8 * host + gpu})")
                deep = " " * lines[-1].index("GPU/")
                for link in range(mesh.n_links):
                    if mesh.tails[link] == gpu:
                        speed = 20.0 * (int(mesh.bandwidths[link]) // (25 * GB))
                        lines.append(f"{deep}+ NVL[{speed:.1f}] - GPU/{0x21 + int(mesh.heads[link]):x}000")
            if group == 1:
                lines.append(f"{indent}+ PCI[12.0] - NIC/88000")
                lines.append(f"{' ' * lines[-1].index('NIC/')}+ NET[12.5] - NET/0 (a0/1/12.500000)")
        lines.append(f"+ SYS[10.0] - CPU/{1 - cpu}")
    return [info(line, host=host) for line in [*lines, "=" * 42]]


def test_v100_boxes_with_one_edr_card(tmp_path: Path) -> None:
    """nccl-tests #29, by the log alone."""
    trees = [line for host in range(4) for line in hybrid_cube_mesh(host)]
    found = examined(tmp_path, [*ranks(4, 8, "Tesla V100"), *trees, *table(ALLREDUCE, 32, curve(12.2))])
    assert shares(found) == {"ring": (12.5, 98), "optimum": (16.15, 76)}
    assert found.causes == ()
    assert found.assumed[0] == "4 boxes like that of node0"


LONE = """=== System : maxBw 48.0 totalBw 48.0 ===
CPU/0 (1/1/2)
+ PCI[48.0] - PCI/15000 (1000c030)
              + PCI[48.0] - GPU/18000 (0)
              + PCI[48.0] - NIC/19000
                            + NET[50.0] - NET/0 (aa/1/50.000000)
+ PCI[48.0] - PCI/26000 (1000c030)
              + PCI[48.0] - NIC/29000
                            + NET[50.0] - NET/1 (ab/1/50.000000)
+ SYS[40.0] - CPU/1
CPU/1 (1/1/2)
+ PCI[48.0] - PCI/95000 (1000c030)
              + PCI[48.0] - NIC/99000
                            + NET[50.0] - NET/2 (ac/1/50.000000)
+ SYS[40.0] - CPU/0
=========================================="""


def test_one_gpu_with_cards_all_over_the_box(tmp_path: Path) -> None:
    """nccl-tests #232: NICs that its user named count, also those at other switches and CPUs."""
    named = info("NCCL_IB_HCA set by environment to mlx5_0,mlx5_1,mlx5_4")
    trees = [
        info(line.replace("(0)", f"({host})"), host=host) for host in range(2) for line in LONE.splitlines()
    ]
    log = [*ranks(2, 1, "NVIDIA H100"), named, *trees, *table(ALLREDUCE, 2, curve(50))]
    found = examined(tmp_path, log)
    assert shares(found) == {"ring": (63, 79), "optimum": (63, 79)}
    assert found.checked_tables[0].references[0].place is LimitPosition.PCIE
    assert [one.name for one in found.causes] == ["pcie"]
    assert found.fabric_nics == 3


def test_hosts_that_show_another_box_are_taken_so(tmp_path: Path) -> None:
    other = [line.replace("NET[25.0]", "NET[12.5]") for line in system_tree(host=1)]
    log = [*ranks(2, 8), *system_tree(), *other, *table(ALLREDUCE, 16, curve(40))]
    assert "but node1 as its own tree shows" in examined(tmp_path, log).assumed[0]
    same = [*ranks(2, 8), *system_tree(), *system_tree(host=1), *table(ALLREDUCE, 16, curve(40))]
    assert examined(tmp_path, same).assumed[0] == "2 boxes like that of node0"
