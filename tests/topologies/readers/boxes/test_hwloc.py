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
from treadle.topologies.readers.imported import Imported

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
