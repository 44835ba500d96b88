"""hwloc's XML: NVSwitches, the PCIe tree, NICs, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from samples.box_files import hwloc_xml
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies.readers.boxes import hwloc
from treadle.topologies.readers.boxes.box import Box
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile


def imported(tmp_path: Path, text: str, **options: Any) -> Imported:
    path = tmp_path / "box.xml"
    path.write_text(text)
    return planning.import_topology(path, **options)


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
            "is attached to the PCI device 0000:42:00.0",
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


def read(text: str, **options: Any) -> Box:
    return hwloc.read_box(SourceFile(text, "h.xml"), ImportOptions(**options))


def test_other_documents_are_refused() -> None:
    with pytest.raises(FormatError, match=r"h\.xml:1: <other> found, expected <topology>"):
        read("<other/>")
    with pytest.raises(FormatError) as refused:
        read("<topology/>")
    assert str(refused.value) == (
        "h.xml: holds no GPU; hwloc finds them if it was built with NVML or RSMI, and with I/O shown"
    )
