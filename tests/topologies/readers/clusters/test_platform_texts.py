"""SimGrid's clusters link by link, and every refusal in full."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.topologies.readers.clusters import simgrid_platform
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile


def platform(attributes: str, *, before: str = "", after: str = "") -> str:
    return f"<platform>\n{before}<zone id='world'>\n<cluster {attributes}/>\n{after}</zone>\n</platform>\n"


PLAIN = 'id="c" prefix="h" suffix=".x" radical="{radical}" bw="10Bps" lat="3ns"'


def read(text: str) -> Imported:
    return simgrid_platform.read(SourceFile(text, "p.xml"), ImportOptions())


def made(shape: str, parameters: str, radical: str, more: str = "") -> Imported:
    words = f'{PLAIN.format(radical=radical)} topology="{shape}" topo_parameters="{parameters}" {more}'
    return read(platform(words))


@pytest.mark.parametrize("name", ["router", "cabinet", "storage", "backbone", "prop", "config", "AS"])
def test_elements_that_say_nothing_of_links(name: str) -> None:
    assert read(platform(PLAIN.format(radical="0-1"), after=f"<{name}/>\n")).topology.n_nodes == 3


def test_sizes_are_counted_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[dict[str, int]] = []
    monkeypatch.setattr(simgrid_platform, "check_import_size", lambda _, **counts: sizes.append(counts))
    made("FAT_TREE", "2;3,2;2,2;2,3", "0-5")
    # 6 hosts, 2 * 2 leaves, 2 * 2 tops; 6 hosts of 2 parents by 2 cables, 4 leaves of 2 parents by 3
    assert sizes.pop() == {"nodes": 14, "links": 2 * (6 * 2 * 2 + 4 * 2 * 3)}
    assert sizes.pop() == {"nodes": 6}
    made("TORUS", "3,1,2", "0-5")
    assert sizes.pop() == {"nodes": 6, "links": 36}
    made("DRAGONFLY", "2,5;2,3;3,4;2", "0-23")
    # 24 hosts and 12 routers; at most as many green and black cables a router as blades and chassis
    assert sizes.pop() == {"nodes": 36, "links": 2 * (24 + 12 * (3 * 4 + 2 * 3) + 2 * 2 * 5)}


ROUTES = """\
<platform version="4.1"><zone id="lab" routing="Floyd">
<host id="a" speed="1Gf"><prop id="p" value="1"/></host><host id="b" speed="1Gf"/>
<router id="r"/>
<link id="up" bandwidth="8Bps" latency="3ns" sharing_policy="SPLITDUPLEX"/>
<link id="mix" bandwidth="5Bps"/>
<link id="one" bandwidth="7Bps" latency="2ns"/>
<route src="a" dst="a"><link_ctn id="mix"/></route>
<route src="a" dst="r"><link_ctn id="up" direction="UP"/></route>
<route src="r" dst="b"><link_ctn id="mix"/></route>
<route src="b" dst="a" symmetrical="NO"><link_ctn id="one"/></route>
</zone></platform>
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '<link_ctn id="one"/>',
            '<link_ctn id="one"/><link_ctn id="up"/>',
            "10: <route> b to a crosses 2 links; in a graph each route is one link",
        ),
        ('<link_ctn id="one"/>', "", "10: <route> b to a crosses 0 links"),
        (
            '<link_ctn id="one"/>',
            '<link_ctn id="mix"/>',
            "10: <route> link 'mix' is crossed from r to b, too; a link of a graph joins two nodes",
        ),
        (
            '<link_ctn id="one"/>',
            '<link_ctn id="up" direction="DOWN"/>',
            "10: <route> link 'up' is crossed from r to a, too",
        ),
        ('symmetrical="NO"', "", ""),
        ('src="b" dst="a"', 'src="r" dst="b"', "10: <route> r to b has a second route"),
        ('src="b" dst="a"', 'src="b" dst="z"', "10: <route> unknown host or router 'z'"),
        ('<link_ctn id="one"/>', '<link_ctn id="two"/>', "10: <link_ctn> there is no link 'two'"),
        ('id="one"', 'id="mix"', "6: <link> 'mix' stands here a second time"),
        ('<host id="b"', '<host id="a"', "2: <host> 'a' stands here a second time"),
        ('id="one" ', 'id="one" sharing_policy="FATPIPE" ', "6: <link> sharing_policy='FATPIPE': expected"),
        ('<router id="r"/>', '<router id="r"/><peer/>', "3: <peer> is not read next to routes"),
    ],
)
def test_routes_that_are_no_links_are_refused(old: str, new: str, message: str) -> None:
    text = ROUTES.replace(old, new, 1)
    if not message:
        assert read(text).topology.n_links == 6
        return
    with pytest.raises(FormatError) as refused:
        read(text)
    assert str(refused.value).startswith(f"p.xml:{message}")
