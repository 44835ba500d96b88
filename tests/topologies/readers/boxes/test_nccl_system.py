"""NCCL's system tree, as its log has it, becomes a box."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from samples.logs.nccl_logs import info, system_tree
from treadle.errors import FormatError, TreadleError
from treadle.planning import bound, import_topology
from treadle.topologies.readers.boxes.box import Box, BridgeKind
from treadle.topologies.readers.boxes.nccl_system import read_system
from treadle.topologies.readers.imported import LinkSpeeds

GB = 10**9


def numbered(lines: list[str]) -> list[tuple[int, str]]:
    """Lines of a log with their numbers, as the tree's reader gets them."""
    return [(number, line.partition("NCCL INFO ")[2]) for number, line in enumerate(lines, start=1)]


def read(lines: list[str], links: LinkSpeeds = LinkSpeeds.NOMINAL) -> Box:
    return read_system(numbered(lines), links=links, source="log")


def test_a_box_of_eight_gpus_on_a_switch() -> None:
    box = read(system_tree())
    assert [gpu.rank for gpu in box.gpus] == list(range(8))
    assert box.gpus[0].bus_id == "0000:11:00.0"
    assert [(link.gpu, link.other, link.count, link.bandwidth) for link in box.links] == [
        (gpu, None, 12, 300 * GB) for gpu in range(8)
    ]
    assert [(nic.name, nic.bandwidth, nic.port) for nic in box.nics] == [
        (f"NET/{number}", 25 * GB, 1) for number in range(4)
    ]
    kinds = [bridge.kind for bridge in box.bridges]
    assert (kinds.count(BridgeKind.HOST), kinds.count(BridgeKind.SWITCH)) == (2, 4)
    assert {gpu.slot.bandwidth for gpu in box.gpus} == {63 * GB // 2}
    for number, nic in enumerate(box.nics):
        assert nic.slot.above == box.gpus[2 * number].slot.above == box.gpus[2 * number + 1].slot.above
    assert [(joint.bandwidth, joint.one != joint.other) for joint in box.host_links] == [(10 * GB, True)]
    assert box.n_switches == 1


def test_speeds_of_the_library_are_as_printed() -> None:
    box = read(system_tree(), LinkSpeeds.LIBRARY)
    assert {link.bandwidth for link in box.links} == {240 * GB}
    assert {gpu.slot.bandwidth for gpu in box.gpus} == {24 * GB}


@pytest.mark.parametrize(
    ("nvlink", "count", "nominal"),
    [
        ("NVL[370.8] - NVS/0", 18, 450),
        ("NVL[164.8] - NVS/0", 8, 200),
        ("NVL[721.8] - NVS/0", 18, 900),
        ("NVL[264.0] - NVS/0", 12, 300),
        ("NVL[252.0] - NVS/0", 12, 300),
        ("NVL[120.0] - NVS/0", 6, 150),
    ],
)
def test_nvlinks_are_counted_by_the_speed_of_one(nvlink: str, count: int, nominal: int) -> None:
    """Speeds of one link in NCCL's table: 20, 20.6, 21, 22 and 40.1 GB/s of NVLinks of 25 and 50 GB/s."""
    box = read(system_tree(nvlink=nvlink))
    assert {(link.count, link.bandwidth) for link in box.links} == {(count, nominal * GB)}


def test_speeds_that_no_generation_explains_stay_and_are_told() -> None:
    box = read(system_tree(nvlink="NVL[33.3] - NVS/0"))
    assert {link.bandwidth for link in box.links} == {333 * GB // 10}
    assert "no known generation" in str(box.warnings[0])


def test_later_versions_put_the_system_before_each_id() -> None:
    box = read(system_tree(system="0-"))
    plain = read(system_tree())
    assert [gpu.bus_id for gpu in box.gpus] == [gpu.bus_id for gpu in plain.gpus]
    assert [nic.bandwidth for nic in box.nics] == [nic.bandwidth for nic in plain.nics]
    assert box.links == plain.links
    lines = system_tree(system="0-")
    place = next(place for place, line in enumerate(lines) if "NET[" in line)
    lines.insert(place + 1, lines[place].partition("NET/")[0] + "GIN/0-0")
    assert read(lines).nics == box.nics


def test_pairs_of_gpus_and_cards_with_two_ports() -> None:
    text = """CPU/0 (1/1/2)
+ PCI[12.0] - GPU/1B000 (1)
              + NVL[40.0] - GPU/1A000
+ PCI[12.0] - GPU/1A000 (0)
              + NVL[40.0] - GPU/1B000
+ PCI[12.0] - NIC/3B000
              + NET[12.5] - NET/0 (1/1/12.500000)
              + NET[12.5] - NET/1 (1/2/12.500000)"""
    box = read_system(list(enumerate(text.splitlines(), start=1)))
    assert [gpu.rank for gpu in box.gpus] == [0, 1]
    assert [(link.gpu, link.other, link.count, link.bandwidth) for link in box.links] == [(0, 1, 2, 50 * GB)]
    assert [bridge.kind for bridge in box.bridges] == [BridgeKind.HOST, BridgeKind.CARD]
    assert [(nic.slot.above, nic.port) for nic in box.nics] == [(1, 1), (1, 2)]


def test_devices_above_gpus() -> None:
    """NCCL 2.30: PCIe and NVLinks are those of a device, its GPU has neither rank nor links."""
    lines = []
    for line in system_tree(system="0-"):
        if "- GPU/" in line:
            head, _, rest = line.partition("GPU/")
            lines.append(f"{head}DEV/{rest.split(' ')[0]} (10de233010de16c1)")
            deep = " " * len(head.partition("NCCL INFO ")[2])
            lines.append(info(f"{deep}+ LOC[5000.0] - GPU/{rest.split(' ')[0]}"))
        else:
            lines.append(line)
    box, plain = read(lines), read(system_tree(system="0-"))
    assert [gpu.rank for gpu in box.gpus] == [None] * 8
    assert [gpu.bus_id for gpu in box.gpus] == [gpu.bus_id for gpu in plain.gpus]
    assert (box.links, box.nics, box.bridges) == (plain.links, plain.nics, plain.bridges)


@pytest.mark.parametrize(
    ("speed", "count", "nominal"), [(24, 1, 46), (36, 1, 50), (144, 4, 200), (48, 1, 64)]
)
def test_xgmi(speed: int, count: int, nominal: int) -> None:
    text = f"""CPU/0 (1/2/4)
+ PCI[24.0] - GPU/47000 (0)
              + XGMI[{speed:.1f}] - GPU/4C000
+ PCI[24.0] - GPU/4C000 (1)
              + XGMI[{speed:.1f}] - GPU/47000"""
    box = read_system(list(enumerate(text.splitlines(), start=1)))
    assert [(link.count, link.bandwidth) for link in box.links] == [(count, nominal * GB)]
    assert box.link_word == "xGMI"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CPU/0 (1/1/2)", "shows no GPU"),
        ("+ PCI[12.0] - GPU/1000 (0)", "hangs from nothing"),
        ("PCI/1000 (1)", "begins with CPUs"),
        ("CPU/0 (1/1/2)\n    + PCI[12.0] - GPU/1000 (0)", "indentation is lost"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000", "has no rank"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n+ PCI[12.0] - GPU/1000 (1)", "bus id"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n              + NVL[40.0] - GPU/1000", "to itself"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n              + NVL[40.0] - GPU/2000", "does not show"),
        ("CPU/0 (1/1/2)\n+ PCI[0.0] - GPU/1000 (0)", "no speed"),
        ("CPU/0 (1/1/2)\nsomething else", "no line of a system tree"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n+ NVL[40.0] - NVS/0", "indentation is lost"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n+ NET[12.5] - NET/0 (1/1/12.5)", "indentation is lost"),
        ("", "shows no GPU"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        read_system(list(enumerate(text.splitlines(), start=1)), source="log")
    assert "\n" not in str(caught.value)


def test_mutated_trees_are_read_or_refused() -> None:
    """One line is dropped, doubled, cut or changed: a box, or an error of ours."""
    lines = numbered(system_tree())
    choose = random.Random(5)
    outcomes = set()
    for _ in range(300):
        mutant = list(lines)
        place = choose.randrange(len(mutant))
        number, text = mutant[place]
        kind = choose.randrange(4)
        if kind == 0:
            del mutant[place]
        elif kind == 1:
            mutant.insert(place, mutant[place])
        elif kind == 2:
            mutant[place] = (number, text[: choose.randrange(len(text) + 1)])
        else:
            at = choose.randrange(len(text))
            mutant[place] = (number, text[:at] + choose.choice("0 9-[]GPU/.") + text[at + 1 :])
        try:
            outcomes.add(len(read_system(mutant).gpus))
        except TreadleError as error:
            outcomes.add(-str(error).count("\n") - 1)
    assert {-1, 8} <= outcomes
    assert min(outcomes) == -1


def test_a_log_is_a_fabric_wherever_one_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "nccl.log"
    both = [line for pair in zip(system_tree(), system_tree(host=1), strict=True) for line in pair]
    path.write_text("\n".join(["# nThread 1", *both, "the end"]) + "\n")
    found = import_topology(path, boxes=2, network="rail")
    assert found.format == "nccl-log"
    assert bound(found.topology, "allgather").algbw == 2 * 4 * 25 * GB
    assert import_topology(path, boxes=2, network="rail", links="library").topology != found.topology
    with pytest.raises(FormatError, match="--network"):
        import_topology(path, boxes=2)


@pytest.mark.parametrize(
    ("lines", "word"), [(system_tree()[:12], "cut off"), ([info("hello")], "no system tree")]
)
def test_a_log_without_a_whole_tree_is_refused(tmp_path: Path, lines: list[str], word: str) -> None:
    path = tmp_path / "nccl.log"
    path.write_text("\n".join(lines))
    with pytest.raises(FormatError, match=word):
        import_topology(path)


ODD = """CPU/1-0 (1/1/2)
+ PCI[12.0] - PCI/1-B000 (1000)
              + PCI[6.0] - GPU/1-D000 (5)
                           + NVL[40.0] - GPU/1-1E000
                           + NVL[60.0] - NVS/1
                           + NVL[20.0] - NVS/2
                           + C2C[300.0] - CPU/1-0
              + PCI[3.0] - NIC/1-C000
                           + NET[12.5] - NET/1-A (a/b/9/2/12.5)
                           + LOC[5000.0] - GPU/1-D000
+ SYS[10.0] - CPU/1-1
CPU/1-1 (1/1/2)
+ PCI[24.0] - GPU/1-1E000 (-3)
              + NVL[20.0] - GPU/1-D000
+ PCI[12.0] - NIC/1-1F000
              + NET[0.0] - NET/1-9 (b/3/5.0)
              + NET[25.0] - NET/0-B (x)
+ SYS[9.0] - CPU/1-0
+ SYS[8.0] - CPU/1-1"""


def read_text(text: str, links: LinkSpeeds = LinkSpeeds.NOMINAL) -> Box:
    return read_system(list(enumerate(text.splitlines(), start=1)), links=links, source="log")


def test_an_odd_tree_line_by_line() -> None:
    """Nominal PCIe is 21/16 of the library's figure; ports are numbered by system, then by number."""
    box = read_text(ODD)
    assert [(gpu.name, gpu.bus_id, gpu.rank) for gpu in box.gpus] == [
        ("GPU/1-1E000", "", -3),
        ("GPU/1-D000", "", 5),
    ]
    assert [(gpu.slot.above, gpu.slot.bandwidth) for gpu in box.gpus] == [
        (2, 31_500_000_000),
        (1, 7_875_000_000),
    ]
    assert [(one.kind, one.name, one.above, one.bandwidth) for one in box.bridges] == [
        (BridgeKind.HOST, "CPU/1-0", None, None),
        (BridgeKind.SWITCH, "PCI/1-B000", 0, 15_750_000_000),
        (BridgeKind.HOST, "CPU/1-1", None, None),
        (BridgeKind.CARD, "NIC/1-1F000", 2, 15_750_000_000),
    ]
    assert [(one.name, one.bandwidth, one.guid, one.port) for one in box.nics] == [
        ("NET/0-B", 25 * GB, "", None),
        ("NET/1-9", None, "b", 3),
        ("NET/1-A", 12_500_000_000, "9", 2),
    ]
    assert [(one.slot.above, one.slot.bandwidth) for one in box.nics] == [
        (3, None),
        (3, None),
        (1, 3_937_500_000),
    ]
    # of a link that differs by direction the slower counts; 20 GB/s are one of the library's, 25 nominal
    assert [(one.gpu, one.other, one.count, one.bandwidth) for one in box.links] == [
        (0, 1, 1, 25 * GB),
        (1, None, 4, 100 * GB),
    ]
    assert [(one.one, one.other, one.bandwidth) for one in box.host_links] == [(0, 2, 10 * GB)]
    assert (box.n_switches, box.link_word, box.defaulted) == (2, "NVLink", ())
    assert [str(one) for one in box.warnings] == [
        "line 4: links of GPUs 0 and 1 differ by direction; the slower counts",
        "line 7: GPU 1: its C2C to CPU/1-0 is left out",
    ]
    library = read_text(ODD, LinkSpeeds.LIBRARY)
    assert [one.bandwidth for one in library.links] == [20 * GB, 80 * GB]
    assert [gpu.slot.bandwidth for gpu in library.gpus] == [24 * GB, 6 * GB]


def test_ways_between_cpus_are_told_in_order() -> None:
    """The first that is told counts, and none of no speed; CPU 3 stands last and tells nothing."""
    cpus = {"0": "3 7.0", "2": "0 5.0", "1": "2 0.0", "3": ""}
    rows = [
        f"CPU/{cpu} (1/1/2)" + (f"\n+ SYS[{way[2:]}] - CPU/{way[0]}" if way else "")
        for cpu, way in cpus.items()
    ]
    box = read_text("\n".join([*rows, pair("NVL", "20.0").replace("CPU/0 (1", "CPU/4 (1")]))
    assert [one.name for one in box.bridges] == ["CPU/0", "CPU/2", "CPU/1", "CPU/3", "CPU/4"]
    assert [(one.one, one.other, one.bandwidth) for one in box.host_links] == [
        (0, 1, 5 * GB),
        (0, 3, 7 * GB),
    ]


def pair(link: str, speed: str) -> str:
    return (
        f"CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n              + {link}[{speed}] - GPU/2000\n"
        f"+ PCI[12.0] - GPU/2000 (1)\n              + {link}[{speed}] - GPU/1000"
    )


@pytest.mark.parametrize(
    ("link", "speed", "count", "bandwidth"),
    [
        ("NVL", "240.0", 12, 300 * GB),
        ("NVL", "260.0", 1, 260 * GB),  # 13 of 20 are more than a GPU has
        ("NVL", "252.0", 12, 300 * GB),
        ("NVL", "273.0", 1, 273 * GB),
        ("NVL", "242.0", 11, 275 * GB),
        ("NVL", "370.8", 18, 450 * GB),
        ("NVL", "391.4", 1, 391_400_000_000),
        ("NVL", "721.8", 18, 900 * GB),
        ("NVL", "761.9", 1, 761_900_000_000),
        ("NVL", "18.0", 1, 20 * GB),
        ("NVL", "72.0", 4, 80 * GB),
        ("NVL", "12.0", 1, 14_062_500_000),
        ("NVL", "48.0", 4, 56_250_000_000),
        ("NVL", "36.0", 1, 36 * GB),  # two of 18 or three of 12
        ("NVL", "20.05", 1, 25 * GB),
        ("NVL", "20.06", 1, 20_060_000_000),
        ("NVL", "9.0", 1, 9 * GB),
        ("XGMI", "48.0", 1, 64 * GB),
        ("XGMI", "24.0", 1, 46 * GB),
        ("XGMI", "144.0", 4, 200 * GB),
        ("XGMI", "180.0", 1, 180 * GB),
        ("XGMI", "96.0", 1, 96 * GB),
    ],
)
def test_how_many_links_a_speed_is(link: str, speed: str, count: int, bandwidth: int) -> None:
    box = read_text(pair(link, speed))
    assert [(one.count, one.bandwidth) for one in box.links] == [(count, bandwidth)]
    library = read_text(pair(link, speed), LinkSpeeds.LIBRARY)
    assert [one.bandwidth for one in library.links] == [round(float(speed) * GB)]
    assert library.warnings == ()


LOST = "the tree's indentation is lost; give --topology"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CPU/0\n+ PCI[12.0] - GPU/1000 (x)", "log:2: GPU/1000 has no rank"),
        (" CPU/0", "log:1: a system tree begins with CPUs"),
        ("CPU/0\n + PCI[12.0] - GPU/1000 (0)", f"log:2: hangs from nothing: {LOST}"),
        ("CPU/0\n+ NET[12.5] - NET/0", f"log:2: NET hangs from CPU/0: {LOST}"),
        ("CPU/0 (1/2)\n+ XGMI[12.5] - GPU/0", f"log:2: XGMI hangs from CPU/0: {LOST}"),
        (
            "CPU/0\n+ PCI[1.0] - GPU/1 (0)\n             + PCI[1.0] - NIC/2\n"
            "                          + NET[1.0] - NET/0",
            "log:3: NIC/2 is attached to something other than a switch",
        ),
        ("CPU/0\n+ PCI[0.0] - PCI/1\n+ PCI[1.0] - GPU/2 (0)", "log:2: PCI/1 has a link of no speed"),
        (pair("NVL", "0.0"), "log:1: a link between GPUs has no speed"),
        (
            pair("NVL", "9.0").replace("GPU/2000\n+", "GPU/3000\n+"),
            "log:3: a link to GPU/3000, which the tree does not show",
        ),
        (pair("NVL", "9.0").replace("GPU/2000\n+", "GPU/1000\n+"), "log:3: a link of GPU/1000 to itself"),
        ("CPU/0", "log:1: the system tree shows no GPU"),
        (
            "CPU/0\n+ PCI[1.0] - GPU/1 (0)\n+ PCI[1.0] - NIC/2\n             + NET[1.0] - NET/0\n"
            "+ PCI[1.0] - NIC/3\n"
            "             + NET[1.0] - NET/0",
            "log:6: NET/0 is there twice",
        ),
        (
            "CPU/0\n+ PCI[1.0] - GPU/1 (0)\n+ PCI[1.0] - GPU/2 (0)",
            "log:1: system tree: box: rank 0 is there twice",
        ),
    ],
)
def test_refusals_in_full(text: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        read_text(text)
    assert str(refused.value) == message


def test_powers_cpus_have_nvlinks_and_trees_have_an_end() -> None:
    power = "CPU/0 (2/1)\n+ NVL[18.0] - GPU/1000\n+ PCI[12.0] - GPU/1000 (0)"
    assert read_text(power).links == ()
    line = "CPU/0 (1/1)"
    lines = [(number, line) for number in range(1, 4096)]
    assert len(read_system([*lines, (4096, "+ PCI[1.0] - GPU/1 (0)")]).bridges) == 4095
    with pytest.raises(FormatError, match="log: the system tree has more than 4096 lines"):
        read_system([*lines, (4096, line), (4097, "+ PCI[1.0] - GPU/1 (0)")], source="log")


def test_devices_are_in_the_order_of_their_numbers() -> None:
    text = "CPU/0\n+ PCI[1.0] - DEV/1-2000 (x)\n+ PCI[1.0] - DEV/0-B000\n+ PCI[1.0] - DEV/9000\n"
    box = read_text(text)
    assert [(gpu.name, gpu.bus_id, gpu.rank) for gpu in box.gpus] == [
        ("GPU/9000", "0000:09:00.0", None),
        ("GPU/0-B000", "0000:0b:00.0", None),
        ("GPU/1-2000", "", None),
    ]
    assert read_text("CPU/0\n+ PCI[1.0] - GPU/123456789 (0)").gpus[0].bus_id == "1234:56:78.9"
    assert read_text("CPU/0\n+ PCI[1.0] - GPU/1234567890 (0)").gpus[0].bus_id == ""


def test_the_first_whole_tree_of_a_log_is_read(tmp_path: Path) -> None:
    """Lines of another process, colours and line ends are left aside; so is what comes before the heading."""
    path = tmp_path / "nccl.log"
    tree = pair("NVL", "40.0").splitlines()
    head = "x node0:1:2 [0] NCCL INFO "
    lines = [
        f"{head}{tree[0]}",
        f"{head}=== System : x",
        *(f"\x1b[32m{head}{text}\x1b[0m\r" for text in tree),
    ]
    lines.insert(4, "node1:9:9 [3] NCCL INFO === System : cut off")
    lines.insert(6, "node1:9:9 [3] NCCL INFO CPU/0")
    path.write_text("\n".join([*lines, f"{head}======", f"{head}=== System : y", f"{head}======"]))
    found = import_topology(path)
    assert [found.topology.link_name(link) for link in range(2)] == [
        "box0.gpu0->box0.gpu1",
        "box0.gpu1->box0.gpu0",
    ]
    path.write_text("\n".join(lines))
    with pytest.raises(FormatError) as refused:
        import_topology(path)
    how = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH prints it"
    assert str(refused.value) == f"{path}: its system tree is cut off; {how}"
