"""Public cases of slow collectives, in logs written here: figures, verdicts, and what is suspected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from samples.logs.gpu_boxes import GB
from samples.logs.nccl_logs import curve, info, ranks, rows, system_tree, table
from treadle.api.diagnose import diagnose
from treadle.diagnosis.diagnosed import Diagnosis
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import Topology, gb200_nvl72, mi300x

ALLREDUCE = CollectiveKind.ALLREDUCE
V100, H100 = "Tesla V100-SXM2-32GB", "NVIDIA H100 80GB HBM3"


def examined(
    folder: Path, lines: list[str], topology: Topology | None = None, **keywords: object
) -> Diagnosis:
    path = folder / "nccl.log"
    path.write_text("\n".join(lines) + "\n")
    found = diagnose(path, topology=topology, **keywords)  # type: ignore[arg-type]
    for suspect in found.causes:
        for line in suspect.lines:
            text = " ".join(lines[line.number - 1].split())
            assert text.startswith(line.text.removesuffix("...")), "evidence is a line of the log"
    return found


def shares(found: Diagnosis) -> dict[str, tuple[float, int]]:
    """Yardsticks of the NICs in use: GB/s and percent."""
    (judged,) = found.checked_tables
    return {
        one.name: (round(float(one.limit.busbw) / GB, 2), round(100 * one.share))
        for one in judged.references
        if not one.is_whole
    }


def names(found: Diagnosis) -> list[str]:
    return [one.name for one in found.causes]


def direct(nics: int = 1) -> list[str]:
    return [
        info(
            "NET/IB : Using "
            + " ".join(f"[{n}]mlx5_{n}:1/IB" for n in range(nics))
            + " [RO]; OOB eth0:10.0.0.1<0>"
        ),
        info("Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA"),
    ]


def test_fabric_from_the_system_tree(tmp_path: Path) -> None:
    log = [*ranks(2, 8), *direct(4), *system_tree(), *system_tree(host=1), *table(ALLREDUCE, 16, curve(86))]
    found = examined(tmp_path, log)
    assert found.missing == ""
    assert shares(found) == {"ring": (100, 86), "optimum": (187.5, 46)}
    assert any("one switch" in text for text in found.assumed)
    assert names(found) == []
    one_box = [
        *ranks(1, 8, H100),
        *system_tree(nvlink="NVL[370.8] - NVS/0", nics=0),
        *table(ALLREDUCE, 8, curve(370)),
    ]
    assert shares(examined(tmp_path, one_box)) == {"ring": (450, 82), "optimum": (450, 82)}


def test_trees_of_several_boxes_show_a_slow_link(tmp_path: Path) -> None:
    slow = [line.replace("PCI[24.0] - GPU/14000", "PCI[6.0] - GPU/14000") for line in system_tree(host=1)]
    log = [*ranks(2, 8), *direct(4), *system_tree(), *slow, *table(ALLREDUCE, 16, curve(20))]
    found = examined(tmp_path, log)
    assert "slow-link" in names(found)
    suspect = next(one for one in found.causes if one.name == "slow-link")
    assert suspect.text.startswith("GPU/14000 of node1 has PCIe of 6 GB/s where 15 of 16 have 24")


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_figure_is_held_against_the_damaged_box_as_its_own_tree_shows_it(
    tmp_path: Path, damaged: int
) -> None:
    """Three boxes of NVLinks at 300 GB/s a GPU; one GPU has lost two of three: rings carry 100 past it."""
    lines = []
    for host in range(3):
        tree = system_tree(host=host)
        if host == damaged:
            place = next(at for at, line in enumerate(tree) if "NVL[240.0]" in line)
            tree[place] = tree[place].replace("240.0", "60.0")
        lines += tree
    log = [*ranks(3, 8), *direct(4), *lines, *table(ALLREDUCE, 24, curve(70))]
    found = examined(tmp_path, log)
    assert shares(found)["ring"] == (75, 93)
    assert names(found) == ["slow-link"]
    whole = examined(tmp_path, [*ranks(3, 8), *direct(4), *system_tree(), *table(ALLREDUCE, 24, curve(70))])
    assert shares(whole)["ring"] == (100, 70)
    assert found.topology is not None
    assert whole.topology is not None
    fabric, other = found.topology, whole.topology
    assert [fabric.node_names[node] for node in fabric.compute_nodes] == [
        other.node_names[node] for node in other.compute_nodes
    ]
    slower = [
        fabric.link_name(link)
        for link in range(fabric.n_links)
        if fabric.bandwidths[link] == 75 * GB and "nvswitch" in fabric.link_name(link)
    ]
    assert set(slower) == {
        f"box{damaged}.gpu0->box{damaged}.nvswitch",
        f"box{damaged}.nvswitch->box{damaged}.gpu0",
    }
    assert fabric.n_links == other.n_links
    if damaged:
        assert f"3 boxes like that of node0, but node{damaged} as its own tree shows" in found.assumed
    else:
        assert "3 boxes like that of node0, but node1 and 1 more as theirs show" in found.assumed


def test_boxes_that_fit_no_place_are_named(tmp_path: Path) -> None:
    log = [*ranks(2, 8), *direct(4), *system_tree(), *system_tree(host=1, gpus=4)]
    found = examined(tmp_path, [*log, *table(ALLREDUCE, 16, curve(80))])
    assert "2 boxes like that of node0, but not of node1" in found.assumed
    assert shares(found)["ring"] == (100, 80)


def test_cards_left_out_of_a_tree(tmp_path: Path) -> None:
    """What NCCL was told to leave does not appear in its tree: the variable itself is the line."""
    log = [*ranks(2, 8), info("NCCL_IB_HCA set by environment to mlx5_0"), *direct(), *system_tree(nics=1)]
    found = examined(tmp_path, [*log, *table(ALLREDUCE, 16, curve(9.84))])
    assert shares(found) == {"ring": (25, 39), "optimum": (46.88, 21)}
    assert names(found)[0] == "idle-nics"
    assert "leaves NCCL 1 NIC for 8 GPUs" in found.causes[0].text


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ([], "no system tree"),
        (system_tree()[:10], "cut off"),
        ([line.replace("  ", "") for line in system_tree()], "--topology"),
    ],
)
def test_without_a_fabric_the_option_is_named(tmp_path: Path, lines: list[str], word: str) -> None:
    log = [*ranks(2, 8, "some GPU"), *lines, *table(ALLREDUCE, 16, curve(86))]
    found = examined(tmp_path, log)
    assert word in found.missing
    assert "--topology" in found.missing
    assert found.checked_tables == ()
    unknown = examined(tmp_path, [*system_tree(), *rows(ALLREDUCE, 16, curve(80))])
    assert "--boxes" in unknown.missing
    given = examined(tmp_path, [*system_tree(), *rows(ALLREDUCE, 16, curve(80))], boxes=2, network="rail")
    assert shares(given)["ring"] == (100, 80)


def test_what_the_log_does_not_say_is_asked(tmp_path: Path) -> None:
    gathered = [*ranks(1, 8), *table(CollectiveKind.ALLGATHER, 8, curve(200), named=False)]
    found = examined(tmp_path, gathered, mi300x(1))
    assert "--collective" in found.unchecked_tables[0][1]
    found = examined(tmp_path, gathered, mi300x(1), collective="allgather")
    assert shares(found) == {"ring": (448, 45), "optimum": (448, 45)}
    found = examined(tmp_path, [*ranks(1, 4), *table(ALLREDUCE, 4, curve(200))], mi300x(1))
    assert found.unchecked_tables[0][1] == "it has 4 ranks, the fabric 8; say the right one by --topology"


@pytest.mark.parametrize("kind", [one for one in CollectiveKind if one is not CollectiveKind.ALLREDUCE])
def test_other_collectives(tmp_path: Path, kind: CollectiveKind) -> None:
    log = [*ranks(1, 8), *table(kind, 8, curve(224))]
    found = examined(tmp_path, log, mi300x(1))
    expected = {"optimum": (448, 50)}
    if kind is not CollectiveKind.ALLTOALL:
        expected |= {"ring": (448, 50)}
    assert shares(found) == expected


def test_several_tables_are_judged_one_by_one(tmp_path: Path) -> None:
    log = [*ranks(1, 8), *table(ALLREDUCE, 8, curve(440)), *table(CollectiveKind.ALLGATHER, 8, curve(300))]
    log += [*ranks(1, 2), *table(ALLREDUCE, 2, curve(50))]
    found = examined(tmp_path, log, mi300x(1))
    assert [one.collective for one in found.checked_tables] == [ALLREDUCE, CollectiveKind.ALLGATHER]
    assert len(found.unchecked_tables) == 1


def nvl72(racks: int, busbw: float) -> list[str]:
    lines = ranks(18 * racks, 4, "NVIDIA GB200")
    lines.append(info("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"))
    lines.append(info("24 coll channels, 16 collnet channels, 24 nvls channels, 32 p2p channels"))
    return lines + table(ALLREDUCE, 72 * racks, curve(busbw))


def test_hosts_that_nvswitches_join_are_one_box(tmp_path: Path) -> None:
    found = examined(tmp_path, nvl72(1, 846.8), gb200_nvl72(1))
    assert shares(found)["ring"] == (900.0, 94)
    assert (found.fabric_nics, names(found)) == (0, [])
    assert found.assumed == (
        "the log has 18 hosts of 4 ranks, the fabric 1 box of 72 ranks; taken as 1 box of 72 ranks",
    )


def test_two_racks_of_which_half_of_the_nics_are_used(tmp_path: Path) -> None:
    """The linear program of switches that sum took minutes here; two NICs a host are 36 of a rack."""
    found = examined(tmp_path, nvl72(2, 846.8), gb200_nvl72(2))
    assert (found.used_nics, found.fabric_nics, names(found)) == (36, 72, ["idle-nics"])
    assert shares(found)["ring"] == (900.0, 94)
    (in_network, *_) = (one for one in found.checked_tables[0].references if one.name == "in-network")
    assert in_network.limit.is_upper_bound


def staged_tree(gpus: Sequence[str], sys_speed: str, cpus: int, model: str) -> list[str]:
    """CPUs with a PCIe switch each and `gpus` on all of them in turn."""
    lines = ["=== System : maxBw 24.0 totalBw 24.0 ==="]
    for cpu in range(cpus):
        lines.append(f"CPU/{cpu} ({model})")
        lines += [f"+ SYS[{sys_speed}] - CPU/{other}" for other in range(cpus) if other != cpu]
        lines.append(f"+ PCI[24.0] - PCI/{cpu}8000 (1000c01010000000)")
        lines += [
            f"              + PCI[24.0] - GPU/{gpu} ({place})"
            for place, gpu in enumerate(gpus)
            if place * cpus // len(gpus) == cpu
        ]
    return [info(line) for line in [*lines, "=" * 42]]


@pytest.mark.parametrize(("model", "speed"), [("1/2/4", 16), ("1/1/2", 10), ("1/1/3", 22), ("3/9/9", 6)])
def test_a_placeholder_is_no_speed_between_cpus(model: str, speed: int, tmp_path: Path) -> None:
    lines = [
        *staged_tree(("47000", "4C000", "C7000", "CC000"), "5000.0", 2, model),
        *ranks(1, 4, "some GPU"),
        *table(ALLREDUCE, 4, curve(speed / 2)),
    ]
    found = examined(tmp_path, lines)
    assert shares(found)["ring"] == (speed, 50)
    assert found.imported is not None
    assert any("between CPUs" in str(one) for one in found.imported.warnings)


def test_a_value_above_the_optimum_without_nvswitches_is_no_sum_in_switches(tmp_path: Path) -> None:
    lines = [
        *staged_tree(("34000", "35000", "36000"), "10.0", 1, "1/1/2"),
        *ranks(1, 3, "NVIDIA L40S"),
        *table(ALLREDUCE, 3, curve(33.0)),
    ]
    (judged,) = examined(tmp_path, lines).checked_tables
    assert judged.above == "above the optimum: the stated speeds of links are too low"
