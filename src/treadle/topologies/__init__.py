"""Fabrics as values: catalogue, files, transforms."""

from treadle.topologies.clusters import fat_tree, leaf_spine, pods, rail_optimized
from treadle.topologies.expressions import CatalogueEntry, catalogue, catalogue_entries, parse
from treadle.topologies.files import (
    dump_topology,
    load_topology,
    save_topology,
    topology_from_json,
    topology_hash,
    topology_to_json,
)
from treadle.topologies.graphs import complete, hypercube, mesh, path, ring, star, torus
from treadle.topologies.platforms import (
    dgx1_v100,
    dgx_a100,
    dgx_a100_flat,
    dgx_h100,
    gb200_nvl72,
    mi250,
    mi300x,
)
from treadle.topologies.properties import (
    are_ranks_connected,
    has_switches,
    has_uniform_links,
    is_eulerian,
    is_regular,
    is_symmetric,
    non_eulerian_nodes,
    unreachable_pair,
)
from treadle.topologies.topology import MAX_BANDWIDTH, Topology, TopologyBuilder
from treadle.topologies.transforms import subset, trimmed, with_failed_links, with_failed_nodes

__all__ = [
    "MAX_BANDWIDTH",
    "CatalogueEntry",
    "Topology",
    "TopologyBuilder",
    "are_ranks_connected",
    "catalogue",
    "catalogue_entries",
    "complete",
    "dgx1_v100",
    "dgx_a100",
    "dgx_a100_flat",
    "dgx_h100",
    "dump_topology",
    "fat_tree",
    "gb200_nvl72",
    "has_switches",
    "has_uniform_links",
    "hypercube",
    "is_eulerian",
    "is_regular",
    "is_symmetric",
    "leaf_spine",
    "load_topology",
    "mesh",
    "mi250",
    "mi300x",
    "non_eulerian_nodes",
    "parse",
    "path",
    "pods",
    "rail_optimized",
    "ring",
    "save_topology",
    "star",
    "subset",
    "topology_from_json",
    "topology_hash",
    "topology_to_json",
    "torus",
    "trimmed",
    "unreachable_pair",
    "with_failed_links",
    "with_failed_nodes",
]
