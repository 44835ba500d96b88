"""Trees of Slurm and fabrics of ibnetdiscover link by link; figures in files, at their limits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from samples.readers.reader_texts import ib_text
from treadle.errors import FormatError
from treadle.topologies.readers import checked_values
from treadle.topologies.readers.clusters import ibnetdiscover, slurm_tree
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.topology import Topology


def conf(text: str, **options: Any) -> Imported:
    given = {"nic_bandwidth": 12, "oversubscription": "2:1,3:1", **options}
    return slurm_tree.read_conf(SourceFile(text, "topology.conf"), ImportOptions(**given))


def yaml(text: str, **options: Any) -> Imported:
    given = {"nic_bandwidth": 12, "oversubscription": "2:1,3:1", **options}
    return slurm_tree.read_yaml(SourceFile(text, "topology.yaml"), ImportOptions(**given))


def cables(topology: Topology) -> list[tuple[str, str, int]]:
    names = topology.node_names
    rows = list(
        zip(topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True)
    )
    assert [(head, tail, speed) for tail, head, speed in rows[::2]] == rows[1::2]
    return [(names[tail], names[head], speed) for tail, head, speed in rows[::2]]


CONF = """# comment
SwitchName=top Switches=left,right  # of all
SwitchName=left Switches=a,b \\
   LinkSpeed=9

switchname=a NODES=x[08-10]
SwitchName=b Nodes=y
SwitchName=right Nodes=z[1,3]n[0-1]
"""


def test_a_tree_with_odd_numbers() -> None:
    """Leaves 36, 12 and 48 down, half of it up; left 24 down, a third up."""
    found = conf(CONF)
    hosts = [("x08", "a"), ("x09", "a"), ("x10", "a"), ("y", "b")]
    hosts += [(name, "right") for name in ("z1n0", "z1n1", "z3n0", "z3n1")]
    assert cables(found.topology) == [
        *((host, switch, 12) for host, switch in hosts),
        *(("a", "left", 18), ("b", "left", 6), ("right", "top", 24), ("left", "top", 8)),
    ]
    assert found.topology.node_names == (*(host for host, _ in hosts), *("top", "left", "a", "b", "right"))
    assert (found.format, found.topology.name) == ("slurm", "topology")
    assert found.recognised == {
        "nodes": "8",
        "switches": "5 on 3 levels",
        "speeds": "12 B/s per node",
        "rank order": "nodes in the order of the file",
    }
    assert found.defaulted == (Finding("downlinks over uplinks, from the leaves: 2, 3", "uplinks"),)
    assert found.warnings == (Finding("LinkSpeed has no unit and is not used", "line 3"),)


def test_levels_without_a_ratio_are_not_oversubscribed() -> None:
    found = conf(CONF, oversubscription="1.5:2.5")
    assert [speed for *_, speed in cables(found.topology)[8:]] == [60, 20, 80, 80]
    assert found.defaulted == (Finding("downlinks over uplinks, from the leaves: 3/5, 1", "uplinks"),)
    lone = conf("SwitchName=a Nodes=x,y", oversubscription=None)
    assert cables(lone.topology) == [("x", "a", 12), ("y", "a", 12)]
    assert (lone.defaulted, lone.warnings, lone.recognised["switches"]) == ((), (), "1 on 1 level")


def test_trees_side_by_side_and_switches_without_nodes() -> None:
    found = conf("SwitchName=a Nodes=x\nSwitchName=b Nodes=y,z\nSwitchName=c\nSwitchName=d Switches=c\n")
    assert cables(found.topology) == [("x", "a", 12), ("y", "b", 12), ("z", "b", 12)]
    assert found.warnings == (
        Finding("left out: 2 switches without nodes"),
        Finding("2 switches have none above: the fabric falls into as many parts"),
    )


YAML = """
- topology: one
  tree:
    switches:
      - {switch: a, nodes: 'x[0-1]'}
- topology: two
  cluster_default: YES
  tree:
    switches:
      - {switch: c, children: 'a,b', link_speed: '7'}
      - {switch: a, nodes: 'x[0-1]'}
      - {switch: b, nodes: 'y'}
"""


def test_the_default_tree_is_read() -> None:
    found = yaml(YAML, oversubscription="2:1")
    assert cables(found.topology) == [
        *(("x0", "a", 12), ("x1", "a", 12), ("y", "b", 12)),
        *(("a", "c", 12), ("b", "c", 6)),
    ]
    assert found.format == "slurm-yaml"
    assert found.warnings == (Finding("LinkSpeed has no unit and is not used", "[1].tree.switches[0]"),)
    first = yaml(YAML.replace("YES", "no"), oversubscription="2:1")
    assert cables(first.topology) == [("x0", "a", 12), ("x1", "a", 12)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SwitchName=a Nodes", ":1: expected KEY=VALUE pairs, found 'SwitchName=a Nodes'"),
        ("\nBlockName=b", ":2: topology/block describes groups of nodes, no links; only trees are read"),
        ("BlockSizes=4", ":1: topology/block describes groups of nodes, no links; only trees are read"),
        ("SwitchName=a Speed=4 Nodes=x", ":1: unknown key 'Speed'"),
        ("SwitchName=a switchname=b", ":1: expected SwitchName= and each key once"),
        ("Nodes=a", ":1: expected SwitchName= and each key once"),
        (
            "SwitchName=a,b Nodes=x",
            ":1: switch 'a,b': expected one name and either switches or nodes below it",
        ),
        (
            "SwitchName=a Nodes=x Switches=b",
            ":1: switch 'a': expected one name and either switches or nodes below it",
        ),
        ("SwitchName=a Nodes=x\nSwitchName=a Nodes=y", ":2: switch 'a' stands here and elsewhere"),
        ("SwitchName=a Nodes=x,x", ":1: node 'x' is named twice"),
        ("SwitchName=a Nodes=x,a", ":1: node 'a' is named twice"),
        ("SwitchName=a Nodes=x\nSwitchName=b Switches=c", ":2: switch 'c' is below b, but has no line"),
        (
            "SwitchName=a Nodes=x\nSwitchName=b Switches=a\nSwitchName=c Switches=a",
            ":3: switch 'a' is below both b and c; only trees are read",
        ),
        ("SwitchName=a Nodes=x\nSwitchName=b Switches=b", ":2: switch 'b' is below itself"),
        ("SwitchName=a", ": names no switch with nodes"),
        ("SwitchName=a Nodes=x,,y", ":1: nodes: expected names with commas between, found 'x,,y'"),
        ("SwitchName=a Nodes=x[1-]", ":1: nodes: expected rising ranges, found [1-]"),
        ("SwitchName=a Nodes=x[2-1]", ":1: nodes: expected rising ranges, found [2-1]"),
        ("SwitchName=a Nodes=x]1[", ":1: nodes: brackets of 'x]1[' do not match"),
        ("SwitchName=a Nodes=x[0-65534],y,z", ": describes 65537 nodes; at most 65536 are read"),
    ],
)
def test_trees_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        conf(text)
    assert str(refused.value) == f"topology.conf{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 3", "expected a list of topologies, each a mapping"),
        ("- 3", "expected a list of topologies, each a mapping"),
        ("- topology: x", "no topology has a tree; block and flat ones describe no links"),
        ("- {}\n- tree: 3", "[1].tree: expected a mapping with a list of switches"),
        ("- tree: {switches: 3}", "[0].tree: expected a mapping with a list of switches"),
        (
            "- tree: {switches: [3]}",
            "[0].tree.switches[0]: expected a mapping of switch, and children or nodes",
        ),
        (
            "- tree: {switches: [{switch: a, nodes: [b]}]}",
            "[0].tree.switches[0]: expected a mapping of switch, and children or nodes",
        ),
        (
            "- tree: {switches: [{switch: a, node: b}]}",
            "[0].tree.switches[0]: unknown key 'node'; known are children, link_speed, nodes, switch",
        ),
        ("- tree: {switches: [{nodes: b}]}", "[0].tree.switches[0]: key 'switch' is missing"),
        (
            "- tree: {switches: [{switch: a, nodes: b, children: c}]}",
            "[0].tree.switches[0]: switch 'a': expected one name and either switches or nodes below it",
        ),
        (
            "- tree: {switches: [{switch: a, nodes: 'x[3-1]'}]}",
            "[0].tree.switches[0]: nodes: expected rising ranges, found [3-1]",
        ),
    ],
)
def test_yaml_trees_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        yaml(text)
    assert str(refused.value) == f"topology.yaml: {message}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"nic_bandwidth": None},
            "topology.conf: names nodes and switches only, not how fast a node is joined; say it by "
            "--nic-bandwidth",
        ),
        (
            {"oversubscription": None},
            "topology.conf: does not say how fast switches are joined (8:1, or 1:1); say it by "
            "--oversubscription",
        ),
        (
            {"oversubscription": "1:1,1:1,1:1"},
            "topology.conf: --oversubscription '1:1,1:1,1:1': switches of 2 levels have uplinks",
        ),
        ({"oversubscription": "0:1"}, "--oversubscription '0:1': expected down:up, such as 8:1 or 4:1,2:1"),
        ({"oversubscription": "1:0"}, "--oversubscription '1:0': expected down:up, such as 8:1 or 4:1,2:1"),
        (
            {"oversubscription": "4X"},
            "--oversubscription '4X': expected down:up, such as 8:1 or 4:1,2:1; did you mean 4:1?",
        ),
        (
            {"oversubscription": "1000:1"},
            "topology.conf: uplink of a: expected 1 to 2**50 bytes/s, found 0.036",
        ),
    ],
)
def test_what_the_tree_does_not_say_is_asked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError) as refused:
        conf(CONF, **options)
    assert str(refused.value) == message


def chain(levels: int) -> str:
    rows = ["SwitchName=s0 Nodes=x,y"]
    return "\n".join([*rows, *(f"SwitchName=s{k} Switches=s{k - 1}" for k in range(1, levels + 1))])


def test_as_many_levels_as_are_read() -> None:
    assert conf(chain(64)).recognised["switches"] == "65 on 65 levels"
    with pytest.raises(FormatError, match=r"topology\.conf:66: more than 64 levels of switches"):
        conf(chain(65))


def test_sizes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[dict[str, int]] = []
    monkeypatch.setattr(slurm_tree, "check_import_size", lambda _, **counts: sizes.append(counts))
    conf(CONF)
    assert [one["nodes"] for one in sizes] == [1, 2, 6, 8, 13, 13]
    assert sizes[-1] == {"nodes": 13, "links": 26}


def discovered(text: str, **options: Any) -> Imported:
    return ibnetdiscover.read(SourceFile(text, "ib.out"), ImportOptions(**options))


IB = """#
vendid=0x1
Switch 3 "S-1" # "leaf one" port
[1](ab) "H-1"[1] # "x" lid 4xHDR
[2] "H-2"[2](2) # "y" lid 1xSDR
[3][ext 4] "S-2"[5] # "z"

Ca 1 "H-1" # "node1  HCA-1"
[1] "S-1"[1] 4xHDR
Ca 2 "H-2" # "plain"
[2] "S-1"[2] 1xSDR
Rt 6 "S-2" # "leaf one"
[5] "S-1"[3] # "none"
Ca 9 "H-3" # "plain"
Ca 9 "H-4" # "node1 mlx5_0"
"""


def test_a_discovered_fabric_with_odd_numbers() -> None:
    found = discovered(IB, bandwidth=7)
    assert found.topology.node_names == (
        *("leaf one S-1", "node1 HCA-1", "plain H-2", "leaf one S-2", "plain H-3", "node1 mlx5_0"),
    )
    assert found.topology.is_compute.tolist() == [False, True, True, False, True, True]
    names = found.topology.node_names
    rows = zip(
        found.topology.tails.tolist(),
        found.topology.heads.tolist(),
        found.topology.bandwidths.tolist(),
        strict=True,
    )
    assert [(names[tail], names[head], speed) for tail, head, speed in rows] == [
        ("leaf one S-1", "node1 HCA-1", 25 * 10**9),
        ("leaf one S-1", "plain H-2", 250_000_000),
        ("leaf one S-1", "leaf one S-2", 7),
        ("node1 HCA-1", "leaf one S-1", 25 * 10**9),
        ("plain H-2", "leaf one S-1", 250_000_000),
        ("leaf one S-2", "leaf one S-1", 7),
    ]
    assert found.recognised == {
        "switches": "2",
        "HCAs": "4 of 1 hosts",
        "SHARP": "0 aggregation nodes left out",
        "links": "6 directed",
        "speeds": "2 of 25 GB/s, 2 of 250 MB/s, 2 of 7 B/s",
        "components": "3",
        "rank order": "adapters in the order of the file",
    }
    assert found.defaulted == (Finding("2 ports without a speed take --bandwidth"),)
    assert found.warnings == (
        Finding("2 HCAs do not name their host (H-2 and others)", "line 10"),
        Finding("the fabric falls into 3 parts that no cable joins"),
        Finding("2 HCAs have no cable", "line 14"),
    )


def test_aggregation_nodes_are_left_out_with_their_links() -> None:
    found = discovered(ib_text(leaves=3, hosts=1))
    assert found.warnings == (Finding("3 links to aggregation nodes are left out: SHARP is no host"),)
    assert found.recognised["SHARP"] == "3 aggregation nodes left out"
    assert found.recognised["HCAs"] == "3 of 3 hosts"
    assert found.defaulted == ()
    one = discovered(ib_text().replace("n0-0 mlx5_0", "plain"))
    assert one.warnings[0].text == "1 HCAs do not name their host (H-0000)"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('Switch 3 "S-1"', 'Switch 2 "S-1"', ":6: port 3 of 2 does not exist"),
        ("[2] \"H-2\"", "[0] \"H-2\"", ":5: port 0 of 3 does not exist"),
        ("[2] \"H-2\"", "[1] \"H-2\"", ":5: port 1 stands here a second time"),
        ('"H-2" # "plain"', '"H-1" # "plain"', ":10: node 'H-1' stands here a second time"),
        ("vendid=0x1", '[1] "H-1"[1]', ":2: a port before the first node"),
        ("vendid=0x1", "vendor=0x1", ":2: expected a node, a port or a comment, found 'vendor=0x1'"),
        ("[1](ab)", "[1](xy)", ":4: malformed port '[1](xy) \"H-1\"[1] # \"x\" lid 4xHDR'"),
        ('lid 4xHDR', "lid 3xHDR", ":4: speed '3xHDR' is unknown; such as 4xNDR are"),
        ('lid 4xHDR', "lid 4xODR", ":4: speed '4xODR' is unknown; such as 4xNDR are"),
        ('lid 4xHDR', "lid 4xEDR", ":3: port 1 of S-1: the other end has another speed"),
        ('"S-2"[5] # "z"', '"S-9"[5]', ":3: port 3 of S-1: leads to 'S-9', which is not in the file"),
        ('"S-2"[5] # "z"', '"S-2"[4]', ":3: port 3 of S-1: port 4 of S-2 leads elsewhere"),
        ('[5] "S-1"[3]', '[5] "S-1"[2]', ":3: port 3 of S-1: port 5 of S-2 leads elsewhere"),
        ('"leaf one" port', '"leaf \x7f one" port', ":3: control characters in a description"),
    ],
)  # fmt: skip
def test_discovered_fabrics_that_are_refused(old: str, new: str, message: str) -> None:
    assert old in IB
    with pytest.raises(FormatError) as refused:
        discovered(IB.replace(old, new, 1), bandwidth=7)
    assert str(refused.value) == f"ib.out{message}"


def test_a_fabric_needs_two_adapters_and_cables() -> None:
    with pytest.raises(FormatError, match=r"ib\.out: has 1 channel adapters; a fabric has at least 2"):
        discovered('Ca 9 "H-3" # "plain"')
    with pytest.raises(FormatError, match=r"ib\.out:1: switch 'alone' has no cable"):
        discovered('Switch 9 "S-3" # "alone"\nCa 1 "H-1" # "x"\nCa 1 "H-2" # "y"\n')
    assert discovered('Ca 9 "H-1" # "x"\nCa 9 "H-2" # ""').topology.node_names == ("x", "H-2")
    with pytest.raises(FormatError, match=r"ib\.out: 2 ports have no speed; say it by --bandwidth"):
        discovered(IB)


SOURCE = SourceFile("", "f")


def test_numbers_at_their_limits() -> None:
    assert checked_values.number(SOURCE, "p", " +1.50 ") == Fraction(3, 2)
    assert checked_values.number(SOURCE, "p", 3) == 3
    assert checked_values.number(SOURCE, "p", 2.5) == Fraction(5, 2)
    for wrong in (True, None, "1e100", "0x3", "", "1" * 25):
        with pytest.raises(FormatError, match="f:7: p: expected a number, found"):
            checked_values.number(SOURCE, "p", wrong, line=7)
    assert [checked_values.integer(SOURCE, "p", text, 2, 5) for text in ("2", "5", "3.0")] == [2, 5, 3]
    for text in ("1", "6", "2.5"):
        with pytest.raises(FormatError) as refused:
            checked_values.integer(SOURCE, "p", text, 2, 5, line=7)
        assert str(refused.value) == f"f:7: p: expected an integer from 2 to 5, found {text!r}"


def test_bandwidths_and_latencies_at_their_limits() -> None:
    assert checked_values.integer_bandwidth(SOURCE, "p", Fraction(1)) == 1
    assert checked_values.integer_bandwidth(SOURCE, "p", Fraction(2**50)) == 2**50
    assert checked_values.integer_bandwidth(SOURCE, "p", Fraction(19, 10)) == 1
    for value, words in (
        (Fraction(1, 2), "0.5"),
        (Fraction(2**50 + 1), "1.1259e+15"),
        (Fraction(2**1000), "far more"),
    ):
        with pytest.raises(FormatError) as refused:
            checked_values.integer_bandwidth(SOURCE, "p", value, line=3)
        assert str(refused.value) == f"f:3: p: expected 1 to 2**50 bytes/s, found {words}"
    assert checked_values.integer_latency(SOURCE, "p", Fraction(2**53)) == 2**53
    assert checked_values.integer_latency(SOURCE, "p", Fraction(0)) == 0
    for value in (Fraction(-1), Fraction(2**53) + 1):
        with pytest.raises(FormatError, match=r"f:3: p: expected 0 to 2\*\*53 ns, found"):
            checked_values.integer_latency(SOURCE, "p", value, line=3)


def test_speeds_keep_their_ratios_only_where_that_costs_next_to_nothing() -> None:
    """A common measure of a million bytes/s or more is rounded; of less, each speed by itself."""
    measure = 10**6 + Fraction(1, 2)
    assert checked_values.integers_together([3 * measure, 5 * measure]) == [3 * 10**6, 5 * 10**6]
    assert checked_values.integers_together([Fraction(3 * 10**6), Fraction(5 * 10**6)]) == [
        3 * 10**6,
        5 * 10**6,
    ]
    small = 10**6 - Fraction(1, 2)
    assert checked_values.integers_together([3 * small, 5 * small]) == [2999998, 4999997]


def test_sizes_at_their_limits() -> None:
    checked_values.check_import_size(SOURCE, nodes=2**16, links=2**18)
    for nodes, links, words in (
        (2**16 + 1, 0, "65537 nodes; at most 65536"),
        (0, 2**18 + 1, "262145 links; at most 262144"),
        (2**64, 0, "about 2**64 nodes; at most 65536"),
        (2**64 - 1, 0, f"{2**64 - 1} nodes; at most 65536"),
    ):
        with pytest.raises(FormatError) as refused:
            checked_values.check_import_size(SOURCE, nodes=nodes, links=links)
        assert str(refused.value) == f"f: describes {words} are read"
    assert checked_values.format_value("x" * 48) == f"'{'x' * 48}'"
    assert checked_values.format_value("x" * 49) == f"'{'x' * 49}..."


def test_hostlists() -> None:
    def names(text: str) -> list[str]:
        return checked_values.expanded_hosts(SOURCE, "p", text)

    assert names("a, b") == ["a", "b"]
    assert names("a[1,3]b[08-10]c") == [f"a{i}b{k}c" for i in (1, 3) for k in ("08", "09", "10")]
    assert names("x[ 7 ],y") == ["x7", "y"]
    assert names("x[5-5]") == ["x5"]
    assert len(names(",".join("a" * 65536))) == 65536
