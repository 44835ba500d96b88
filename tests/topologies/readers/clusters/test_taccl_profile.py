"""TACCL's profiles and ASTRA-sim's networks link by link, and every refusal in full."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.topologies.readers.clusters import astrasim, taccl_profile
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.topology import Topology

PROFILE: dict[str, Any] = {
    "name": "odd",
    "gpus_per_node": 3,
    "nics_per_node": 2,
    "alpha": 0.005,
    "node_betas_list": [2],
    "remote_alpha": 0.009,
    "remote_beta": 5,
}


def read(document: object, **options: Any) -> Imported:
    text = document if isinstance(document, str) else json.dumps(document)
    given = {"chunk_size": 1000, **options}
    return taccl_profile.read(SourceFile(text, "t.json"), ImportOptions(**given))


def rows(topology: Topology) -> list[tuple[str, str, int, int]]:
    names = topology.node_names
    columns = (topology.tails, topology.heads, topology.bandwidths, topology.latencies_ns)
    return [
        (names[tail], names[head], speed, wait)
        for tail, head, speed, wait in zip(*(column.tolist() for column in columns), strict=True)
    ]


SPEED, FAR = 500_000_000, 200_000_000
"""1000 bytes in 2 and in 5 microseconds."""


def hub(prefix: str) -> list[tuple[str, str, int, int]]:
    """Latency is parted between the two halves of the way, 5 ns in all."""
    ways = []
    for gpu in range(3):
        ways += [
            (f"{prefix}gpu{gpu}", f"{prefix}hub", SPEED, 3),
            (f"{prefix}hub", f"{prefix}gpu{gpu}", SPEED, 2),
        ]
    return ways


def test_a_box_around_a_hub() -> None:
    found = read(PROFILE)
    assert rows(found.topology) == hub("")
    assert (found.format, found.topology.name) == ("taccl", "odd")
    assert found.topology.node_names == ("gpu0", "gpu1", "gpu2", "hub")
    assert found.recognised == {"GPUs": "1 x 3", "links": "6 of 500 MB/s", "chunk": "1000B (1000 bytes)"}
    note = "every GPU has one link to a hub, as TACCL's code has it"
    assert found.defaulted == (Finding(note, "node_betas_list"),)


def test_two_boxes_are_joined_straight() -> None:
    found = read(PROFILE, boxes=2, network="relay:2-1,0-0")
    ways = [*hub("box0."), *hub("box1.")]
    for sender, receiver in ((2, 1), (0, 0)):
        for a, b in (("box0", "box1"), ("box1", "box0")):
            ways.append((f"{a}.gpu{sender}", f"{b}.gpu{receiver}", FAR, 9))
    assert rows(found.topology) == ways
    assert found.recognised["between boxes"] == "gpu2 to gpu1, gpu0 to gpu0 of every other box at 200 MB/s"
    assert found.recognised["GPUs"] == "2 x 3"


def test_three_boxes_are_joined_by_a_switch_for_each_sender() -> None:
    found = read(PROFILE, boxes=3, network="relay:2-1")
    ways = [*hub("box0."), *hub("box1."), *hub("box2.")]
    for box in range(3):
        ways += [(f"box{box}.gpu2", "net2", FAR, 5), ("net2", f"box{box}.gpu1", FAR, 4)]
    assert rows(found.topology) == ways
    assert rows(read({**PROFILE, "nics_per_node": 3}, boxes=3, network="direct-map").topology)[18:20] == [
        ("box0.gpu0", "net0", FAR, 5),
        ("net0", "box0.gpu0", FAR, 4),
    ]


def test_an_ndv2_has_double_and_single_links() -> None:
    found = read({**PROFILE, "gpus_per_node": 8, "node_betas_list": [2, 4]})
    double = ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7))
    single = ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6))
    ways = []
    for pairs, speed in ((double, SPEED), (single, SPEED // 2)):
        for one, other in pairs:
            ways += [(f"gpu{one}", f"gpu{other}", speed, 5), (f"gpu{other}", f"gpu{one}", speed, 5)]
    assert rows(found.topology) == ways
    assert found.recognised["links"] == "16 of 500 MB/s, 16 of 250 MB/s"


MATRICES = {
    "name": "m",
    "gpus_per_node": 3,
    "alpha": 0.005,
    "links": [[0, 0, 1], [2, 0, 0], [0, 64, 0]],
    "betas": [[0, 0, 2], [4, 0, 0], [0, 5, 0]],
}


def test_matrices_say_how_many_links_there_are() -> None:
    found = read(MATRICES)
    ways = (
        [("gpu2", "gpu0", SPEED, 5)] + [("gpu0", "gpu1", SPEED // 2, 5)] * 2 + [("gpu1", "gpu2", FAR, 5)] * 64
    )
    assert rows(found.topology) == ways
    assert found.defaulted == ()
    betas = [[0, 1, 2], [4, 0, 8], [5, 10, 0]]
    many = read({**MATRICES, "links": [[0, 1, 1], [1, 0, 1], [1, 1, 0]], "betas": betas})
    assert many.recognised["links"] == "1 of 1 GB/s, 1 of 500 MB/s, 1 of 250 MB/s, 1 of 125 MB/s, ..."


def test_speeds_that_have_no_whole_bytes_keep_their_ratios() -> None:
    """10**12 bytes/s over 3 and over 6: twice 166666666666 and once."""
    found = read({**PROFILE, "gpus_per_node": 8, "node_betas_list": [3, 6]}, chunk_size=10**6)
    assert sorted(set(found.topology.bandwidths.tolist())) == [166_666_666_666, 333_333_333_332]


SKETCH = "is a TACCL sketch, which has no links; give the topology's file with"
ONE_OR_TWO = "node_betas_list: expected one or two numbers, or matrices links and betas instead"
EACH = "one value for each of 1 to 16 dimensions, found"


@pytest.mark.parametrize(
    ("document", "options", "message"),
    [
        ([], {}, "expected an object, as TACCL's topology files are"),
        (
            {**PROFILE, "colour": 1},
            {},
            f"unknown key 'colour'; known are {', '.join(sorted(taccl_profile.KEYS))}",
        ),
        (
            PROFILE,
            {"chunk_size": None},
            "betas are microseconds for a chunk whose size the file does not say; say it by --chunk-size",
        ),
        ({**PROFILE, "gpus_per_node": 1}, {}, "gpus_per_node: expected an integer from 2 to 128, found '1'"),
        (
            {**PROFILE, "gpus_per_node": 129},
            {},
            "gpus_per_node: expected an integer from 2 to 128, found '129'",
        ),
        (
            {**PROFILE, "node_betas_list": []},
            {},
            ONE_OR_TWO,
        ),
        (
            {**PROFILE, "node_betas_list": [1, 2, 3]},
            {},
            ONE_OR_TWO,
        ),
        (
            {**PROFILE, "node_betas_list": 1},
            {},
            ONE_OR_TWO,
        ),
        ({**PROFILE, "node_betas_list": ["x"]}, {}, "node_betas_list[0]: expected a number, found 'x'"),
        (
            {**PROFILE, "node_betas_list": [1, 2]},
            {},
            "gpus_per_node: two betas are those of NDv2's 8 GPUs, found 3",
        ),
        (
            {**PROFILE, "node_betas_list": [0]},
            {},
            "node_betas_list[0]: expected more than 0 microseconds, found 0",
        ),
        (
            {**PROFILE, "node_betas_list": [2000000001]},
            {},
            "node_betas_list[0]: expected 1 to 2**50 bytes/s, found 0.5",
        ),
        ({**PROFILE, "alpha": -1}, {}, "alpha: expected 0 to 2**53 ns, found -1000"),
        ({**PROFILE, "name": 3}, {}, "name: expected text, found '3'"),
        ({**PROFILE, "name": "a\nb"}, {}, "name: expected text, found 'a\\nb'"),
        *(
            (
                {key: value for key, value in PROFILE.items() if key != lost},
                {"boxes": 2, "network": "relay:0-1"},
                f"key {lost!r} is missing",
            )
            for lost in PROFILE
        ),
        (
            {**MATRICES, "links": [[0, 0, 1], [2, 0], [0, 1, 0]]},
            {},
            "links: expected 3 rows of 3 numbers, one for each GPU",
        ),
        ({**MATRICES, "betas": 3}, {}, "betas: expected 3 rows of 3 numbers, one for each GPU"),
        (
            {**MATRICES, "links": [[0, 0, 1], [1, 1, 0], [0, 1, 0]]},
            {},
            "links[1][1]: a GPU has no link to itself",
        ),
        (
            {**MATRICES, "links": [[0, 0, 1], [1, 0, 65], [0, 1, 0]]},
            {},
            "links[1][2]: expected an integer from 0 to 64, found '65'",
        ),
        (
            {**MATRICES, "betas": [[0, 0, "x"], [4, 0, 0], [0, 5, 0]]},
            {},
            "betas[0][2]: expected a number, found 'x'",
        ),
        (
            {**MATRICES, "betas": [[0, 0, 1], [0, 0, 0], [0, 5, 0]]},
            {},
            "betas[1][0]: expected more than 0 microseconds, found 0",
        ),
        (PROFILE, {"network": "relay:0-1"}, "--network joins boxes, and there is one; say it by --boxes"),
        (PROFILE, {"boxes": 2}, "how 2 boxes are joined (relay:0-1 or direct-map); say it by --network"),
        (
            PROFILE,
            {"boxes": 2, "network": "ring"},
            "--network 'ring': expected direct-map or relay:SENDER-RECEIVER,...",
        ),
        (
            PROFILE,
            {"boxes": 2, "network": "relay:0-1,x"},
            "--network 'relay:0-1,x': expected direct-map or relay:SENDER-RECEIVER,...",
        ),
        (
            PROFILE,
            {"boxes": 2, "network": "relay:"},
            "--network 'relay:': expected direct-map or relay:SENDER-RECEIVER,...",
        ),
        (
            PROFILE,
            {"boxes": 2, "network": "relay:0-3"},
            "--network 'relay:0-3': expected each sender once, GPUs 0 to 2",
        ),
        (
            PROFILE,
            {"boxes": 2, "network": "relay:3-0"},
            "--network 'relay:3-0': expected each sender once, GPUs 0 to 2",
        ),
        (
            PROFILE,
            {"boxes": 2, "network": "relay:0-1,0-2"},
            "--network 'relay:0-1,0-2': expected each sender once, GPUs 0 to 2",
        ),
        (
            PROFILE,
            {"boxes": 2, "network": "direct-map"},
            "--network 'direct-map': 3 senders and 2 NICs; who shares one is not said",
        ),
        (
            {"nnodes": 2},
            {},
            f"{SKETCH} --boxes N --network relay:SENDER-RECEIVER",
        ),
        (
            {"nnodes": 3, "internode_sketch": {"internode_conn": {"2": [1, 0], "x": 3}}},
            {},
            f"{SKETCH} --boxes 3 --network relay:2-1,2-0",
        ),
        (
            {"nnodes": 4, "internode_sketch": {"internode_conn": "direct-map"}},
            {},
            f"{SKETCH} --boxes 4 --network direct-map",
        ),
        (
            {"nnodes": 4, "internode_sketch": {"internode_conn": "fully"}},
            {},
            f"{SKETCH} --boxes N --network relay:SENDER-RECEIVER",
        ),
    ],
)
def test_profiles_that_are_refused(document: object, options: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(document, **options)
    assert str(refused.value) == f"t.json: {message}"


def test_sizes_are_counted_before_boxes_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[dict[str, int]] = []
    monkeypatch.setattr(taccl_profile, "check_import_size", lambda _, **counts: sizes.append(counts))
    read(PROFILE, boxes=5, network="relay:2-1,0-0")
    read(MATRICES)
    assert sizes == [{"nodes": 5 * 4 + 2, "links": 5 * (6 + 5 * 2)}, {"nodes": 4, "links": 67}]


def astra(topology: str, counts: str, speeds: str, waits: str, more: str = "") -> Imported:
    text = (
        f"topology: [{topology}]\nnpus_count: [{counts}]\nbandwidth: [{speeds}]\nlatency: [{waits}]\n{more}"
    )
    return astrasim.read(SourceFile(text, "net.yml"), ImportOptions())


def pairs(topology: Topology) -> list[tuple[str, str, int, int]]:
    """Each cable once; its opposite follows it."""
    ways = rows(topology)
    assert [(head, tail, *rest) for tail, head, *rest in ways[::2]] == [tuple(way) for way in ways[1::2]]
    return ways[::2]


def test_dimensions_of_astra_sim_one_within_the_other() -> None:
    found = astra("Switch, FullyConnected, Ring", "2, 3, 2", "2, 0.5, 1", "7, 1.25, 2.5")
    expected = []
    for first in range(0, 12, 2):
        expected += [(f"npu{first + k}", f"dim0.switch{first}", 2 * 10**9, 7) for k in range(2)]
    for first in (0, 1, 6, 7):
        group = [f"npu{first + 2 * k}" for k in range(3)]
        expected += [(group[k], group[j], 5 * 10**8, 1) for k in range(3) for j in range(k)]
    expected += [(f"npu{first}", f"npu{first + 6}", 10**9, 2) for first in range(6)]
    assert pairs(found.topology) == expected
    assert found.recognised == {
        "NPUs": "12",
        "dimensions": "2 GB/s Switch of 2, 500 MB/s FullyConnected of 3, 1 GB/s Ring of 2",
        "rank order": "the first dimension is the innermost",
    }
    assert found.warnings == (Finding("rounded to whole nanoseconds: 1.25, 2.5", "latency"),)
    assert (found.format, found.topology.name) == ("astra-sim", "net")
    ring = astra("Ring, Switch", "3, 1", "1, 1", "0, 0")
    assert pairs(ring.topology) == [(f"npu{k}", f"npu{(k + 1) % 3}", 10**9, 0) for k in range(3)]
    assert ring.warnings == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("Ring, Ring", "2", "1, 1", "0, 0"),
            f"npus_count: expected {EACH} 2 of topology and 1 of npus_count",
        ),
        (
            ("", "", "", ""),
            f"topology: expected {EACH} 0 of topology and 0 of topology",
        ),
        (
            (", ".join(["Ring"] * 17), ",".join("1" * 17), ",".join("1" * 17), ",".join("1" * 17)),
            f"topology: expected {EACH} 17 of topology and 17 of topology",
        ),
        (
            ("Ring, Star", "2, 2", "1, 1", "0, 0"),
            "topology[1]: expected one of Ring, Switch, FullyConnected, found 'Star'",
        ),
        (
            ("Ring, Ring", "2, 0", "1, 1", "0, 0"),
            "npus_count[1]: expected an integer from 1 to 65536, found '0'",
        ),
        (("Ring, Ring", "1, 1", "1, 1", "0, 0"), "npus_count: one NPU is no fabric; expected at least 2"),
        (("Ring, Ring", "2, 2", "1, x", "0, 0"), "bandwidth[1]: expected a number, found 'x'"),
        (("Ring, Ring", "2, 2", "1, 0", "0, 0"), "bandwidth[1]: expected 1 to 2**50 bytes/s, found 0"),
        (("Ring, Ring", "2, 2", "1, 1", "0, x"), "latency[1]: expected a number, found 'x'"),
        (("Ring, Ring", "2, 2", "1, 1", "0, -1"), "latency[1]: expected 0 to 2**53 ns, found -1"),
        (
            ("Ring", "2", "1", "0", "colour: 1"),
            "unknown key 'colour'; known are topology, npus_count, bandwidth, latency",
        ),
    ],
)
def test_networks_that_are_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(FormatError) as refused:
        astra(*words)
    assert str(refused.value) == f"net.yml: {message}"


@pytest.mark.parametrize("lost", astrasim.KEYS)
def test_networks_without_a_key_are_refused(lost: str) -> None:
    text = "".join(f"{key}: 2\n" for key in astrasim.KEYS if key != lost).replace(
        "topology: 2", "topology: Ring"
    )
    with pytest.raises(FormatError) as refused:
        astrasim.read(SourceFile(text, "net.yml"), ImportOptions())
    assert str(refused.value) == f"net.yml: key {lost!r} is missing"
    with pytest.raises(FormatError, match="expected a mapping with the keys topology, npus_count, b"):
        astrasim.read(SourceFile("- 3\n", "net.yml"), ImportOptions())


def test_single_values_stand_for_one_dimension() -> None:
    text = "topology: Ring\nnpus_count: 2\nbandwidth: 1\nlatency: 3\n"
    found = astrasim.read(SourceFile(text, "net.yml"), ImportOptions())
    assert pairs(found.topology) == [("npu0", "npu1", 10**9, 3)]


def test_sizes_are_counted_before_npus_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[dict[str, int]] = []
    monkeypatch.setattr(astrasim, "check_import_size", lambda _, **counts: sizes.append(counts))
    astra("Switch, FullyConnected, Ring", "2, 3, 5", "2, 0.5, 1", "7, 1.25, 2.5")
    assert sizes == [{"nodes": 30 + 15, "links": 2 * 30 + 30 * 2 + 2 * 30}]
