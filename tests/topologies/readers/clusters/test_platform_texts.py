"""SimGrid's clusters link by link, and every refusal in full."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from treadle.errors import FormatError
from treadle.topologies.readers.clusters import simgrid_platform
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.topology import Topology


def platform(attributes: str, *, before: str = "", after: str = "") -> str:
    return f"<platform>\n{before}<zone id='world'>\n<cluster {attributes}/>\n{after}</zone>\n</platform>\n"


PLAIN = 'id="c" prefix="h" suffix=".x" radical="{radical}" bw="10Bps" lat="3ns"'


def read(text: str) -> Imported:
    return simgrid_platform.read(SourceFile(text, "p.xml"), ImportOptions())


def made(shape: str, parameters: str, radical: str, more: str = "") -> Imported:
    words = f'{PLAIN.format(radical=radical)} topology="{shape}" topo_parameters="{parameters}" {more}'
    return read(platform(words))


def cables(topology: Topology, latency: int = 3) -> Counter[tuple[str, str, int]]:
    """How many cables of a bandwidth join two nodes; each has its opposite and this latency."""
    names = topology.node_names
    rows = list(
        zip(topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True)
    )
    assert set(topology.latencies_ns.tolist()) == {latency}
    assert [(head, tail, speed) for tail, head, speed in rows[::2]] == rows[1::2]
    return Counter((names[tail], names[head], speed) for tail, head, speed in rows[::2])


def test_a_flat_cluster() -> None:
    text = platform(PLAIN.format(radical="3, 7-8 ,5") + ' limiter_link="72bps"')
    found = read(text)
    assert found.topology.node_names == ("h3.x", "h7.x", "h8.x", "h5.x", "crossbar")
    assert cables(found.topology) == Counter({(f"h{k}.x", "crossbar", 9): 1 for k in (3, 7, 8, 5)})
    assert (found.format, found.topology.name) == ("simgrid", "c")
    assert found.recognised == {
        "cluster": "FLAT, 4 hosts, a crossbar",
        "speeds": "10 B/s, 3 ns per link",
        "rank order": "hosts in the order of radical",
    }
    note = "is shared by what a host sends and receives; each direction is given all of it"
    assert found.warnings == (Finding(note, "limiter_link"),)
    # a limit above the link's own bandwidth is none
    wide = read(platform(PLAIN.format(radical="1-2") + ' limiter_link="11Bps"')).topology
    assert set(wide.bandwidths.tolist()) == {10}
    assert read(platform(PLAIN.format(radical="1-2"))).warnings == ()


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("125", 125),
        ("9bps", 1),
        ("1.5kBps", 1500),
        ("2kiBps", 2048),
        ("3 MBps", 3 * 10**6),
        ("16Mibps", 2 * 2**20),
        ("4GBps", 4 * 10**9),
        ("5GiBps", 5 * 2**30),
        ("6TBps", 6 * 10**12),
        ("1PBps", 10**15),
        ("8e3bps", 1000),
    ],
)
def test_bandwidths_with_their_units(text: str, speed: int) -> None:
    words = PLAIN.format(radical="0-1").replace("10Bps", text)
    assert set(read(platform(words)).topology.bandwidths.tolist()) == {speed}


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("2", 2 * 10**9),
        ("2500ps", 2),
        ("3500ps", 4),
        ("7 ns", 7),
        ("7us", 7000),
        ("1.5ms", 1_500_000),
        ("0s", 0),
        ("2m", 120 * 10**9),
        ("2h", 7200 * 10**9),
        ("2d", 172_800 * 10**9),
        ("2w", 1_209_600 * 10**9),
    ],
)
def test_times_with_their_units(text: str, wait: int) -> None:
    words = PLAIN.format(radical="0-1").replace("3ns", text)
    assert set(read(platform(words)).topology.latencies_ns.tolist()) == {wait}


def test_a_backbone_that_is_no_bottleneck() -> None:
    """Two hosts of 10 bytes/s: 20 are enough, and a fat pipe always is."""
    words = PLAIN.format(radical="0-1")
    plain = read(platform(words)).topology
    for more in (
        'bb_bw="20Bps"',
        'bb_bw="5Bps" bb_sharing_policy="FATPIPE"',
        'limiter_link="5Bps" bb_bw="10Bps"',
    ):
        assert read(platform(f"{words} {more}")).topology.n_links == plain.n_links


def test_a_fat_tree_with_odd_numbers() -> None:
    """Two levels: 3 hosts a switch and 2 switches a switch above; 1 and 2 parents; 2 and 3 cables."""
    found = made("FAT_TREE", "2;3,2;1,2;2,3", "0-5")
    expected = Counter({(f"h{k}.x", f"level1.switch{k // 3}", 10): 2 for k in range(6)})
    # each of the two leaves has both switches above as parents
    expected += Counter(
        {(f"level1.switch{k}", f"level2.switch{j}", 10): 3 for k, j in product(range(2), range(2))}
    )
    assert cables(found.topology) == expected
    assert found.recognised["cluster"] == "FAT_TREE, 6 hosts, 2, 2 switches by level"
    assert found.topology.node_names == (
        *(f"h{k}.x" for k in range(6)),
        *("level1.switch0", "level1.switch1", "level2.switch0", "level2.switch1"),
    )


def test_a_fat_tree_whose_hosts_have_two_parents() -> None:
    """Hosts with two parents: leaf (a, d1) joins the hosts (*, d1), a the number of the parent."""
    found = made("FAT_TREE", "2;2,3;2,1;1,1", "0-5").topology
    expected = Counter(
        {
            (f"h{d0 + 2 * d1}.x", f"level1.switch{a + 2 * d1}", 10): 1
            for d0, d1, a in product((0, 1), (0, 1, 2), (0, 1))
        }
    )
    expected += Counter(
        {(f"level1.switch{a + 2 * d1}", f"level2.switch{a}", 10): 1 for a, d1 in product((0, 1), (0, 1, 2))}
    )
    assert cables(found) == expected


def test_a_torus_with_odd_numbers() -> None:
    """The first dimension counts fastest; one of two has two links, one of one none."""
    found = made("TORUS", "3,1,2", "0-5")
    expected: Counter[tuple[str, str, int]] = Counter()
    for k in range(6):
        expected[f"h{k}.x", f"h{k - k % 3 + (k + 1) % 3}.x", 10] += 1
        expected[f"h{k}.x", f"h{(k + 3) % 6}.x", 10] += 1
    assert cables(found.topology) == expected
    assert found.recognised["cluster"] == "TORUS, 6 hosts, 3x1x2"


def test_a_dragonfly_with_odd_numbers() -> None:
    """Two groups of 2 chassis of 3 blades with 1 host; 2 blue, 3 black, 4 green cables."""
    found = made("DRAGONFLY", "2,2;2,3;3,4;1", "0-11", 'limiter_link="7Bps"')

    def router(group: int, chassis: int, blade: int) -> str:
        return f"group{group}.chassis{chassis}.router{blade}"

    places = list(product(range(2), range(2), range(3)))
    expected = Counter({(f"h{k}.x", router(*place), 7): 1 for k, place in enumerate(places)})
    for group, chassis in product(range(2), range(2)):
        for one, other in ((0, 1), (0, 2), (1, 2)):
            expected[router(group, chassis, one), router(group, chassis, other), 10] += 4
    for group, blade in product(range(2), range(3)):
        expected[router(group, 0, blade), router(group, 1, blade), 10] += 3
    expected[router(1, 0, 0), router(0, 0, 1), 10] += 2
    assert cables(found.topology) == expected
    assert found.recognised["cluster"] == "DRAGONFLY, 12 hosts, 2 groups of 2 chassis of 3 blades of 1"
    full = made("DRAGONFLY", "6,1;2,1;3,1;1", "0-35").topology
    assert [full.node_names[int(node)] for node in full.switches[:2]] == [router(0, 0, 0), router(0, 0, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<other/>", "p.xml:1: <other> is not SimGrid's <platform>"),
        ("<platform/>", "p.xml: has 0 clusters; expected one <cluster>, or hosts and routes"),
        (
            "<platform><cluster/><cluster/></platform>",
            "p.xml: has 2 clusters; expected one <cluster>, or hosts and routes",
        ),
        ("<platform><cluster/></platform>", "p.xml:1: <cluster> lacks the attribute bw"),
        (
            platform(PLAIN.format(radical="0-1"), after="<peer/>"),
            "p.xml:4: <peer> is not read beside a <cluster>",
        ),
        (
            platform(PLAIN.format(radical="0-1"), before="<disk/>"),
            "p.xml:2: <disk> is not read beside a <cluster>",
        ),
    ],
)
def test_other_platforms_are_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(text)
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["router", "cabinet", "storage", "backbone", "prop", "config", "AS"])
def test_elements_that_say_nothing_of_links(name: str) -> None:
    assert read(platform(PLAIN.format(radical="0-1"), after=f"<{name}/>\n")).topology.n_nodes == 3


CLUSTER = "p.xml:3: <cluster>"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("10Bps", "10iBps", f"{CLUSTER} bw='10iBps': expected a bandwidth such as 125MBps"),
        ("10Bps", "10k", f"{CLUSTER} bw='10k': expected a bandwidth such as 125MBps"),
        ("10Bps", "tenBps", f"{CLUSTER} bw='tenBps': expected a bandwidth such as 125MBps"),
        ("10Bps", "7bps", "p.xml: bw: expected 1 to 2**50 bytes/s, found 0.875"),
        ("10Bps", "1.2.3Bps", "p.xml: bw: expected a number, found '1.2.3'"),
        ("3ns", "3y", f"{CLUSTER} lat='3y': expected a time such as 50us"),
        ("3ns", "-3ns", "p.xml: lat: expected 0 to 2**53 ns, found -3"),
        ('lat="3ns"', "", f"{CLUSTER} lacks the attribute lat"),
        ('id="c"', 'id="&#127;"', f"{CLUSTER} id='\\x7f': expected one line without control characters"),
        ("0-5", "0", f"{CLUSTER} radical='0': expected at least 2 hosts, each once"),
        ("0-5", "0-2,2", f"{CLUSTER} radical='0-2,2': expected at least 2 hosts, each once"),
        ("0-5", "2-1", f"{CLUSTER} radical='2-1': expected rising ranges such as 0-15,20"),
        ("0-5", "0-5,", f"{CLUSTER} radical='0-5,': expected rising ranges such as 0-15,20"),
        ("0-5", "0-65536", "p.xml: describes 65537 nodes; at most 65536 are read"),
        (
            'lat="3ns"',
            'lat="3ns" topology="RING"',
            f"{CLUSTER} topology='RING': expected one of FLAT, FAT_TREE, TORUS, DRAGONFLY",
        ),
        (
            'lat="3ns"',
            'lat="3ns" sharing_policy="FATPIPE"',
            f"{CLUSTER} sharing_policy='FATPIPE': only SPLITDUPLEX is a link in each direction",
        ),
        (
            'lat="3ns"',
            'lat="3ns" bb_bw="59Bps"',
            f"{CLUSTER} bb_bw: a backbone of 59 B/s for hosts of 60 B/s in all is no graph",
        ),
        (
            'lat="3ns"',
            'lat="3ns" limiter_link="4Bps" bb_bw="23Bps"',
            f"{CLUSTER} bb_bw: a backbone of 23 B/s for hosts of 24 B/s in all is no graph",
        ),
        ('lat="3ns"', 'lat="3ns" topology="TORUS"', f"{CLUSTER} lacks the attribute topo_parameters"),
        *(
            (
                'lat="3ns"',
                f'lat="3ns" topology="{shape}" topo_parameters="{parameters}"',
                message,
            )
            for shape, parameters, message in (
                ("TORUS", "3", f"{CLUSTER} topo_parameters='3' is of 3 hosts, radical of 6"),
                (
                    "TORUS",
                    "3;2",
                    f"{CLUSTER} topo_parameters='3;2': expected 1 parts with semicolons between",
                ),
                ("TORUS", "0,6", "p.xml: topo_parameters: expected an integer from 1 to 1024, found '0'"),
                ("TORUS", "1025", "p.xml: topo_parameters: expected an integer from 1 to 1024, found '1025'"),
                ("TORUS", "1024", f"{CLUSTER} topo_parameters='1024' is of 1024 hosts, radical of 6"),
                (
                    "FAT_TREE",
                    "1;6;1",
                    f"{CLUSTER} topo_parameters='1;6;1': expected 4 parts with semicolons between",
                ),
                (
                    "FAT_TREE",
                    "1;6;1;1,1",
                    f"{CLUSTER} topo_parameters: expected as many numbers in each part as there are levels",
                ),
                (
                    "FAT_TREE",
                    "1,1;6;1;1",
                    f"{CLUSTER} topo_parameters: expected as many numbers in each part as there are levels",
                ),
                ("FAT_TREE", "1;5;1;1", f"{CLUSTER} topo_parameters='1;5;1;1' is of 5 hosts, radical of 6"),
                (
                    "DRAGONFLY",
                    "1,1;1,1;6,1",
                    f"{CLUSTER} topo_parameters='1,1;1,1;6,1': expected 4 parts with semicolons between",
                ),
                (
                    "DRAGONFLY",
                    "1;1,1;6,1;1",
                    f"{CLUSTER} topo_parameters: expected GROUPS,BLUE;CHASSIS,BLACK;BLADES,GREEN;NODES",
                ),
                (
                    "DRAGONFLY",
                    "3,1;1,1;2,1;1",
                    f"{CLUSTER} topo_parameters: 3 groups need as many routers in each, not 2",
                ),
                (
                    "DRAGONFLY",
                    "1,1;1,1;5,1;1",
                    f"{CLUSTER} topo_parameters='1,1;1,1;5,1;1' is of 5 hosts, radical of 6",
                ),
            )
        ),
        *(
            (
                'lat="3ns"',
                f'lat="3ns" limiter_link="4Bps" topology="{shape}" topo_parameters="6"',
                f"{CLUSTER} limiter_link: {why}; it is read of flat clusters and dragonflies",
            )
            for shape, why in (
                ("TORUS", "hosts of a torus pass on what is not theirs"),
                ("FAT_TREE", "switches of a fat tree have it too"),
            )
        ),
    ],
)
def test_clusters_that_are_refused(old: str, new: str, message: str) -> None:
    words = PLAIN.format(radical="0-5")
    assert old in words
    with pytest.raises(FormatError) as refused:
        read(platform(words.replace(old, new)))
    assert str(refused.value) == message


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


def test_routes_of_one_link_are_links() -> None:
    found = read(ROUTES)
    fabric = found.topology
    names = fabric.node_names
    assert (fabric.name, names, fabric.switches.tolist()) == ("lab", ("a", "b", "r"), [2])
    rows = zip(
        fabric.tails.tolist(),
        fabric.heads.tolist(),
        fabric.bandwidths.tolist(),
        fabric.latencies_ns.tolist(),
        strict=True,
    )
    assert [(names[tail], names[head], speed, wait) for tail, head, speed, wait in rows] == [
        ("a", "r", 8, 3),
        ("r", "a", 8, 3),
        ("r", "b", 5, 0),
        ("b", "r", 5, 0),
        ("b", "a", 7, 2),
    ]
    note = "carries both directions with one bandwidth; each direction is given all of it"
    assert found.warnings == (Finding(note, "link mix"),)
    assert found.recognised["nodes"] == "2 hosts, 1 routers"
    between = ROUTES.replace('<route src="r" dst="b">', '<zoneRoute src="x" dst="y" gw_src="r" gw_dst="b">')
    between = between.replace('"mix"/></route>\n<route src="b"', '"mix"/></zoneRoute>\n<route src="b"')
    assert read(between).topology == fabric


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
        ('src="b" dst="a"', 'src="b" dst="z"', "10: <route> there is no host or router 'z'"),
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
