"""hwloc's XML: NVSwitches, the PCIe tree, NICs, and what is refused."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from samples.box_files import hwloc_xml
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies.readers.boxes import hwloc
from treadle.topologies.readers.boxes.box import Box, BridgeKind
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile

GB = 10**9


def imported(tmp_path: Path, text: str, **options: Any) -> Imported:
    path = tmp_path / "box.xml"
    path.write_text(text)
    return planning.import_topology(path, **options)


def algbw(found: Imported) -> Fraction:
    return Fraction(planning.bound(found.topology, "allgather").bound.algbw) / GB


def test_switches_are_one_and_nics_are_near(tmp_path: Path) -> None:
    """Four V100 with 2 x 3 NVLinks; 16 lanes of 8 GT/s (15.5 GB/s) beside NICs of 12.5 GB/s."""
    found = imported(tmp_path, hwloc_xml())
    assert (found.format, algbw(found)) == ("hwloc-xml", Fraction(4 * 150, 3))
    assert found.recognised["switches"] == "2 NVSwitches, as one"
    assert not found.warnings
    two = imported(tmp_path, hwloc_xml(), boxes=2, network="rail", nic_bandwidth=25 * GB // 2)
    assert algbw(two) == 4 * Fraction("12.5") / 4 * 8
    assert two.recognised["pairs"] == "; ".join(f"gpu{i}: mlx5_{i}" for i in range(4))
    assert algbw(imported(tmp_path, hwloc_xml(), links="library")) == Fraction(4 * 120, 3)


def test_halves_without_trunks_are_joined_and_that_is_said(tmp_path: Path) -> None:
    found = imported(tmp_path, hwloc_xml(halves=True, links=6))
    assert algbw(found) == Fraction(4 * 150, 3)
    (warning,) = found.warnings
    assert "2 NVSwitches reach different GPUs, and their links to each other are not in the file" in str(
        warning
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('SYSTEM "hwloc2.dtd"', '[<!ENTITY a "b">]'), "brings declarations of its own (a DTD)"),
        (('gp_index="301"', 'gp_index="300"'), 'gp_index="300" is there twice'),
        (("0000:41:00.0", "0000:40:00.0"), 'pci_busid="0000:40:00.0" is there twice'),
        (("15.753846", "fast"), 'pci_link_speed="fast": expected GB/s such as 15.753846'),
        (
            ("[10de:1db5]", "[10de:ffff]"),
            "has links of GPU 0000:40:00.0, whose model is not known; name it by --gpu",
        ),
        (("75000", "75001"), "OSDev:300 and PCIDev:700 have 75001 MB/s one way only"),
        (('nbobjs="6"', 'nbobjs="7"'), "6 indexes and 36 values: expected 7 and 49"),
        (
            ("75000 75000 75000 75000 0 0", "75000 75000 75000 0 0 0"),
            "OSDev:303 and PCIDev:700 have 75000 MB/s one way only",
        ),
        (("OSDev:301", "OSDev:300"), "6 indexes and 36 values: expected 6 and 36"),
        (("OSDev:303", "OSDev:999"), "GPU 0000:43:00.0 has no NVLinks, other GPUs have"),
        (('name="NVLinkBandwidth"', 'name="Other"'), "has 4 GPUs and none of their NVLinks"),
        (('name="nvml2"', 'name="x"'), "0000:42:00.0 is a board as the GPUs are, and has no GPU in it"),
        (
            ('type="OSDev" gp_index="302"', 'type="Bridge" gp_index="302"'),
            "hangs from the PCI device 0000:42:00.0",
        ),
        (("</topology>", ""), "malformed XML"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(FormatError, match=re.escape(says)):
        imported(tmp_path, hwloc_xml().replace(*change, 1))


def test_bandwidths_are_of_whole_links(tmp_path: Path) -> None:
    with pytest.raises(
        FormatError, match=r"GPU 0000:40:00\.0 has links of 75001 MB/s, which are not 1 to 6 links of a v100"
    ):
        imported(tmp_path, hwloc_xml().replace("75000", "75001"))


def test_sockets_that_no_links_join_are_asked(tmp_path: Path) -> None:
    """Pairs of GPUs joined directly, as on POWER8: neither NVLinks nor the file join the pairs."""
    text = hwloc_xml(switches=0, links=1)
    rows = ["0 50000 0 0", "50000 0 0 0", "0 0 0 50000", "0 0 50000 0"]
    values = "\n".join(f"<u64values>{row}</u64values>" for row in rows)
    text = re.sub(r"(<u64values>.*</u64values>\s*)+", values, text)
    with pytest.raises(
        FormatError, match=r"no NVLinks join GPU 0000:40:00\.0 and GPU 0000:42:00\.0; .*--pcie full"
    ):
        imported(tmp_path, text)
    joined = imported(tmp_path, text, pcie="full")
    assert algbw(joined) == 4 * 31 / Fraction(2)  # two GPUs' PCIe into each pair


ODD = """<topology>
<object type="Machine" gp_index="1">
<object type="Bridge" gp_index="2" bridge_type="0-1">
<object type="Bridge" gp_index="3" bridge_type="1-1" pci_busid="0000:01:00.0" pci_link_speed="7.5">
<object type="PCIDev" gp_index="4" pci_busid="0000:0B:00.0" pci_type="0302 [10de:1db1] [0000:0000] a1" \
pci_link_speed="15.5">
<object type="OSDev" gp_index="5" name="nvml1"/></object>
<object type="PCIDev" gp_index="6" pci_busid="0000:0a:00.0" pci_type="0302 [10de:1db1]" pci_link_speed="0">
<object type="OSDev" gp_index="7" name="cuda0"/><object type="OSDev" gp_index="8" name="card0"/></object>
<object type="PCIDev" gp_index="9" pci_busid="0000:0c:00.0" pci_type="0207 [15b3:1017]" pci_link_speed="1.25">
<object type="OSDev" gp_index="10" name="ib0"/><object type="OSDev" gp_index="11" name="mlx5_3"/></object>
</object>
<object type="PCIDev" gp_index="12" pci_busid="0000:0d:00.0" pci_type="0200 [8086:1017]"/>
<object type="PCIDev" gp_index="13" pci_busid="0000:0e:00.0" pci_type="0680 [10de:1af1]" subtype="NVSwitch"/>
<object type="PCIDev" gp_index="14" pci_busid="0000:0f:00.0" pci_type="0300 [1002:1111]"/>
</object>
</object>
<distances2hetero name="NVLinkBandwidth" nbobjs="4">
<indexes length="9">OSDev:5 PCIDev:6 PCIDev:13</indexes><indexes>NUMANode:0</indexes>
<u64values>0 50000 25000 75000</u64values><u64values>50000 0 0 0 25000 0 0 0 75000 0 0 0</u64values>
</distances2hetero>
</topology>
"""


def read(text: str, **options: Any) -> Box:
    return hwloc.read_box(SourceFile(text, "h.xml"), ImportOptions(**options))


def test_an_odd_box_object_by_object() -> None:
    """GPUs by bus id; links in multiples of 25 GB/s; a card by the name that verbs have."""
    box = read(ODD)
    assert [(gpu.name, gpu.model, gpu.slot.above, gpu.slot.bandwidth) for gpu in box.gpus] == [
        ("GPU 0000:0a:00.0", "v100", 1, None),
        ("GPU 0000:0b:00.0", "v100", 1, 15_500_000_000),
    ]
    assert [(nic.name, nic.bandwidth, nic.slot.above, nic.slot.bandwidth) for nic in box.nics] == [
        ("mlx5_3", None, 1, 1_250_000_000),
        ("0000:0d:00.0", None, 0, None),
    ]
    assert [(one.kind, one.name, one.above, one.bandwidth) for one in box.bridges] == [
        (BridgeKind.HOST, "host bridge at line 3", None, None),
        (BridgeKind.SWITCH, "0000:01:00.0", 0, 7_500_000_000),
    ]
    assert [(one.gpu, one.other, one.count, one.bandwidth) for one in box.links] == [
        (1, None, 1, 25 * GB),
        (0, 1, 2, 50 * GB),
    ]
    assert box.n_switches == 1
    assert (
        "line 17: links of GPU 0000:0b:00.0 to NUMANode:0, which is neither GPU nor NVSwitch, are left out"
        in [str(one) for one in box.warnings]
    )
    named = 'pci_type="0200 [8086:1017]"><object type="OSDev" name="mlx5_3"/></object>'
    twice = read(ODD.replace('pci_type="0200 [8086:1017]"/>', named))
    assert [nic.name for nic in twice.nics] == ["mlx5_3", "mlx5_3 0000:0d:00.0"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('gp_index="13"', 'gp_index="12"', 'gp_index="12" is there twice'),
        ('gp_index="8"', 'gp_index="7"', 'gp_index="7" is there twice'),
        ('pci_busid="0000:0e:00.0"', 'pci_busid="0000:0d:00.0"', 'pci_busid="0000:0d:00.0" is there twice'),
        ('pci_busid="0000:0e:00.0"', 'pci_busid="0e"', 'pci_busid="0e": expected one such as 0000:4f:00.0'),
        ('pci_busid="0000:0e:00.0"', "", "lacks the attribute pci_busid"),
        (
            'pci_type="0680 [10de:1af1]"',
            'pci_type="x"',
            'pci_type="x": expected a class and identifiers, "0302 [10de:1db8] ..."',
        ),
        (
            'pci_link_speed="7.5"',
            'pci_link_speed="fast"',
            'pci_link_speed="fast": expected GB/s such as 15.753846',
        ),
        (
            'name="nvml1"/>',
            'name="nvml1"/><object type="PCIDev"/>',
            "hangs from the PCI device 0000:0b:00.0, which is no bridge",
        ),
        (
            "[1002:1111]",
            "[10de:1db1]",
            "0000:0f:00.0 is a board as the GPUs are, and has no GPU in it (nvml, rsmi, ...)",
        ),
        ("OSDev:5", "OSDev:x", "index 'OSDev:x': expected a number"),
        ("0 50000 25000", "0 fast 25000", "value 'fast': expected MB/s"),
        ("NUMANode:0", "NUMANode:0 NUMANode:1", "5 indexes and 16 values: expected 4 and 16"),
        ("NUMANode:0", "OSDev:5", "4 indexes and 16 values: expected 4 and 16"),
        ('nbobjs="4"', 'nbobjs="513"', 'nbobjs="513": expected an integer from 1 to 512'),
        ("<u64values>50000 0", "<u64values>25000 0", "OSDev:5 and PCIDev:6 have 50000 MB/s one way only"),
        ("50000", "50001", "GPU 0000:0b:00.0 has links of 50001 MB/s, which are not 1 to 6 links of a v100"),
        (
            "50000",
            "175000",
            "GPU 0000:0b:00.0 has links of 175000 MB/s, which are not 1 to 6 links of a v100",
        ),
        (
            "10de:1db1",
            "10de:ffff",
            "has links of GPU 0000:0b:00.0, whose model is not known; name it by --gpu",
        ),
        (
            "</topology>",
            '<distances2 name="XGMIBandwidth"/></topology>',
            "is a second matrix of bandwidths between GPUs",
        ),
        ('<object type="Machine" gp_index="1">', "<object>", "lacks the attribute type"),
    ],
)
def test_odd_boxes_that_are_refused(old: str, new: str, message: str) -> None:
    assert old in ODD
    text = ODD.replace(old, new) if old in ("50000", "10de:1db1") else ODD.replace(old, new, 1)
    with pytest.raises(FormatError) as refused:
        read(text)
    found = str(refused.value)
    assert found.startswith("h.xml:")
    assert found.partition("> ")[2] == message


def test_switches_that_reach_different_gpus_are_told() -> None:
    last = 'pci_busid="0000:0f:00.0" pci_type='
    switch = f'{last}"0680 [10de:1af1]" subtype="NVSwitch"/>'
    text = ODD.replace(f'{last}"0300 [1002:1111]"/>', switch)
    text = text.replace("NUMANode:0", "PCIDev:14").replace("75000", "25000")
    box = read(text)
    assert box.n_switches == 2
    assert not [one for one in box.warnings if "NVSwitches reach" in one.text]  # both reach the same GPU
    values = "<u64values>50000 0 0 0 25000 0 0 0 25000 0 0 0"
    assert f"25000</u64values>{values}" in text
    other = "<u64values>50000 0 0 25000 25000 0 0 0 0 25000 0 0"
    apart = text.replace(f"25000</u64values>{values}", f"0</u64values>{other}")
    found = [str(one) for one in read(apart).warnings if "NVSwitches reach" in one.text]
    words = "2 NVSwitches reach different GPUs, and their links to each other are not in the file"
    assert [one.partition(": ")[2] for one in found] == [f"{words}: they are taken as one"]


def test_other_documents_are_refused() -> None:
    with pytest.raises(FormatError, match=r"h\.xml:1: <other> found, expected <topology>"):
        read("<other/>")
    with pytest.raises(FormatError) as refused:
        read("<topology/>")
    assert str(refused.value) == (
        "h.xml: holds no GPU; hwloc finds them if it was built with NVML or RSMI, and with I/O shown"
    )
