"""Platforms and clusters cable by cable, and how large a fabric may be: at the limit and one beyond it."""

from __future__ import annotations

import inspect
from itertools import combinations

import pytest

from treadle.errors import TopologyError
from treadle.topologies import limits, parse
from treadle.topologies.registry import call_signature, catalogue
from treadle.topologies.topology import Topology

# what check_size is told of nodes and links; bounds where the fabric has fewer
SIZES = {
    "dgx_a100(3, 5)": (50, 90),
    "dgx_a100(3, 5, pcie=True)": (50, 120),
    "dgx_a100_flat(3, 5)": (19, 60),
    "dgx_h100(2, 3)": (9, 24),
    "dgx_b200(2, 3)": (9, 24),
    "gb200_nvl72(3, 5)": (19, 60),
    "mi250(3)": (49, 264),
    "mi250(3, 8)": (25, 114),
    "mi300x(3, 5)": (16, 90),
    "leaf_spine(3, 2, gpus_per_leaf=5)": (20, 42),
    "fat_tree(6)": (99, 324),
    "rail_optimized(3, 5, spines=2)": (25, 80),
    "rail_optimized(3, 5)": (23, 60),
    "pods(2, 3, gpus_per_box=5)": (39, 124),
    "ring(5)": (5, 10),
    "ring(5, bidirectional=False)": (5, 10),
    "star(5)": (5, 10),
    "complete(5)": (5, 20),
    "complete_bipartite(3, 5)": (8, 30),
    "torus(3, 5)": (15, 60),
    "mesh(3, 2)": (6, 18),
    "hypercube(5)": (32, 160),
    "hamming(3, 4)": (64, 576),
    "kautz(3, 2)": (36, 108),
    "generalized_kautz(3, 11)": (11, 33),
    "de_bruijn(3, 4)": (81, 243),
    "circulant(11, 2, 3, 5)": (11, 66),
    "directed_circulant(11, 2, 3, 5)": (11, 33),
    "twisted_torus(3, 6)": (18, 72),
    "twisted_hypercube(5)": (32, 160),
    "uni_ring(3, 7)": (7, 21),
    "bi_ring(4, 7)": (7, 28),
    "shifted_ring(7)": (7, 28),
    "double_binary_tree(7)": (7, 24),
    "crown(5)": (10, 40),
    "doubled_odd_graph(3)": (20, 60),
    "slimfly(5)": (50, 350),
    "slimfly(7)": (98, 1078),
    "slimfly(4)": (32, 192),
    "dragonfly(3, 5)": (48, 336),
    'abelian_cayley("5x3", 1, 5, 7)': (15, 45),
    "jellyfish(10, 3)": (10, 30),
    "random_regular_digraph(10, 3)": (10, 30),
    "xpander(3, 5)": (20, 60),
    "line_graph(complete(4), 2)": (36, 108),
    "degree_expansion(complete(4), 3)": (12, 108),
    "cartesian_product(uni_ring(2, 5), complete(4))": (20, 100),
    "disjoint_copies(complete(4), 3)": (12, 36),
}


@pytest.mark.parametrize("text", SIZES)
def test_sizes_are_known_before_anything_is_built(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    nodes, links = SIZES[text]
    function = text.partition("(")[0]
    monkeypatch.setattr(limits, "MAX_NODES", nodes)
    monkeypatch.setattr(limits, "MAX_LINKS", links)
    fabric = parse(text)
    assert fabric.n_nodes <= nodes
    assert fabric.n_links <= links
    monkeypatch.setattr(limits, "MAX_NODES", nodes - 1)
    with pytest.raises(TopologyError) as refused:
        parse(text)
    words = f"{function}: this would be {nodes} nodes, the catalogue builds at most {nodes - 1}"
    assert str(refused.value) == words or function.endswith("_cayley")
    assert words.partition(":")[2] in str(refused.value)
    monkeypatch.setattr(limits, "MAX_NODES", nodes)
    monkeypatch.setattr(limits, "MAX_LINKS", links - 1)
    with pytest.raises(TopologyError) as refused:
        parse(text)
    assert f": this would be {links} links, the catalogue builds at most {links - 1}" in str(refused.value)


# expression just refused, what is said of it, expression just allowed (None: there is none that is small)
LIMITS = [
    ("dgx_a100(0)", "dgx_a100: boxes must be at least 1, found 0", "dgx_a100(1)"),
    ("dgx_a100(2, 0)", "dgx_a100: gpus_per_box must be at least 1, found 0", "dgx_a100(2, 1)"),
    ("dgx_a100_flat(0)", "dgx_a100_flat: boxes must be at least 1, found 0", "dgx_a100_flat(1, 1)"),
    ("dgx_a100_flat(1, 0)", "dgx_a100_flat: gpus_per_box must be at least 1, found 0", "dgx_a100_flat(1)"),
    ("dgx_b200(0)", "dgx_b200: boxes must be at least 1, found 0", "dgx_b200(1, 1)"),
    ("dgx_b200(1, 0)", "dgx_b200: gpus_per_box must be at least 1, found 0", "dgx_b200(2, 1)"),
    ("gb200_nvl72(0)", "gb200_nvl72: racks must be at least 1, found 0", "gb200_nvl72(1, 1)"),
    ("gb200_nvl72(1, 0)", "gb200_nvl72: gpus_per_rack must be at least 1, found 0", "gb200_nvl72(2, 1)"),
    (
        "dgx_h100(1, sharp=True)",
        "dgx_h100: sharp needs at least 2 boxes, one has no InfiniBand switch",
        "dgx_h100(2, sharp=True)",
    ),
    (
        "gb200_nvl72(1, sharp=True)",
        "gb200_nvl72: sharp needs at least 2 racks, one has no InfiniBand switch",
        "gb200_nvl72(2, 2, sharp=True)",
    ),
    ("mi250(1, 9)", "mi250: gpus_per_box must be 8 or 16, found 9", "mi250(1, 8)"),
    ("mi250(0)", "mi250: boxes must be at least 1, found 0", "mi250(1)"),
    ("mi300x(1, 1)", "mi300x: gpus_per_box must be at least 2, found 1", "mi300x(1, 2)"),
    ("mi300x(1, 9)", "mi300x: gpus_per_box must be at most 8, found 9", "mi300x(1, 8)"),
    ("mi300x(0)", "mi300x: boxes must be at least 1, found 0", "mi300x(1)"),
    ("leaf_spine(0, 1)", "leaf_spine: leaves must be at least 1, found 0", "leaf_spine(1, 1)"),
    ("leaf_spine(1, 0)", "leaf_spine: spines must be at least 1, found 0", "leaf_spine(1, 2)"),
    (
        "leaf_spine(1, 1, gpus_per_leaf=0)",
        "leaf_spine: gpus_per_leaf must be at least 1, found 0",
        "leaf_spine(1, 1, gpus_per_leaf=1)",
    ),
    (
        'leaf_spine(2, 3, gpus_per_leaf=2, oversubscription=2, nic_bandwidth="2B/s")',
        "leaf_spine: 3 uplinks at 2:1 leave less than 1 byte/s each; use fewer spines or a smaller "
        "oversubscription",
        'leaf_spine(2, 3, gpus_per_leaf=2, oversubscription=2, nic_bandwidth="3B/s")',
    ),
    ("fat_tree(1)", "fat_tree: k must be at least 2, found 1", "fat_tree(2)"),
    ("fat_tree(3)", "fat_tree: k must be even, found 3", "fat_tree(4)"),
    ("rail_optimized(0)", "rail_optimized: boxes must be at least 1, found 0", "rail_optimized(1)"),
    (
        "rail_optimized(1, 0)",
        "rail_optimized: gpus_per_box must be at least 1, found 0",
        "rail_optimized(1, 1)",
    ),
    (
        "rail_optimized(2, spines=-1)",
        "rail_optimized: spines must be at least 0, found -1",
        "rail_optimized(2, spines=0)",
    ),
    (
        "rail_optimized(2, oversubscription=2)",
        "rail_optimized: oversubscription needs spines; give spines=1 or more",
        "rail_optimized(2, oversubscription=2, spines=1)",
    ),
    ("pods(0, 1)", "pods: n_pods must be at least 1, found 0", "pods(1, 1)"),
    ("pods(1, 0)", "pods: boxes_per_pod must be at least 1, found 0", "pods(1, 1)"),
    (
        "pods(1, 1, gpus_per_box=0)",
        "pods: gpus_per_box must be at least 1, found 0",
        "pods(2, 1, gpus_per_box=1)",
    ),
    ("pods(1, 1, oversubscription=0)", "pods: oversubscription must be at least 1, found 0", "pods(2, 2)"),
    ("ring(1)", "ring: n must be at least 2, found 1", "ring(2)"),
    ("path(0)", "path: n must be at least 1, found 0", "path(1)"),
    ("star(1)", "star: n must be at least 2, found 1", "star(2)"),
    ("complete(1)", "complete: n must be at least 2, found 1", "complete(2)"),
    (
        "complete_bipartite(0, 1)",
        "complete_bipartite: a must be at least 1, found 0",
        "complete_bipartite(1, 1)",
    ),
    (
        "complete_bipartite(1, 0)",
        "complete_bipartite: b must be at least 1, found 0",
        "complete_bipartite(1, 2)",
    ),
    ("hamming(0, 2)", "hamming: n must be at least 1, found 0", "hamming(1, 2)"),
    ("hamming(1, 1)", "hamming: q must be at least 2, found 1", "hamming(1, 3)"),
    ("hamming(21, 2)", "hamming: n must be at most 20, found 21", None),
    ("hypercube(21)", "hypercube: d must be at most 20, found 21", None),
    ("hypercube(0)", "hypercube: d must be at least 1, found 0", "hypercube(1)"),
    (
        f"torus({', '.join('1' * 21)})",
        "torus: number of dimensions must be at most 20, found 21",
        f"torus({', '.join('1' * 20)})",
    ),
    ("mesh(3, 0)", "mesh: each dimension must be at least 1, found 0", "mesh(3, 1)"),
    ("torus()", "torus: number of dimensions must be at least 1, found 0", "torus(1)"),
    ("torus(2097153)", "torus: each dimension must be at most 2097152, found 2097153", None),
    ("torus(2048, 1025)", "torus: number of nodes must be at most 2097152, found 2099200", None),
    ("kautz(0, 1)", "kautz: d must be at least 1, found 0", "kautz(1, 1)"),
    ("kautz(1, -1)", "kautz: n must be at least 0, found -1", "kautz(2, 0)"),
    ("kautz(1, 21)", "kautz: n must be at most 20, found 21", "kautz(1, 20)"),
    (
        "generalized_kautz(1, 3)",
        "generalized_kautz: d must be at least 2, found 1",
        "generalized_kautz(2, 3)",
    ),
    (
        "generalized_kautz(2, 1)",
        "generalized_kautz: m must be at least 2, found 1",
        "generalized_kautz(2, 2)",
    ),
    ("de_bruijn(1, 2)", "de_bruijn: d must be at least 2, found 1", "de_bruijn(2, 2)"),
    ("de_bruijn(2, 0)", "de_bruijn: n must be at least 1, found 0", "de_bruijn(2, 1)"),
    ("de_bruijn(2, 21)", "de_bruijn: n must be at most 20, found 21", None),
    ("circulant(1, 1)", "circulant: n must be at least 2, found 1", "circulant(2, 1)"),
    ("circulant(5, 5)", "circulant: each offset must be at most 4, found 5", "circulant(5, 4)"),
    (
        "twisted_torus(1, 2)",
        "twisted_torus: each dimension must be at least 2, found 1",
        "twisted_torus(2, 4)",
    ),
    ("twisted_hypercube(2)", "twisted_hypercube: n must be at least 3, found 2", "twisted_hypercube(3)"),
    ("twisted_hypercube(21)", "twisted_hypercube: n must be at most 20, found 21", None),
    ("bi_ring(1, 3)", "bi_ring: d must be at least 2, found 1", "bi_ring(2, 3)"),
    ("bi_ring(2, 2)", "bi_ring: m must be at least 3, found 2", "bi_ring(2, 4)"),
    ("uni_ring(0, 2)", "uni_ring: d must be at least 1, found 0", "uni_ring(1, 2)"),
    ("uni_ring(1, 1)", "uni_ring: m must be at least 2, found 1", "uni_ring(2, 2)"),
    ("shifted_ring(2)", "shifted_ring: n must be at least 3, found 2", "shifted_ring(3)"),
    ("shifted_ring(5, 5)", "shifted_ring: stride must be at most 4, found 5", "shifted_ring(5, 4)"),
    ("shifted_ring(5, -1)", "shifted_ring: stride must be at least 0, found -1", "shifted_ring(5, 0)"),
    ("double_binary_tree(1)", "double_binary_tree: n must be at least 2, found 1", "double_binary_tree(2)"),
    ("slimfly(2)", "slimfly: q must be at least 3, found 2", "slimfly(3)"),
    ("slimfly(1025)", "slimfly: q must be at most 1024, found 1025", None),
    (
        "slimfly(6)",
        "slimfly: q must be a prime power that is 0, 1 or 3 modulo 4, found 6",
        "slimfly(8)",
    ),
    ("dragonfly(0, 1)", "dragonfly: a must be at least 1, found 0", "dragonfly(1, 1)"),
    ("dragonfly(1, 0)", "dragonfly: h must be at least 1, found 0", "dragonfly(1, 2)"),
    ("paley(1)", "paley: q must be at least 2, found 1", None),
    ("paley(1025)", "paley: q must be at most 1024, found 1025", None),
    ("paley(3)", "paley: q must be 1 modulo 4, found 3; else x - y and y - x differ", "paley(5)"),
    ("paley(21)", "paley: q must be a prime power, found 21", "paley(25)"),
    ("projective_plane(33)", "projective_plane: q must be at most 32, found 33", None),
    ("projective_plane(1)", "projective_plane: q must be at least 2, found 1", "projective_plane(2)"),
    ("affine_plane(33)", "affine_plane: q must be at most 32, found 33", "affine_plane(2)"),
    ("generalized_quadrangle(10)", "generalized_quadrangle: q must be at most 9, found 10", None),
    ("generalized_hexagon(5)", "generalized_hexagon: q must be at most 4, found 5", None),
    ("crown(2)", "crown: n must be at least 3, found 2", "crown(3)"),
    ("odd_graph(1)", "odd_graph: k must be at least 2, found 1", "odd_graph(2)"),
    ("odd_graph(9)", "odd_graph: k must be at most 8, found 9", None),
    ("doubled_odd_graph(1)", "doubled_odd_graph: k must be at least 2, found 1", "doubled_odd_graph(2)"),
    ("doubled_odd_graph(9)", "doubled_odd_graph: k must be at most 8, found 9", None),
    ("distance_regular(0, 6)", "distance_regular: d must be at least 1, found 0", "distance_regular(4, 6)"),
    ("jellyfish(1, 1)", "jellyfish: n must be at least 2, found 1", "jellyfish(2, 1)"),
    ("jellyfish(4, 4)", "jellyfish: d must be at most 3, found 4", "jellyfish(4, 3)"),
    (
        "jellyfish(4, 1)",
        "jellyfish: 4 nodes of degree 1 cannot be connected; d must be at least 2",
        "jellyfish(4, 2)",
    ),
    ("jellyfish(4, 2, seed=-1)", "jellyfish: seed must be at least 0, found -1", None),
    ("jellyfish(5, 3)", "jellyfish: n * d must be even, found 5 * 3; a link has two ends", "jellyfish(5, 2)"),
    ("random_regular_digraph(4, 0)", "random_regular_digraph: d must be at least 1, found 0", None),
    ("xpander(2, 1)", "xpander: d must be at least 3, found 2", "xpander(3, 1)"),
    ("xpander(3, 0)", "xpander: lift must be at least 1, found 0", "xpander(3, 2)"),
    ("punctured(ring(4), links=-1)", "punctured: links must be at least 0, found -1", "punctured(ring(4))"),
    ("punctured(ring(4), links=9)", "punctured: links must be at most 8, found 9", None),
    (
        "punctured(ring(4), nodes=4)",
        "punctured: nodes must be at most 3, found 4",
        "punctured(ring(4), nodes=3)",
    ),
    ("punctured(ring(4), seed=-1)", "punctured: seed must be at least 0, found -1", None),
    ("line_graph(ring(4), 0)", "line_graph: n must be at least 1, found 0", None),
    (
        "line_graph(uni_ring(1, 2), 33)",
        "line_graph: n must be at most 32, found 33",
        "line_graph(uni_ring(1, 2), 32)",
    ),
    ("degree_expansion(ring(4), 0)", "degree_expansion: n must be at least 1, found 0", None),
    ("cartesian_power(ring(4), 0)", "cartesian_power: n must be at least 1, found 0", None),
    ("cartesian_power(ring(4), 33)", "cartesian_power: n must be at most 32, found 33", None),
    ("cartesian_product()", "cartesian_product: number of factors must be at least 1, found 0", None),
    (
        "disjoint_copies(ring(4), 0)",
        "disjoint_copies: n must be at least 1, found 0",
        "disjoint_copies(ring(4), 1)",
    ),
    ("metacyclic_cayley(0, 2, 1, 1)", "metacyclic_cayley: m must be at least 1, found 0", None),
    ("metacyclic_cayley(3, 0, 1, 1)", "metacyclic_cayley: k must be at least 1, found 0", None),
    ("plane_cayley(1, 1, 1, 0, 0, 1, 1)", "plane_cayley: m must be at least 2, found 1", None),
    ("plane_cayley(2, 0, 1, 0, 0, 1, 1)", "plane_cayley: k must be at least 1, found 0", None),
]


@pytest.mark.parametrize(("text", "message", "allowed"), LIMITS)
def test_arguments_at_their_limits(text: str, message: str, allowed: str | None) -> None:
    with pytest.raises(TopologyError) as refused:
        parse(text)
    assert str(refused.value) == message
    if allowed is not None:
        fabric = parse(allowed)
        assert fabric.n_nodes > 0


def cabled(fabric: Topology) -> dict[str, int]:
    """Bandwidth by ``one--other``; every link has its opposite."""
    found = {}
    names = fabric.node_names
    ends = list(zip(fabric.tails.tolist(), fabric.heads.tolist(), fabric.bandwidths.tolist(), strict=True))
    for link, (tail, head, bandwidth) in enumerate(ends):
        if link % 2 == 0:
            assert ends[link + 1] == (head, tail, bandwidth)
            found[f"{names[tail]}--{names[head]}"] = bandwidth
    assert len(found) * 2 == fabric.n_links
    return found


def test_dgx_a100_cable_by_cable() -> None:
    bandwidths = 'nvlink_bandwidth="7B/s", nic_bandwidth="5B/s", pcie_bandwidth="3B/s"'
    text = f"dgx_a100(2, gpus_per_box=3, pcie=True, {bandwidths})"
    fabric = parse(text)
    assert fabric.name == text
    expected: dict[str, int] = {}
    for box in ("box0", "box1"):
        expected |= {f"{box}.gpu{i}--{box}.nvswitch": 7 for i in range(3)}
        expected |= {f"{box}.gpu{i}--{box}.pcie{i // 2}": 3 for i in range(3)}
        expected |= {f"{box}.pcie{i // 2}--{box}.nic{i}": 5 for i in range(3)}
        expected |= {f"{box}.nic{i}--ib{i % 2}": 5 for i in range(3)}
    assert cabled(fabric) == expected
    assert fabric.node_names[:10] == (
        *("box0.gpu0", "box0.gpu1", "box0.gpu2", "box0.nvswitch"),
        *("box1.gpu0", "box1.gpu1", "box1.gpu2", "box1.nvswitch", "ib0", "ib1"),
    )
    assert fabric.node_names[10:15] == ("box0.nic0", "box0.pcie0", "box0.nic1", "box0.nic2", "box0.pcie1")
    plain = parse(f"dgx_a100(2, 1, {bandwidths})")
    one = {"{0}.gpu0--{0}.nvswitch": 7, "{0}.gpu0--{0}.nic0": 5, "{0}.nic0--ib0": 5}
    assert cabled(plain) == {key.format(box): b for box in ("box0", "box1") for key, b in one.items()}


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ('dgx_a100_flat({}, gpus_per_box=3, nvlink_bandwidth="7B/s", nic_bandwidth="5B/s")', "box"),
        ('dgx_h100({}, gpus_per_box=3, nvls=True, nvlink_bandwidth="7B/s", nic_bandwidth="5B/s")', "box"),
        ('dgx_b200({}, gpus_per_box=3, nvls=True, nvlink_bandwidth="7B/s", nic_bandwidth="5B/s")', "box"),
        (
            'gb200_nvl72({}, gpus_per_rack=3, nvls=True, nvlink_bandwidth="7B/s", nic_bandwidth="5B/s")',
            "rack",
        ),
    ],
)
def test_boxes_on_one_switch_cable_by_cable(text: str, box: str) -> None:
    for boxes in (1, 2):
        fabric = parse(text.format(boxes))
        assert fabric.name == text.format(boxes)
        places = [(f"{box}{b}", f"{box}{b}.gpu{i}") for b in range(boxes) for i in range(3)]
        expected = {f"{gpu}--{where}.nvswitch": 7 for where, gpu in places}
        if boxes > 1:
            expected |= {f"{gpu}--ib0": 5 for _, gpu in places}
        assert cabled(fabric) == expected


def test_direct_boxes_cable_by_cable() -> None:
    text = 'mi300x(2, gpus_per_box=3, fabric_bandwidth="7B/s", nic_bandwidth="5B/s")'
    expected = {f"box{b}.gpu{i}--box{b}.gpu{j}": 7 for b in range(2) for i, j in combinations(range(3), 2)}
    expected |= {f"box{b}.gpu{i}--ib0": 5 for b in range(2) for i in range(3)}
    assert cabled(parse(text)) == expected
    assert parse(text).name == text
    text = 'dgx1_v100(nvlink_bandwidth="3B/s")'
    single = ("01", "02", "13", "26", "37", "45", "46", "57")
    doubled = ("03", "04", "12", "15", "23", "47", "56", "67")
    expected = {f"box0.gpu{pair[0]}--box0.gpu{pair[1]}": 3 for pair in single}
    expected |= {f"box0.gpu{pair[0]}--box0.gpu{pair[1]}": 6 for pair in doubled}
    assert cabled(parse(text)) == expected
    assert parse(text).name == text
    text = 'mi250(2, gpus_per_box=8, fabric_bandwidth="3B/s", nic_bandwidth="5B/s")'
    links = {
        "01": 4,
        "04": 2,
        "15": 1,
        "23": 4,
        "26": 1,
        "37": 2,
        "45": 4,
        "46": 1,
        "56": 1,
        "57": 1,
        "67": 4,
    }
    expected = {f"box{b}.gpu{p[0]}--box{b}.gpu{p[1]}": 3 * n for b in range(2) for p, n in links.items()}
    expected |= {f"box{b}.gpu{i}--ib0": 5 for b in range(2) for i in range(8)}
    assert cabled(parse(text)) == expected
    assert parse(text).name == text


def test_leaf_spine_and_fat_tree_cable_by_cable() -> None:
    text = 'leaf_spine(3, 2, gpus_per_leaf=5, oversubscription=3, nic_bandwidth="10B/s")'
    expected = {f"leaf{i}.gpu{j}--leaf{i}": 10 for i in range(3) for j in range(5)}
    expected |= {f"leaf{i}--spine{j}": 8 for i in range(3) for j in range(2)}  # 50 / 6, rounded down
    assert cabled(parse(text)) == expected
    assert parse(text).name == text
    text = 'fat_tree(4, bandwidth="3B/s")'
    expected = {f"pod{p}.agg{i}--core{2 * i + j}": 3 for p in range(4) for i in range(2) for j in range(2)}
    expected |= {f"pod{p}.edge{i}--pod{p}.agg{j}": 3 for p in range(4) for i in range(2) for j in range(2)}
    expected |= {
        f"pod{p}.edge{i}.gpu{j}--pod{p}.edge{i}": 3 for p in range(4) for i in range(2) for j in range(2)
    }
    assert cabled(parse(text)) == expected
    assert parse(text).name == text


def test_rails_and_pods_cable_by_cable() -> None:
    keys = 'oversubscription=2, nvlink_bandwidth="7B/s", nic_bandwidth="11B/s"'
    text = f"rail_optimized(3, gpus_per_box=5, spines=2, {keys})"
    expected = {f"box{b}.gpu{i}--box{b}.nvswitch": 7 for b in range(3) for i in range(5)}
    expected |= {f"box{b}.gpu{i}--rail{i}": 11 for b in range(3) for i in range(5)}
    expected |= {f"rail{i}--spine{j}": 8 for i in range(5) for j in range(2)}  # 33 / 4
    assert cabled(parse(text)) == expected
    assert parse(text).name == text
    text = f"pods(2, 3, gpus_per_box=5, {keys})"
    expected = {f"box{b}.gpu{i}--box{b}.nvswitch": 7 for b in range(6) for i in range(5)}
    expected |= {f"box{b}.gpu{i}--leaf{b // 3}": 11 for b in range(6) for i in range(5)}
    expected |= {f"leaf{p}--spine0": 82 for p in range(2)}  # 165 / 2
    assert cabled(parse(text)) == expected
    assert parse(text).name == text


SIGNATURES = """
dgx_a100(boxes, gpus_per_box=8, *, pcie=False, nvlink_bandwidth="300GB/s", nic_bandwidth="25GB/s", pcie_bandwidth="32GB/s")
dgx_a100_flat(boxes, gpus_per_box=8, *, nvlink_bandwidth="300GB/s", nic_bandwidth="25GB/s")
dgx_h100(boxes, gpus_per_box=8, *, nvls=False, sharp=False, nvlink_bandwidth="450GB/s", nic_bandwidth="50GB/s")
dgx_b200(boxes, gpus_per_box=8, *, nvls=False, sharp=False, nvlink_bandwidth="900GB/s", nic_bandwidth="50GB/s")
gb200_nvl72(racks, gpus_per_rack=72, *, nvls=False, sharp=False, nvlink_bandwidth="900GB/s", nic_bandwidth="50GB/s")
dgx1_v100(*, nvlink_bandwidth="25GB/s")
mi250(boxes, gpus_per_box=16, *, fabric_bandwidth="50GB/s", nic_bandwidth="16GB/s")
mi300x(boxes, gpus_per_box=8, *, fabric_bandwidth="64GB/s", nic_bandwidth="50GB/s")
leaf_spine(leaves, spines, *, gpus_per_leaf=8, oversubscription=1, nic_bandwidth="50GB/s")
fat_tree(k, *, bandwidth="50GB/s")
rail_optimized(boxes, gpus_per_box=8, *, spines=0, oversubscription=1, nvlink_bandwidth="450GB/s", nic_bandwidth="50GB/s")
pods(n_pods, boxes_per_pod, *, gpus_per_box=8, oversubscription=1, nvlink_bandwidth="450GB/s", nic_bandwidth="50GB/s")
ring(n, *, bidirectional=True, bandwidth="1B/s", latency="0ns")
torus(*dims, bandwidth="1B/s", latency="0ns")
shifted_ring(n, stride=0, *, bandwidth="1B/s", latency="0ns")
jellyfish(n, d, *, seed=0, bandwidth="1B/s", latency="0ns")
punctured(topology, *, links=0, nodes=0, seed=0)
line_graph(topology, n=1)
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda text: text.partition("(")[0])
def test_defaults_are_those_of_the_sources(signature: str) -> None:
    name = signature.partition("(")[0]
    assert call_signature(catalogue()[name]) == signature


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_links_are_plain_by_default(name: str) -> None:
    words = inspect.signature(catalogue()[name]).parameters
    graphs = name not in {line.partition("(")[0] for line in SIGNATURES[:11]}
    for key, value in (("bandwidth", 1), ("latency", 0), ("seed", 0)):
        if graphs and key in words and words[key].default is not inspect.Parameter.empty:
            assert words[key].default == (0 if name.startswith("with_") else value)
