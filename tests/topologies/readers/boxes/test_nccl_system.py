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
