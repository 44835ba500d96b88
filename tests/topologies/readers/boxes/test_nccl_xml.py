"""NCCL's and RCCL's XML: ranks, links, NICs and the PCIe tree as the libraries read them; refusals."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from samples.box_files import nccl_xml
from treadle import planning
from treadle.topologies.readers.imported import Imported

GB = 10**9
RAIL: dict[str, Any] = {"boxes": 2, "network": "rail"}


def imported(tmp_path: Path, text: str, **options: Any) -> Imported:
    path = tmp_path / "box.xml"
    path.write_text(text)
    return planning.import_topology(path, **options)


def bandwidths(found: Imported) -> dict[str, Fraction]:
    """In GB/s, of the links of box 0, by name."""
    fabric = found.topology
    return {
        fabric.link_name(link): Fraction(int(fabric.bandwidths[link]), GB)
        for link in range(fabric.n_links)
        if fabric.link_name(link).startswith("box0")
    }


def test_a_card_below_a_sibling_switch_is_paired(tmp_path: Path) -> None:
    """Both NICs of the first switch hang from one of their own below it: data goes over the switch above."""
    lines = nccl_xml().splitlines()
    nics = [at for at, line in enumerate(lines) if 'busid="0000:8' in line][:2]
    own = '<pci busid="0000:30:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">'
    taken = [line for at in nics for line in lines[at : at + 3]]
    kept = [line for at, line in enumerate(lines) if not any(nic <= at < nic + 3 for nic in nics)]
    place = next(at for at, line in enumerate(kept) if line == "    </pci>")
    found = imported(tmp_path, "\n".join([*kept[:place], own, *taken, "</pci>", *kept[place:]]), **RAIL)
    assert found.recognised["pairs"] == "gpu0+gpu1: mlx5_0, mlx5_1; gpu2+gpu3: mlx5_2, mlx5_3"
    assert "box0.pcie1->box0.pcie0" in bandwidths(found)


def test_unknown_elements_are_told(tmp_path: Path) -> None:
    found = imported(tmp_path, nccl_xml().replace("</gpu>", "<later/><later/></gpu>", 1))
    assert [str(one) for one in found.warnings] == ["line 8: <later> is not known and left out"]
