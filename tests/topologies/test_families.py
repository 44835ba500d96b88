"""Fabrics by node and link families: what they build, their classes, and their JSON."""

import json
from itertools import product

import numpy as np
import pytest

from treadle.errors import FormatError
from treadle.topologies import dump_topology, parse, topology_hash
from treadle.topologies.catalogue.clusters import fat_tree, leaf_spine, pods
from treadle.topologies.catalogue.platforms import dgx_h100
from treadle.topologies.families import Each, Families, LinkFamily, NodeFamily, families_of
from treadle.topologies.family_files import dump_families
from treadle.topologies.files import parse_topology_file
from treadle.topologies.transforms.failures import without_failures

BY_FAMILIES = (dgx_h100(3), fat_tree(4), leaf_spine(3, 2, gpus_per_leaf=2), pods(2, 3, gpus_per_box=2))


@pytest.mark.parametrize("fabric", BY_FAMILIES, ids=lambda fabric: fabric.name)
def test_every_permutation_of_an_index_is_an_automorphism(fabric) -> None:
    families = families_of(fabric)
    links = sorted(zip(fabric.tails.tolist(), fabric.heads.tolist(), fabric.bandwidths.tolist(), strict=True))
    for index, size in families.sizes.items():
        image = np.arange(fabric.n_nodes)
        for family, places in families.node_positions().items():
            if index in family.indices:
                image[places] = np.roll(places, 1, axis=family.indices.index(index))
        assert size == 1 or (image != np.arange(fabric.n_nodes)).any()
        assert (fabric.is_compute[image] == fabric.is_compute).all()
        tails, heads = image[fabric.tails].tolist(), image[fabric.heads].tolist()
        assert sorted(zip(tails, heads, fabric.bandwidths.tolist(), strict=True)) == links


@pytest.mark.parametrize("fabric", BY_FAMILIES, ids=lambda fabric: fabric.name)
def test_classes_count_nodes_and_links_of_the_fabric(fabric) -> None:
    families = families_of(fabric)
    classes = families.classes({index: [1, n - 1] if n > 1 else [1] for index, n in families.sizes.items()})
    of_node = np.empty(fabric.n_nodes, dtype=int)
    for number, (family, choice) in enumerate(classes.members):
        places = families.node_positions()[family]
        for values in product(*map(range, places.shape)):
            if tuple(int(value > 0) for value in values) == choice:
                of_node[places[values]] = number
    assert np.bincount(of_node).tolist() == classes.size
    found = np.zeros((len(classes.size),) * 2, dtype=int)
    np.add.at(found, (of_node[fabric.tails], of_node[fabric.heads]), 1)
    expected = np.zeros_like(found)
    np.add.at(expected, (classes.tails, classes.heads), classes.links)
    assert (found == expected).all()


def test_the_description_belongs_to_the_very_fabric() -> None:
    assert families_of(parse("dgx_h100:3")) is not None
    assert families_of(without_failures(parse("dgx_h100:3"), "box0.gpu1")) is None
    assert families_of(parse("dgx_h100:3").transpose()) is None


@pytest.mark.parametrize("fabric", BY_FAMILIES, ids=lambda fabric: fabric.name)
def test_families_round_trip_as_json(fabric) -> None:
    text = dump_families(fabric.name, families_of(fabric))
    charged = []
    read = parse_topology_file(text, charge=charged.append)
    assert (read, read.name, topology_hash(read)) == (fabric, fabric.name, topology_hash(fabric))
    assert dump_topology(read) == dump_topology(fabric)
    assert families_of(read) == families_of(fabric)
    assert charged[0] > 300 * fabric.n_nodes


GPU, SWITCH = {"name": "g{i}", "kind": "compute"}, {"name": "s", "kind": "switch"}
LINK = {"ends": ["g{i}", "s"], "bandwidth_bytes_per_s": 5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": {"i": 2**22}}, "expected 1 to 2097152"),
        ({"sizes": {"j": 2}}, "no index is called 'i'"),
        ({"sizes": {"i": 2**21}}, "nodes, expected at most"),
        ({"nodes": [GPU, SWITCH, GPU]}, "named twice"),
        ({"nodes": [{**GPU, "name": "g{i}{i}"}, SWITCH]}, "appears twice"),
        ({"nodes": [{**GPU, "name": "g{i"}, SWITCH]}, "families"),
        ({"nodes": [{**GPU, "name": "g{i!r}"}, SWITCH]}, "nothing else"),
        ({"nodes": [{**GPU, "name": "g{i.real}"}, SWITCH]}, "no index is called"),
        ({"nodes": [GPU, {"name": "s"}]}, "name and kind"),
        ({"nodes": [{"each": ["i"], "parts": [GPU, SWITCH]}]}, "lacks an index"),
        ({"nodes": [{"each": [], "parts": [GPU]}, SWITCH]}, "an index and a part"),
        ({"nodes": [{"each": ["i"], "parts": [{"each": ["i"], "parts": [GPU]}]}, SWITCH]}, "appears twice"),
        ({"nodes": [GPU, SWITCH] * 40}, "at most 64 parts"),
        ({"nodes": [GPU, SWITCH, {**SWITCH, "name": "g0"}]}, "unique"),
        ({"links": [{**LINK, "ends": ["g{i}", "t"]}]}, "no node family is called 't'"),
        ({"links": [{"ends": ["g{i}", "s"]}]}, "ends and bandwidth"),
        ({"nodes": [{**GPU, "kind": "gpu"}, SWITCH]}, 'expected "compute" or "switch"'),
        ({"sizes": dict.fromkeys("abcdefghi", 2)}, "9 indices, expected at most 8"),
        ({"links": [GPU]}, "ends and bandwidth"),
        ({"nodes": [GPU, SWITCH], "links": []}, "has no link"),
    ],
)
def test_bad_families_are_one_line_errors(change, message) -> None:
    families = {"sizes": {"i": 3}, "nodes": [GPU, SWITCH], "links": [LINK], **change}
    file = {"treadle": "topology", "version": 2, "name": "x", "families": families}
    with pytest.raises(FormatError, match=message) as caught:
        parse_topology_file(json.dumps(file), source="x.json")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("x.json")


@pytest.mark.parametrize("layout", [{"indent": 1}, {"separators": (",", ":")}])
def test_layout_of_the_text_does_not_matter(layout) -> None:
    families = {"links": [LINK], "nodes": [GPU, SWITCH], "sizes": {"i": 3, "unused": 2**21}}
    file = {"families": families, "name": "x", "version": 2, "treadle": "topology"}
    read = parse_topology_file(json.dumps(file, **layout))
    assert (read.n_nodes, families_of(read).indices) == (4, {"i": 3})


def test_parts_are_numbered_together_for_each_value() -> None:
    gpu, switch = NodeFamily("b{box}.g{gpu}", is_compute=True), NodeFamily("b{box}.s", able=("multicast",))
    families = Families(
        {"box": 2, "gpu": 2},
        nodes=(Each(("box",), (gpu, switch)),),
        links=(Each(("box",), (LinkFamily(gpu, switch, 7),)),),
    )
    built = families.build("two")
    assert built.node_names == ("b0.g0", "b0.g1", "b0.s", "b1.g0", "b1.g1", "b1.s")
    assert built.multicast.tolist() == [False, False, True] * 2
    assert built.tails.tolist() == [0, 2, 1, 2, 3, 5, 4, 5]
    assert built.heads.tolist() == [2, 0, 2, 1, 5, 3, 5, 4]
