"""NCCL's and RCCL's XML: ranks, links, NICs and the PCIe tree as the libraries read them; refusals."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from samples.box_files import nccl_xml
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies.readers.imported import Imported

GB = 10**9
SWITCH = 'e1:00.0" count="6" tclass="0x068000'
RAIL: dict[str, Any] = {"boxes": 2, "network": "rail"}


def imported(tmp_path: Path, text: str, **options: Any) -> Imported:
    path = tmp_path / "box.xml"
    path.write_text(text)
    return planning.import_topology(path, **options)


def algbw(found: Imported, kind: str = "allgather") -> Fraction:
    """In GB/s."""
    return Fraction(planning.bound(found.topology, kind).bound.algbw) / GB


def bandwidths(found: Imported) -> dict[str, Fraction]:
    """In GB/s, of the links of box 0, by name."""
    fabric = found.topology
    return {
        fabric.link_name(link): Fraction(int(fabric.bandwidths[link]), GB)
        for link in range(fabric.n_links)
        if fabric.link_name(link).startswith("box0")
    }


def test_two_boxes_have_the_nearest_switches_and_the_nics(tmp_path: Path) -> None:
    """16 lanes of 16 GT/s are 31.508 GB/s: 31.5, less than the two NICs of 25 behind the switch take."""
    links = bandwidths(imported(tmp_path, nccl_xml(), **RAIL))
    assert links["box0.gpu0->box0.nvswitch"] == 300
    assert links["box0.gpu1->box0.pcie0"] == links["box0.pcie0->box0.gpu1"] == Fraction("31.5")
    assert links["box0.nic3->box0.pcie1"] == 25
    assert links["box0.nic3->ib3"] == 25
    assert len(links) == 2 * 4 + 2 * 8 + 4  # NVLinks, PCIe, and one way to the rails


def test_gpus_take_no_more_of_pcie_than_their_nics(tmp_path: Path) -> None:
    links = bandwidths(imported(tmp_path, nccl_xml(nic_mbit_per_s=100000), **RAIL))
    assert links["box0.gpu0->box0.pcie0"] == 25
    assert links["box0.nic0->ib0"] == Fraction("12.5")


def test_the_whole_tree_joins_cpus_and_inflates_a_box(tmp_path: Path) -> None:
    near, full = (imported(tmp_path, nccl_xml(), pcie=detail) for detail in ("near", "full"))
    assert algbw(near) == Fraction(4 * 300, 3)
    assert algbw(full) == Fraction(4, 3) * (300 + Fraction("31.5"))
    assert any(link == "box0.pcie0->box0.cpu0" for link in bandwidths(full))


@pytest.mark.parametrize(
    ("cpu", "speed"),
    [
        ('arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49"', 16),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79"', 6),
        ('arch="x86_64" vendor="GenuineIntel"', None),
        ("", None),
    ],
)
def test_the_way_between_cpus_is_a_warning_or_asked(tmp_path: Path, cpu: str, speed: int | None) -> None:
    known = 'arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49"'
    upper, middle, lower = nccl_xml(nvlinks=0).partition('    <pci busid="0000:02:00.0"')
    text = upper.replace(known, cpu) + f'</cpu><cpu numaid="1" {known}>' + middle + lower
    text = re.sub(r".*<nvlink.*\n", "", text)
    if speed is None:
        with pytest.raises(FormatError, match=r"how fast CPU 0 and CPU 1 are joined.*--cpu-link"):
            imported(tmp_path, text, gpu="pcie", pcie="full")
    else:
        found = imported(tmp_path, text, gpu="pcie", pcie="full")
        assert bandwidths(found)["box0.cpu0->box0.cpu1"] == speed
        said = [str(one) for one in found.warnings if "between CPUs" in one.text]
        assert said == [
            f"between CPUs: {speed} GB/s each way, as the libraries take it; the file does not say"
        ]
    found = imported(tmp_path, text, gpu="pcie", pcie="full", cpu_link="62GB/s")
    assert bandwidths(found)["box0.cpu0->box0.cpu1"] == 62
    assert [one for one in found.warnings if "between CPUs" in one.text] == []


def test_cards_by_their_pci_identifiers(tmp_path: Path) -> None:
    """Four RTX 4090 at one CPU, the last by four lanes, which all but broadcasts wait for."""
    cards = [
        f'<pci busid="0000:{bus}:00.0" class="0x030000" vendor="0x10de" device="0x2684" '
        f'link_speed="16.0 GT/s PCIe" link_width="{lanes}"><gpu dev="{rank}" sm="89" rank="{rank}"/></pci>'
        for rank, (bus, lanes) in enumerate((("01", 16), ("02", 16), ("2d", 16), ("41", 4)))
    ]
    cpu = '<cpu numaid="-1" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">'
    text = f'<system version="1">{cpu}{"".join(cards)}</cpu></system>'
    found = imported(tmp_path, text)
    assert algbw(found) == 10
    slow = "its PCIe link carries 7.5 GB/s (x4 of x16), that of another GPU 31.5 GB/s"
    assert f"GPU 0000:41:00.0: {slow}" in map(str, found.warnings)
    even = imported(tmp_path, text.replace('link_width="4"', 'link_width="16"'))
    assert algbw(even) == 42
    assert [one for one in even.warnings if one.place] == []


def test_far_nics_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    """SimAI's box in small: the fifth NIC hangs from the CPU; it adds to the network if the user says so."""
    text = nccl_xml(far_nics=1).replace('speed="10000"', 'speed="200000"')
    without = imported(tmp_path, text, **RAIL)
    assert algbw(without) == 4 * 25 * 2
    assert [str(warning) for warning in without.warnings] == [
        "eth0: shares no PCIe switch with a GPU and is left out; --nics all takes it"
    ]
    every = imported(tmp_path, text, nics="all", **RAIL)
    assert algbw(every) == 5 * 25 * 2
    assert str(every.warnings[0]).startswith("eth0: shares no switch with a GPU: the whole PCIe tree is part")
    two = imported(tmp_path, text, nics="mlx5_0,mlx5_2", **RAIL)
    assert algbw(two) == 2 * 25 * 2
    assert two.recognised["used NICs"] == "2: nic0 = mlx5_0, nic1 = mlx5_2"


def test_a_slow_uplink_and_unknown_widths_of_a_machine_are_no_limit(tmp_path: Path) -> None:
    """IBM's virtual machine: switches with 2.5 GT/s and one lane upwards, devices with width 0."""
    text = nccl_xml().replace('link_width="16"', 'link_width="0"')
    text = re.sub(
        r'(class="0x060400" )link_speed="[^"]*" link_width="0"',
        r'\1link_speed="2.5 GT/s" link_width="1"',
        text,
    )
    found = imported(tmp_path, text, **RAIL)
    assert algbw(found) == algbw(imported(tmp_path, nccl_xml(), **RAIL))
    (told,) = [one for one in found.defaulted if "libraries take" in one.text]
    assert "0000:40:00.0, 0000:80:00.0, 0000:41:00.0 and 5 more" in told.text


def test_the_nvswitches_of_fused_machines_are_one(tmp_path: Path) -> None:
    """Multi-node NVLink: two machines with the same bus ids, and NVSwitches of no bus id."""
    one = nccl_xml(sm=103, nvlinks=18).replace("0000:e0:00.0", "fffffff:ffff:ff")
    one = re.sub(r'.*target="0000:e1:00.0".*\n', "", one).replace('count="9"', 'count="18"')
    one = one.replace("<cpu ", '<cpu host_hash="0x1" ')
    two = one.replace("0x1", "0x2")
    for rank in reversed(range(4)):
        two = two.replace(f'rank="{rank}"', f'rank="{rank + 4}"')
    found = imported(tmp_path, one.replace("</system>\n", "") + two.partition("\n")[2])
    assert algbw(found) == Fraction(8 * 900, 7)
    assert algbw(found, "allreduce") == Fraction(4 * 900, 7)
    lost = one.replace("</system>\n", "") + re.sub(r"<nvlink.*\n", "", two.partition("\n")[2], count=1)
    with pytest.raises(FormatError, match=r"GPU 0000:40:00\.0 of machine 1 has no NVLinks, other GPUs have"):
        imported(tmp_path, lost)


def test_ranks_are_the_files_or_follow_bus_ids(tmp_path: Path) -> None:
    turned = nccl_xml().replace('rank="0"', 'rank="9"')
    assert imported(tmp_path, turned).recognised["rank order"].endswith("gpu3 = 0000:40:00.0")
    without = re.sub(r' rank="\d"', "", nccl_xml()).replace("0000:40", "0000:f0")
    assert imported(tmp_path, without).recognised["rank order"].startswith("by bus id: gpu0 = 0000:41:00.0")


def test_files_before_a_run_have_classes_only(tmp_path: Path) -> None:
    """No <gpu>, no <net>: GPUs and NICs are told by class, their model and speed are asked."""
    text = re.sub(r"<gpu.*?</gpu>|<nic>.*?</nic>", "", nccl_xml(gpus=8), flags=re.DOTALL)
    with pytest.raises(
        FormatError, match=r"has no links of GPU 0000:40:00\.0; name their model by --gpu: p100"
    ):
        imported(tmp_path, text)
    assert algbw(imported(tmp_path, text, gpu="a100")) == Fraction(2400, 7)
    with pytest.raises(FormatError, match=r"NIC 0000:80:00\.0 is not in the file; say it by --nic-bandwidth"):
        imported(tmp_path, text, gpu="a100", **RAIL)
    told = text.replace('class="0x030200"', 'class="0x030200" vendor="0x10de" device="0x20b0"')
    assert algbw(imported(tmp_path, told)) == Fraction(2400, 7)
    four = re.sub(r"<gpu.*?</gpu>|<nic>.*?</nic>", "", nccl_xml(), flags=re.DOTALL)
    with pytest.raises(FormatError, match="boxes of 4 a100 are not all wired equally"):
        imported(tmp_path, four, gpu="a100")


def test_gpus_without_links_of_their_own_meet_over_pcie(tmp_path: Path) -> None:
    """Each GPU's 16 lanes; their model says that they have no NVLinks, which the file alone does not."""
    text = re.sub(r"<nvlink.*?/>", "", nccl_xml(sm=89))
    with pytest.raises(FormatError, match=r"has no links of GPU 0000:40:00\.0 \(sm 89\); name their model"):
        imported(tmp_path, text)
    found = imported(tmp_path, text, gpu="pcie")
    assert algbw(found) == Fraction(4, 3) * Fraction("31.5")
    older = imported(tmp_path, text.replace('sm="89"', 'sm="61"'))
    assert older.topology == found.topology


def test_speed_of_a_nic_is_asked_overruled_or_the_librarys(tmp_path: Path) -> None:
    text = nccl_xml(nic_mbit_per_s=-1)
    with pytest.raises(FormatError, match="NIC mlx5_0 is not in the file; say it by --nic-bandwidth"):
        imported(tmp_path, text, **RAIL)
    library = imported(tmp_path, text, links="library", **RAIL)
    assert bandwidths(library)["box0.nic0->ib0"] == Fraction("1.25")
    assert "10 Gbit/s, as the library takes it" in str(library.defaulted[1])
    said = imported(tmp_path, nccl_xml(), nic_bandwidth=50 * GB, **RAIL)
    assert bandwidths(said)["box0.nic0->ib0"] == 50
    assert bandwidths(said)["box0.nic0->box0.pcie0"] == Fraction("31.5")  # the card's own lanes
    assert [str(one) for one in said.warnings] == [
        "mlx5_0, mlx5_1, mlx5_2, mlx5_3: 25 GB/s in the file, 50 GB/s by --nic-bandwidth"
    ]
    more = imported(tmp_path, nccl_xml(gpus=8), nic_bandwidth=50 * GB, **RAIL)
    assert [one.place for one in more.warnings] == ["mlx5_0, mlx5_1, mlx5_2 and 5 more"]


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


def test_broadcoms_two_levels_are_one_switch(tmp_path: Path) -> None:
    """NCCL flattens them: both GPUs reach both NICs, and the inner level's uplink is no limit."""
    chip = 'vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa096"'
    text = nccl_xml().replace('class="0x060400"', f'class="0x060400" {chip}')
    outer = f'    <pci busid="0000:20:00.0" class="0x060400" {chip} link_speed="16.0 GT/s PCIe">\n'
    place = text.index("    <pci")
    whole = text[:place] + outer + text[place:].replace("  </cpu>", "    </pci>\n  </cpu>")
    flat = imported(tmp_path, whole, **RAIL)
    assert flat.recognised["pairs"] == "gpu0+gpu1+gpu2+gpu3: mlx5_0, mlx5_1, mlx5_2, mlx5_3"
    other = whole.replace("0xa096", "0xb096")
    assert imported(tmp_path, other, **RAIL).recognised["pairs"].count(";") == 1


def test_ports_of_a_card_share_its_lanes(tmp_path: Path) -> None:
    """Two ports of 25 GB/s behind 8 lanes of 16 GT/s: 15.5 GB/s together, unless the lanes suffice."""
    second = '<net name="x{0}" dev="{0}" speed="200000" port="2" guid="0x1" gdr="1"/></nic>'
    numbers = iter(range(10, 20))
    text = re.sub("</nic>", lambda _: second.format(next(numbers)), nccl_xml())
    assert "box0.gpu0->box0.pcie0" in (wide := bandwidths(imported(tmp_path, text, **RAIL)))
    assert wide["box0.gpu0->box0.pcie0"] == Fraction("31.5")
    narrow = re.sub(r'(class="0x020700" link_speed="[^"]*" link_width=)"16"', r'\1"8"', text)
    assert algbw(imported(tmp_path, narrow, **RAIL)) == 4 * Fraction("15.5") * 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('busid="0000:41:00.0"', 'busid="0000:40:00.0"'), '<pci> busid="0000:40:00.0" is there twice'),
        (('busid="0000:81:00.0"', 'busid="0000:80:00.0"'), 'busid="0000:80:00.0" is there twice'),
        (('rank="1"', 'rank="0"'), '<gpu> rank="0" is there twice'),
        (('dev="1" speed', 'dev="x" speed'), '<net> dev="x": expected an integer from 0 to 4095'),
        (('name="mlx5_1" dev="1"', 'name="mlx5_0" dev="0"'), '<net> dev="0" is there twice'),
        (('count="6"', 'count="1025"'), '<nvlink> count="1025": expected an integer from 1 to 1024'),
        (('count="6"', 'count="7"'), "GPU 0000:40:00.0 has 13 NVLink links, a100 have 12"),
        (('link_width="16"', 'link_width="33"'), 'link_width="33": expected an integer from 0 to 32'),
        (('link_speed="16.0', 'link_speed="17.0'), 'link_speed="17.0 GT/s PCIe": expected one such as'),
        (('class="0x030200"', 'class="display"'), 'class="display": expected one such as 0x030200'),
        (('busid="0000:41:00.0"', 'busid="?"'), 'busid="?": expected one such as 0000:4f:00.0'),
        (("<system", "<!DOCTYPE a [<!ENTITY a 'b'>]>\n<system"), "brings declarations of its own (a DTD)"),
        (("  </cpu>", "  <gpu/></cpu>"), "<gpu> found, expected <pci> or <nic>"),
        (("</system>", "<pci/></system>"), "<pci> found in <system>, expected <cpu>"),
        ((' numaid="0"', ""), "<cpu> lacks the attribute numaid"),
        (('e1:00.0" count="6"', 'e0:00.0" count="6"'), 'target="0000:e0:00.0" is there twice, or one of'),
        ((SWITCH, '40:00.0" count="6" tclass="0x030200'),
         "links of GPU 0000:40:00.0 lead to itself"),
        ((SWITCH, '41:00.0" count="6" tclass="0x030200'),
         "GPU 0000:40:00.0 has 6 links to GPU 0000:41:00.0, which has 0 to it"),
        (('tclass="0x068000"', 'tclass="switch"'), 'tclass="switch": expected a class such as 0x068000'),
        ((' tclass="0x068000"', ""), "<nvlink> lacks the attribute tclass"),
        (("</gpu>", '</gpu><pci busid="1:1.0"/>'), "<pci> is attached to the GPU 0000:40:00.0, which"),
        (("</pci>", ""), "malformed XML: "),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused_with_its_place(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    with pytest.raises(FormatError, match=re.escape(says)):
        imported(tmp_path, nccl_xml().replace(*change, 1), gpu="a100")


def test_a_gpu_that_lost_its_links_is_named(tmp_path: Path) -> None:
    text = nccl_xml(without="2")
    with pytest.raises(
        FormatError, match=r"GPU 0000:42:00\.0 has no NVLinks, other GPUs have; .* --pcie full"
    ):
        imported(tmp_path, text)
    assert algbw(imported(tmp_path, text, pcie="full")) == Fraction(4, 3) * Fraction("31.5")


def test_a_gpu_with_fewer_links_is_told(tmp_path: Path) -> None:
    found = imported(tmp_path, nccl_xml().replace('count="6"', 'count="5"', 1))
    assert [str(one) for one in found.warnings] == [
        "GPU 0000:40:00.0: has 11 NVLink links, another GPU has 12"
    ]


@pytest.mark.parametrize("element", ["c2c", "pcilink"])
def test_elements_without_part_in_the_fabric_are_passed_over(tmp_path: Path, element: str) -> None:
    text = nccl_xml().replace('tclass="0x068000"/>', f'tclass="0x068000"/><{element} bw="1" count="1"/>', 1)
    assert imported(tmp_path, text) == imported(tmp_path, nccl_xml())


def test_unknown_elements_are_told(tmp_path: Path) -> None:
    found = imported(tmp_path, nccl_xml().replace("</gpu>", "<later/><later/></gpu>", 1))
    assert [str(one) for one in found.warnings] == ["line 8: <later> is not known and left out"]


def test_numbers_of_elements_have_an_end(tmp_path: Path) -> None:
    nets = "".join(f'<net name="n{i}" dev="{i}"/>' for i in range(1025))
    cases = {
        f"<nic>{nets}</nic></cpu>": "<net> is one of more than 1024 NICs",
        "".join(f'</cpu><cpu numaid="{i}">' for i in range(1, 258))
        + "</cpu>": "<cpu> is one of more than 256",
        "<x/>" * 200_001 + "</cpu>": "has more than 200000 tags",
    }
    for added, says in cases.items():
        with pytest.raises(FormatError, match=says):
            imported(tmp_path, nccl_xml().replace("</cpu>", added))


def test_nesting_has_an_end(tmp_path: Path) -> None:
    bridges = "".join(f'<pci busid="0001:{i:02x}:00.0" class="0x060400">' for i in range(70))
    text = nccl_xml().replace("  </cpu>", f"{bridges}{'</pci>' * 70}\n  </cpu>")
    with pytest.raises(FormatError, match="elements are nested more than 64 deep"):
        imported(tmp_path, text)
