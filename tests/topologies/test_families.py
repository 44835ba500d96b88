"""Fabrics by node and link families: what they build, their classes, and their JSON."""

import json
from itertools import product

import numpy as np
import pytest

from treadle.errors import FormatError
from treadle.topologies import dump_topology, topology_hash
from treadle.topologies.catalogue.clusters import fat_tree, leaf_spine, pods
from treadle.topologies.catalogue.platforms import dgx_h100
from treadle.topologies.families import families_of
from treadle.topologies.family_files import dump_families
from treadle.topologies.files import parse_topology_file

BY_FAMILIES = (dgx_h100(3), fat_tree(4), leaf_spine(3, 2, gpus_per_leaf=2), pods(2, 3, gpus_per_box=2))


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
