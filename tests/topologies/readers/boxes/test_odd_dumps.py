"""An odd dump of NCCL element by element, CPUs of every kind, and refusals in full."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.topologies.readers.boxes import nccl_xml
from treadle.topologies.readers.boxes.box import Box, BridgeKind, HostSpeed
from treadle.topologies.readers.imported import ImportOptions, LinkSpeeds, SourceFile

GB = 10**9


def read(text: str, **options: Any) -> Box:
    return nccl_xml.read_box(SourceFile(text, "d.xml"), ImportOptions(**options))


AMD, INTEL = 'vendor="AuthenticAMD"', 'vendor="GenuineIntel" familyid="6" modelid="143"'
ODD = f"""<system version="1">
<cpu numaid="3" {AMD}>
<pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="8">
<pci busid="0000:1A:00.0" class="0x030200" link_speed="8 GT/s" link_width="4">
<gpu dev="0" sm="70" rank="1"><nvlink target="0000:1B:00.0" count="2" tclass="0x030200"/>
<nvlink target="0000:C1:00.0" count="1" tclass="0x068000"/>\
<nvlink target="0000:c2:00.0" count="3" tclass="0x068000"/></gpu>
</pci>
<pci busid="0000:1f:00.0" class="0x020700" link_speed="Unknown" link_width="0">
<nic><net name="a" dev="2" speed="1000" port="1" guid="0x7" gdr="0"/><net name="b" dev="3" speed="-1"/></nic>
</pci>
</pci>
</cpu>
<cpu numaid="-1" {INTEL}>
<pci busid="0000:1b:00.0" class="0x030200" link_speed="2.5 GT/s" link_width="16">
<gpu dev="1" sm="70" rank="0"><nvlink target="0000:1a:00.0" count="2" tclass="0x030200"/>
<nvlink target="0000:e1:00.0" count="2" tclass="0x068001"/>\
<nvlink target="0000:99:00.0" count="1" tclass="0x030200"/></gpu>
</pci>
<nic><net dev="7" speed="8000" port="-1"/><net name="x"/><net name="y" dev="9" net="0"/></nic>
</cpu>
<cpu numaid="5"/>
</system>
"""


def test_an_odd_dump() -> None:
    box = read(ODD)
    assert [(gpu.name, gpu.generation, gpu.bus_id, gpu.rank, gpu.numa) for gpu in box.gpus] == [
        ("GPU 0000:1b:00.0", "sm 70", "0000:1b:00.0", 0, -1),
        ("GPU 0000:1a:00.0", "sm 70", "0000:1a:00.0", 1, 3),
    ]
    assert [(gpu.slot.above, gpu.slot.bandwidth) for gpu in box.gpus] == [(3, 4 * GB), (1, 3_938_461_538)]
    assert [(one.kind, one.name, one.above, one.bandwidth) for one in box.bridges] == [
        (BridgeKind.HOST, "CPU 3", None, None),
        (BridgeKind.SWITCH, "0000:10:00.0", 0, 15_753_846_153),
        (BridgeKind.CARD, "0x7", 1, 15_753_846_153),
        (BridgeKind.HOST, "CPU -1", None, None),
        (BridgeKind.HOST, "CPU 5", None, None),
    ]
    assert [(one.name, one.bandwidth, one.guid, one.port, one.numa, one.slot.above) for one in box.nics] == [
        ("a", 125_000_000, "0x7", 1, 3, 2),
        ("b", None, "", None, 3, 2),
        ("net7", GB, "", -1, -1, 3),
    ]
    speed = 25 * GB
    assert [(one.gpu, one.other, one.count, one.bandwidth) for one in box.links] == [
        (1, None, 4, 4 * speed),
        (0, 1, 2, 2 * speed),
    ]
    assert [(one.one, one.other, one.bandwidth, one.origin) for one in box.host_links] == [
        (0, 3, 16 * GB, HostSpeed.LIBRARY),
    ]
    assert (box.n_switches, box.link_word) == (2, "NVLink")
    assert [str(one) for one in box.warnings] == [
        "GPU 0000:1b:00.0: has 2 NVLink links, another GPU has 6",
        "a: has no GPUDirect RDMA (gdr is 0): what it carries goes through the CPU's memory",
        "line 18: <net> x has no dev: NCCL does not use it, and it is left out",
        "line 16: NVLinks to a CPU are left out",
        "line 16: links of GPU 0000:1b:00.0 lead to 0000:99:00.0, which is no GPU of the file: left out",
    ]
    assert [str(one) for one in box.defaulted] == [
        "each NVLink link carries 25 GB/s each way (nominal)",
        "PCIe of 0000:1f:00.0: speed or width is not given; 8 GT/s and 16 lanes, as the libraries take it",
    ]


def test_an_odd_dump_with_the_librarys_speeds() -> None:
    box = read(ODD, links=LinkSpeeds.LIBRARY)
    assert [one.bandwidth for one in box.links] == [80 * GB, 40 * GB]
    assert [gpu.slot.bandwidth for gpu in box.gpus] == [3_750_000_000, 3 * GB]
    assert [one.bandwidth for one in box.nics] == [125_000_000, 1_250_000_000, GB]
    assert "b: speed is not given; 10 Gbit/s, as the library takes it" in [str(one) for one in box.defaulted]


@pytest.mark.parametrize(
    ("words", "speed", "origin"),
    [
        ('arch="ppc64"', 32, HostSpeed.LIBRARY),
        ('arch="arm64" vendor="AuthenticAMD"', 6, HostSpeed.LIBRARY),
        ('vendor="AuthenticAMD"', 16, HostSpeed.LIBRARY),
        ('vendor="CentaurHauls" familyid="7" modelid="91"', 9, HostSpeed.LIBRARY),
        ('vendor="CentaurHauls" familyid="7" modelid="90"', None, HostSpeed.UNKNOWN),
        ('vendor="  Shanghai  " familyid="7" modelid="91"', 9, HostSpeed.LIBRARY),
        ('vendor="GenuineIntel" familyid="6" modelid="207"', 40, HostSpeed.LIBRARY),
        ('vendor="GenuineIntel" familyid="6" modelid="206"', 22, HostSpeed.LIBRARY),
        ('vendor="GenuineIntel" familyid="6" modelid="143"', 22, HostSpeed.LIBRARY),
        ('vendor="GenuineIntel" familyid="6" modelid="142"', 10, HostSpeed.LIBRARY),
        ('vendor="GenuineIntel" familyid="6" modelid="85"', 10, HostSpeed.LIBRARY),
        ('vendor="GenuineIntel" familyid="6" modelid="84"', 6, HostSpeed.LIBRARY),
        ('vendor="GenuineIntel" familyid="6" modelid="1"', 6, HostSpeed.LIBRARY),
        ('vendor="GenuineIntel" familyid="6" modelid="0"', None, HostSpeed.UNKNOWN),
        ('vendor="GenuineIntel" familyid="7" modelid="207"', None, HostSpeed.UNKNOWN),
        ("", None, HostSpeed.UNKNOWN),
    ],
)
def test_ways_between_cpus_of_every_kind(words: str, speed: int | None, origin: HostSpeed) -> None:
    (found,) = read(ODD.replace(AMD, words).replace(INTEL, words)).host_links
    assert (found.bandwidth, found.origin) == (None if speed is None else speed * GB, origin)
    (mixed,) = read(ODD.replace(AMD, 'arch="ppc64"').replace(INTEL, words)).host_links
    assert (mixed.bandwidth, mixed.origin) == (None if speed is None else min(speed, 32) * GB, origin)


def test_cpus_of_different_machines_are_not_joined() -> None:
    text = ODD.replace('numaid="-1"', 'numaid="3" host_hash="0x2"').replace('rank="0"', 'rank="2"')
    text = text.replace('<nvlink target="0000:1a:00.0" count="2" tclass="0x030200"/>', "")
    text = text.replace('<nvlink target="0000:1B:00.0" count="2" tclass="0x030200"/>', "")
    text = text.replace('count="2" tclass="0x068001"', 'count="2" tclass="0x068000"')
    box = read(text)
    assert box.host_links == ()
    assert [gpu.name for gpu in box.gpus] == ["GPU 0000:1a:00.0", "GPU 0000:1b:00.0 of machine 1"]
    assert [one.name for one in box.bridges if one.kind is BridgeKind.HOST] == [
        "CPU 3",
        "CPU 3 of machine 1",
        "CPU 5",
    ]
    assert [one.name for one in box.nics] == ["a", "b", "net7@1"]


def test_devices_by_their_class_alone() -> None:
    """Files that clouds give: a display or an accelerator is a GPU, a network controller a NIC."""
    plain = (
        '<system><cpu numaid="0"><pci busid="0:1.0" class="0x060400">'
        '<pci busid="0:2.0" class="0x030200"/><pci busid="0:3.0" class="0x120000"/>'
        '<pci busid="0:4.0" class="0x020000"/><pci busid="0:5.0"/></pci></cpu></system>'
    )
    box = read(plain, gpu="pcie")
    assert [(gpu.name, gpu.slot.above) for gpu in box.gpus] == [("GPU 0:2.0", 1), ("GPU 0:3.0", 1)]
    assert [(nic.name, nic.bandwidth, nic.slot.above) for nic in box.nics] == [("0:4.0", None, 1)]
    assert [one.name for one in box.bridges] == ["CPU 0", "0:1.0", "0:5.0"]
    assert "PCIe of 0:1.0, 0:2.0, 0:3.0 and 2 more: speed or width is not given" in str(box.defaulted[-1])
    with pytest.raises(FormatError) as refused:
        read(
            plain.replace(
                '<pci busid="0:3.0" class="0x120000"/>', '<pci busid="0:3.0"><gpu sm="70" rank="0"/></pci>'
            ),
            gpu="pcie",
        )
    assert str(refused.value) == "d.xml: GPU 0:2.0 is a GPU by its class and has no <gpu>, others have"


def test_names_of_nics_are_made_different() -> None:
    text = ODD.replace('name="b" dev="3"', 'name="a" dev="3"')
    assert [one.name for one in read(text).nics] == ["a", "a'", "net7"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<system", "<systems", ""),
        ('<cpu numaid="5"/>', "<gpu/>", ":20: <gpu> found in <system>, expected <cpu>"),
        ('numaid="5"', 'numaid="3"', ':20: <cpu> numaid="3" is there twice'),
        ('numaid="5"', 'numaid="4096"', ':20: <cpu> numaid="4096": expected an integer from -1 to 4095'),
        ('numaid="5"', "", ":20: <cpu> lacks the attribute numaid"),
        ('busid="0000:10:00.0"', 'busid="10"', ':3: <pci> busid="10": expected one such as 0000:4f:00.0'),
        ('busid="0000:1b:00.0"', 'busid="0000:1a:00.0"', ':14: <pci> busid="0000:1a:00.0" is there twice'),
        ('class="0x060400"', 'class="6"', ':3: <pci> class="6": expected one such as 0x030200'),
        ('link_width="8"', 'link_width="33"', ':3: <pci> link_width="33": expected an integer from 0 to 32'),
        (
            '"16.0 GT/s PCIe"',
            '"17 GT/s"',
            ':3: <pci> link_speed="17 GT/s": expected one such as "16.0 GT/s PCIe"',
        ),
        ('rank="1"', 'rank="0"', ':15: <gpu> rank="0" is there twice'),
        ('sm="70" rank="1"', 'sm="1000" rank="1"', ':5: <gpu> sm="1000": expected an integer from 0 to 999'),
        ('count="3"', 'count="0"', ':6: <nvlink> count="0": expected an integer from 1 to 1024'),
        ('tclass="0x068001"', 'tclass="x"', ':16: <nvlink> tclass="x": expected a class such as 0x068000'),
        (
            'target="0000:c2:00.0"',
            'target="0000:c1:00.0"',
            ':6: <nvlink> target="0000:c1:00.0" is there twice, or one of too many',
        ),
        (
            'target="0000:1B:00.0"',
            'target="0000:1A:00.0"',
            ":5: links of GPU 0000:1a:00.0 lead to itself; read a dump of the machine "
            "(NCCL_TOPO_DUMP_FILE), or take them away",
        ),
        ('dev="3"', 'dev="4096"', ':9: <net> dev="4096": expected an integer from 0 to 4095'),
        ('name="b" dev="3"', 'name="a" dev="2"', ':9: <net> dev="2" is there twice'),
        ('port="1"', 'port="-2"', ':9: <net> port="-2": expected an integer from -1 to 2147483648'),
        ('<nic><net dev="7"', '<net dev="7"', ""),
        (
            'class="0x060400"',
            'class="0x060400" vendor="10"',
            ':3: <pci> vendor="10": expected a number such as 0x10de',
        ),
        (
            "</gpu>\n</pci>\n<pci",
            '</gpu><gpu sm="70" rank="4"/>\n</pci>\n<pci',
            ":6: <gpu> is the second of 0000:1a:00.0; one rank for each GPU is read",
        ),
    ],
)
def test_dumps_that_are_refused(old: str, new: str, message: str) -> None:
    assert old in ODD
    text = ODD.replace(old, new, 1)
    with pytest.raises(FormatError) as refused:
        read(text)
    if message:
        assert str(refused.value) == f"d.xml{message}"


def test_files_without_gpus_are_refused() -> None:
    with pytest.raises(FormatError) as refused:
        read('<system><cpu numaid="0"/></system>')
    assert str(refused.value) == (
        "d.xml: holds no GPU: NCCL completes such a file when it runs; read its dump (NCCL_TOPO_DUMP_FILE)"
    )
    with pytest.raises(FormatError) as refused:
        read("<other/>")
    assert str(refused.value) == "d.xml:1: <other> found, expected <system>"
    with pytest.raises(FormatError) as refused:
        read('<system><cpu numaid="0"><net/></cpu></system>')
    assert str(refused.value) == "d.xml:1: <net> found, expected <pci> or <nic>"
