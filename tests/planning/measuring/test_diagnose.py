"""Public cases of slow collectives, in logs written here: figures, verdicts, and what is suspected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from places import ROOT
from samples.logs.gpu_boxes import GB, lone_gpus, nvswitch_boxes, v100_boxes
from samples.logs.nccl_logs import curve, info, ranks, rows, system_tree, table
from treadle.api.diagnose import diagnose
from treadle.context import TimeLimitError
from treadle.diagnosis.diagnosed import Diagnosis
from treadle.diagnosis.limit_position import LimitPosition
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import Topology, dgx_h100, gb200_nvl72, mi300x, rail_optimized

SAMPLES = ROOT.parent / "shared" / "samples"
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


def test_the_remedy_of_slow_pcie_is_for_the_box_at_hand(tmp_path: Path) -> None:
    """A NIC for each GPU: more of them, or more GPUs, are no help; the slots are."""
    fabric = nvswitch_boxes(2, nics=8, nic=50 * GB, pcie=16 * GB)
    found = examined(tmp_path, [*ranks(2, 8), *direct(8), *table(ALLREDUCE, 16, curve(60))], fabric)
    suspect = next(one for one in found.causes if one.name == "pcie")
    assert (
        suspect.text == "PCIe between GPUs and NICs binds: 128.0 GB/s where 8 NICs carry 400.0 GB/s together"
    )
    assert "LnkSta" in suspect.fix
    assert "more NICs" not in suspect.fix


def test_four_v100_boxes_with_one_edr_card_each(tmp_path: Path) -> None:
    """nccl-tests #29: 12.2 GB/s once GPUDirect works; the maintainers expect 12.5 of rings."""
    log = [*ranks(4, 8, V100), *direct(), *table(ALLREDUCE, 32, curve(12.2))]
    found = examined(tmp_path, log, v100_boxes(4))
    assert shares(found) == {"ring": (12.5, 98), "optimum": (16.15, 76)}
    assert names(found) == []
    assert found.checked_tables[0].references[0].place is LimitPosition.NICS
    slow = [*ranks(4, 8, V100), direct()[0], info("Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0")]
    found = examined(tmp_path, [*slow, *table(ALLREDUCE, 32, curve(6))], v100_boxes(4))
    assert shares(found)["ring"] == (12.5, 48)
    assert names(found) == ["no-gdr"]


def test_one_of_four_cards(tmp_path: Path) -> None:
    """nccl-tests #112: 9.84 GB/s by NCCL_IB_HCA=mlx5_0; the maintainers suspect ACS."""
    command = "mpirun -np 16 -x NCCL_IB_HCA=mlx5_0 ./build/all_reduce_perf -b 1G -e 8G -f 2"
    log = [command, *ranks(2, 8), *direct(), *table(ALLREDUCE, 16, curve(9.84), named=False)]
    found = examined(tmp_path, log, nvswitch_boxes(2))
    assert shares(found) == {"ring": (25, 39), "optimum": (46.88, 21)}
    whole = [one for one in found.checked_tables[0].references if one.is_whole]
    assert [(one.name, float(one.limit.busbw) / GB) for one in whole] == [("ring", 100), ("optimum", 187.5)]
    assert names(found) == ["idle-nics"]  # no line of it shows ACS
    assert found.causes[0].text.startswith("1 of 4 NICs")
    assert found.causes[0].lines[0].number == 1
    assert (found.used_nics, found.fabric_nics) == (1, 4)


def test_one_of_four_cards_by_the_variable_alone(tmp_path: Path) -> None:
    log = ["-x NCCL_IB_HCA=mlx5_0 all_reduce_perf", *table(ALLREDUCE, 16, curve(9.84), named=False)]
    found = examined(tmp_path, log, nvswitch_boxes(2))
    assert shares(found)["ring"] == (25, 39)
    assert "idle-nics" in names(found)


def test_h100_box_above_the_optimum(tmp_path: Path) -> None:
    """nccl-tests #290 and #272: 476 GB/s of 450; NVLink SHARP sums in the switch."""
    log = [*ranks(1, 8, H100), info("16 coll channels, 16 nvls channels, 32 p2p channels")]
    found = examined(tmp_path, [*log, *table(ALLREDUCE, 8, curve(476))], dgx_h100(1))
    assert shares(found) == {"ring": (450, 106), "optimum": (450, 106), "in-network": (700, 68)}
    assert "NVLS" in found.checked_tables[0].above
    assert names(found) == []
    silent = examined(tmp_path, [*ranks(1, 8, H100), *table(ALLREDUCE, 8, curve(476))], dgx_h100(1))
    assert shares(silent)["in-network"] == (700, 68)
    chosen = info("NCCL_ALGO set by environment to Ring")
    ringed = examined(tmp_path, [*ranks(1, 8, H100), chosen, *table(ALLREDUCE, 8, curve(370))], dgx_h100(1))
    assert set(shares(ringed)) == {"ring", "optimum"}
    assert names(ringed) == []


def test_one_gpu_with_four_cards(tmp_path: Path) -> None:
    """nccl-tests #232: 50 GB/s where 200 were hoped for; the GPU's PCIe ends at 63."""
    log = [*ranks(2, 1, H100), direct(4)[0], *table(ALLREDUCE, 2, curve(50))]
    found = examined(tmp_path, log, lone_gpus())
    assert shares(found) == {"ring": (63, 79), "optimum": (63, 79)}
    assert found.checked_tables[0].references[0].place is LimitPosition.PCIE
    assert names(found) == ["pcie"]
    assert "63.0 GB/s for 4 NICs" in found.causes[0].text


def test_far_cards(tmp_path: Path) -> None:
    """nccl #412: 15.3 GB/s of one HDR card; the maintainers: it hangs from the CPU, no GPUDirect."""
    far = info("Pattern 4, crossNic 0, nChannels 1, bw 24.000000/12.000000, type NVL/PHB, sameChannels 1")
    log = [*ranks(12, 8), direct()[0], far, *table(ALLREDUCE, 96, curve(15.3))]
    found = examined(tmp_path, log, nvswitch_boxes(12, nics=1))
    assert shares(found) == {"ring": (25, 61), "optimum": (26.99, 57)}
    assert names(found) == ["no-gdr"]
    assert "PHB" in found.causes[0].text


def test_acs_is_no_suspect_without_a_line_that_shows_it(tmp_path: Path) -> None:
    """ACS may halve what GPUDirect carries; without a line that shows it, it is not suspected."""
    for busbw in (70, 50, 30):
        found = examined(
            tmp_path, [*ranks(2, 8), *direct(4), *table(ALLREDUCE, 16, curve(busbw))], nvswitch_boxes(2)
        )
        assert names(found) == []
        assert found.checked_tables[0].is_low


def test_tcp_between_boxes(tmp_path: Path) -> None:
    socket = info("Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0", device=7)
    log = [*ranks(2, 8), info("NET/IB : No device found."), info("Using network Socket"), socket]
    found = examined(tmp_path, [*log, *table(ALLREDUCE, 16, curve(3))], nvswitch_boxes(2))
    assert names(found) == ["tcp"]
    assert len(found.causes[0].lines) == 3
    one_box = [*ranks(1, 8), info("Using network Socket"), *table(ALLREDUCE, 8, curve(230))]
    assert names(examined(tmp_path, one_box, nvswitch_boxes(1))) == []


def test_graph_search_fell_back(tmp_path: Path) -> None:
    """33 of 507 GB/s on two trays of one NVLink domain: an edge was missing."""
    log = [
        *ranks(2, 4, "NVIDIA GB300"),
        info("2 coll channels, 2 collnet channels, 0 nvls channels, 4 p2p channels"),
    ]
    found = examined(tmp_path, [*log, *table(ALLREDUCE, 8, curve(33))], gb200_nvl72(1, 8))
    assert names(found) == ["graph-search"]
    assert shares(found)["ring"] == (900, 4)
    few = [*ranks(2, 1, "NVIDIA A100-PCIE-40GB"), info("2 coll channels, 0 nvls channels, 2 p2p channels")]
    found = examined(tmp_path, [*few, *table(ALLREDUCE, 2, curve(12))], lone_gpus(1, nic=25 * GB))
    assert "graph-search" not in names(found)


def test_falls_with_the_size(tmp_path: Path) -> None:
    """nccl #1453: 29.5 GB/s at 32 MB, 5.3 at 512 MB."""
    figures = [(2**20, 1.24), (2**23, 16.2), (2**25, 29.5), (2**26, 5.27), (2**27, 5.3), (2**29, 5.31)]
    log = [*ranks(4, 8), *table(ALLREDUCE, 32, figures)]
    found = examined(tmp_path, log, nvswitch_boxes(4))
    assert names(found) == ["falls-with-size"]
    assert "29.5 GB/s at 32MB, 5.31 at 512MB" in found.causes[0].text
    assert len(found.causes[0].lines) == 3
    # the log does not say how many hosts there are, the fabric does
    first = examined(tmp_path, table(ALLREDUCE, 8, figures), nvswitch_boxes(1)).causes[0]
    assert first.text.endswith("5.31 at 512MB: within a box, where no network takes part")


def test_wrong_results_come_first(tmp_path: Path) -> None:
    log = [*ranks(1, 8), info("Using network Socket"), *table(ALLREDUCE, 8, curve(230), wrong=5)]
    assert names(examined(tmp_path, log, nvswitch_boxes(1))) == ["wrong-results"]


def test_a_healthy_log_has_no_suspect(tmp_path: Path) -> None:
    """All that is worth a suspicion elsewhere is harmless where the figure is as it should be."""
    log = [
        *ranks(2, 8),
        *direct(4),
        info("NCCL_ALGO set by environment to Ring"),
        info("Pattern 4, crossNic 1, nChannels 4, bw 24.000000/24.000000, type NVL/PHB, sameChannels 1"),
        info("Channel 02 : 2[2] -> 3[3] via SHM/direct/direct", device=2),
        *table(ALLREDUCE, 16, curve(97)),
    ]
    found = examined(tmp_path, log, nvswitch_boxes(2))
    assert shares(found)["ring"] == (100, 97)
    assert found.causes == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (info("Channel 02 : 2[2] -> 3[3] via SHM/direct/direct", device=2), "no-p2p"),
        (info("NCCL_P2P_DISABLE set by environment to 1."), "environment"),
        (info("NCCL_MAX_NCHANNELS set by environment to 2."), "environment"),
        ("ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+", "acs"),
        (info("NET/IB : mlx5_0:1 Got async event : port error"), "port"),
        (
            "node0:1:2 [0] ib.cc:9 NCCL WARN NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)",
            "port",
        ),
    ],
)
def test_single_lines_that_explain_a_low_figure(tmp_path: Path, line: str, name: str) -> None:
    log = [*ranks(2, 8), *direct(4), line, *table(ALLREDUCE, 16, curve(20))]
    found = examined(tmp_path, log, nvswitch_boxes(2))
    assert name in names(found)
    (suspect,) = [one for one in found.causes if one.name == name]
    assert log[suspect.lines[0].number - 1] == line


def test_rails_that_rings_cross(tmp_path: Path) -> None:
    hops = [
        info("Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/3/GDRDMA", device=7),
        info("Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA", host=1),
        info("Channel 01/0 : 6[6] -> 9[1] [send] via NET/IB/1/GDRDMA", device=6),
        info("Channel 01/0 : 6[6] -> 9[1] [receive] via NET/IB/1/GDRDMA", host=1, device=1),
    ]
    log = [*ranks(2, 8), *hops, *table(ALLREDUCE, 16, curve(20))]
    found = examined(tmp_path, log, rail_optimized(2))
    assert "crossed-rails" in names(found)
    suspect = next(one for one in found.causes if one.name == "crossed-rails")
    assert suspect.text.startswith("1 of 2 hops")
    assert "crossed-rails" not in names(examined(tmp_path, log, nvswitch_boxes(2)))


def test_rings_that_leave_by_another_card(tmp_path: Path) -> None:
    graph = [
        info("Pattern 4, crossNic 1, nChannels 2, bw 24.000000/24.000000, type NVL/PIX, sameChannels 0"),
        info(" 0 : NET/3 GPU/0 GPU/1 NET/2"),
        info(" 1 : NET/2 GPU/1 GPU/0 NET/2"),
        info("Pattern 1, crossNic 0, nChannels 2, bw 24.000000/24.000000, type NVL/PIX, sameChannels 0"),
        info(" 0 : NET/0 GPU/0 GPU/1 NET/1"),
    ]
    log = [*ranks(2, 8), *graph, *table(ALLREDUCE, 16, curve(20))]
    found = examined(tmp_path, log, rail_optimized(2))
    suspect = next(one for one in found.causes if one.name == "crossed-rails")
    assert suspect.text.startswith("1 of 2 rings")
    assert "crossed-rails" not in names(examined(tmp_path, log, nvswitch_boxes(2)))


def test_few_channels_are_enough_for_one_card(tmp_path: Path) -> None:
    few = info("2 coll channels, 0 nvls channels, 2 p2p channels")
    log = [*ranks(2, 8), few, *direct(), *table(ALLREDUCE, 16, curve(15))]
    assert "graph-search" not in names(examined(tmp_path, log, nvswitch_boxes(2, nics=1)))


def test_values_show_themselves_in_a_line(tmp_path: Path) -> None:
    found = examined(
        tmp_path, [*ranks(2, 8), *direct(4), *table(ALLREDUCE, 16, curve(50))], nvswitch_boxes(2)
    )
    assert repr(found) == ("<Diagnosis allreduce 50 GB/s busbw, 50% of ring, 27% of optimum; causes: none>")
    assert "42 lines, 1 table" in repr(found.log)
    assert len(repr(found.log)) < 200


def test_sizes_that_are_too_small(tmp_path: Path) -> None:
    twos, fours = [(2**20, 5.0), (2**21, 10.0), (2**22, 20.0)], [(2**18, 9.0), (2**20, 18.0), (2**22, 64.8)]
    for figures in (twos, fours):
        log = [*ranks(2, 8), *direct(4), *table(ALLREDUCE, 16, figures)]
        assert "small-sizes" in names(examined(tmp_path, log, nvswitch_boxes(2)))


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


def test_a_slow_link_is_told_where_the_fabric_itself_is_made_from_the_tree(tmp_path: Path) -> None:
    """Held against the damaged fabric the figure is as it should be; the tree still shows the damage."""
    tree = system_tree(nvlink="NVL[370.8] - NVS/0", nics=0)
    place = next(at for at, line in enumerate(tree) if "NVL[370.8]" in line)
    tree[place] = tree[place].replace("370.8", "185.4")
    log = [*ranks(1, 8, H100), *tree, *table(ALLREDUCE, 8, curve(215))]
    found = examined(tmp_path, log)
    assert shares(found)["ring"] == (225, 96)
    assert names(found) == ["slow-link"]
    assert "NVLinks of 185.4 GB/s where 7 of 8 have 370.8" in found.causes[0].text


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


def test_what_takes_too_long_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> None:
        raise TimeLimitError

    log = [*ranks(2, 8), *direct(4), *table(ALLREDUCE, 16, curve(50))]
    monkeypatch.setattr("treadle.diagnosis.examination.optimum", late)
    found = examined(tmp_path, log, nvswitch_boxes(2))
    assert shares(found) == {"ring": (100, 50)}
    assert found.late == ("optimum",)
    monkeypatch.setattr("treadle.diagnosis.examination.ring_limit", late)
    found = examined(tmp_path, log, nvswitch_boxes(2))
    assert "--time-limit" in found.unchecked_tables[0][1]


def test_several_tables_are_judged_one_by_one(tmp_path: Path) -> None:
    log = [*ranks(1, 8), *table(ALLREDUCE, 8, curve(440)), *table(CollectiveKind.ALLGATHER, 8, curve(300))]
    log += [*ranks(1, 2), *table(ALLREDUCE, 2, curve(50))]
    found = examined(tmp_path, log, mi300x(1))
    assert [one.collective for one in found.checked_tables] == [ALLREDUCE, CollectiveKind.ALLGATHER]
    assert len(found.unchecked_tables) == 1


def test_excerpts_of_public_threads() -> None:
    """Lines pasted in threads 398, 182, 1453 and 128: TCP, no GPUDirect, congestion, one card."""
    wanted = {398: "tcp", 182: "no-gdr", 1453: "falls-with-size"}
    for number, name in wanted.items():
        path = SAMPLES / f"nccl_log_excerpt_{number}.txt"
        if not path.is_file():
            pytest.skip(f"no {path}")
        assert name in [one.name for one in diagnose(path).causes]
    found = diagnose(SAMPLES / "nccl_log_excerpt_1453.txt", topology=nvswitch_boxes(3))
    assert (found.checked_tables[0].collective, found.checked_tables[0].n_ranks) == (ALLREDUCE, 24)
    assert shares(found)["ring"] == (100, 30)
    found = diagnose(SAMPLES / "nccl_log_excerpt_128.txt", topology=dgx_h100(1))
    assert found.checked_tables[0].collective is CollectiveKind.REDUCE_SCATTER


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


def test_gpus_without_peer_to_peer_cross_the_host(tmp_path: Path) -> None:
    lines = [
        *staged_tree(("34000", "35000"), "10.0", 1, "1/1/2"),
        info("Channel 00 : 0[34000] -> 1[35000] via SHM/direct/direct"),
        *ranks(1, 2, "NVIDIA GeForce RTX 4090"),
        *table(ALLREDUCE, 2, curve(9.7)),
    ]
    found = examined(tmp_path, lines)
    assert shares(found)["optimum"] == shares(found)["ring"] == (15.75, 62)
    assert names(found) == ["no-p2p"]
    assert shares(examined(tmp_path, lines, links="library"))["optimum"] == (12.0, 81)
    peers = [line.replace("SHM/direct/direct", "P2P/direct pointer") for line in lines]
    assert shares(examined(tmp_path, peers))["optimum"] == (31.5, 31)


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
