"""An odd dump of NCCL element by element, CPUs of every kind, and refusals in full."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.topologies.readers.boxes import nccl_xml
from treadle.topologies.readers.boxes.box import Box, HostSpeed
from treadle.topologies.readers.imported import ImportOptions, SourceFile

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


def test_names_of_nics_are_made_different() -> None:
    text = ODD.replace('name="b" dev="3"', 'name="a" dev="3"')
    assert [one.name for one in read(text).nics] == ["a", "a'", "net7"]
