"""Fabrics as values: catalogue, files, transforms."""

from typing import TYPE_CHECKING

from treadle.topologies.catalogue.cayley import (
    CayleyGraph,
    abelian_cayley,
    cayley_graph,
    cayley_graph_of,
    dihedral_cayley,
    extension_cayley,
    metacyclic_cayley,
    plane_cayley,
)
from treadle.topologies.catalogue.circulants import circulant, directed_circulant
from treadle.topologies.catalogue.clusters import fat_tree, leaf_spine, pods, rail_optimized
from treadle.topologies.catalogue.distance_regular import (
    affine_plane,
    crown,
    distance_regular,
    doubled_odd_graph,
    generalized_hexagon,
    generalized_quadrangle,
    heawood_distance_3,
    heawood_line,
    octahedron,
    odd_graph,
    paley,
    petersen_line,
    projective_plane,
    tutte_8_cage_line,
    tutte_12_cage_line,
)
from treadle.topologies.catalogue.graphs import (
    complete,
    complete_bipartite,
    hamming,
    hypercube,
    mesh,
    path,
    ring,
    star,
    torus,
)
from treadle.topologies.catalogue.kautz import (
    de_bruijn,
    diamond,
    generalized_kautz,
    kautz,
    modified_de_bruijn,
)
from treadle.topologies.catalogue.low_diameter import dragonfly, slimfly
from treadle.topologies.catalogue.platform_table import platform
from treadle.topologies.catalogue.platforms import (
    dgx1_v100,
    dgx_a100,
    dgx_a100_flat,
    dgx_h100,
    gb200_nvl72,
    mi250,
    mi300x,
)
from treadle.topologies.catalogue.random_graphs import jellyfish, punctured, random_regular_digraph, xpander
from treadle.topologies.catalogue.rings import bi_ring, double_binary_tree, shifted_ring, uni_ring
from treadle.topologies.catalogue.twisted import twisted_hypercube, twisted_torus
from treadle.topologies.distances import (
    all_to_all_bound,
    diameter,
    distance_distribution,
    distance_matrix,
    eccentricities,
    mean_distance,
)
from treadle.topologies.expressions import parse
from treadle.topologies.files import (
    dump_topology,
    load_topology,
    save_topology,
    topology_from_json,
    topology_hash,
)
from treadle.topologies.intersection_arrays import IntersectionArray, intersection_array
from treadle.topologies.moore import (
    all_to_all_limit,
    bandwidth_optimum,
    ideal_distribution,
    is_moore_optimal,
    least_mean_distance,
    moore_bound,
    moore_steps,
)
from treadle.topologies.properties import (
    are_ranks_connected,
    has_switches,
    has_uniform_links,
    is_eulerian,
    is_regular,
    is_symmetric,
    non_eulerian_nodes,
    reached,
    unreachable_pair,
)
from treadle.topologies.registry import CatalogueEntry, catalogue, catalogue_entries
from treadle.topologies.topology import MAX_BANDWIDTH, Topology, TopologyBuilder
from treadle.topologies.transforms.changes import (
    subset,
    trimmed,
    with_bandwidths,
    with_failed_links,
    with_failed_nodes,
    with_links,
    with_parallel_links,
    with_reverse_links,
)
from treadle.topologies.transforms.expansions import (
    cartesian_power,
    cartesian_product,
    degree_expansion,
    disjoint_copies,
    line_graph,
    with_axes_ordered,
    with_nodes_ordered,
)
from treadle.topologies.transforms.failures import without_failures
from treadle.topologies.transforms.host_bottleneck import with_host_bottleneck
from treadle.topologies.transforms.insertions import (
    with_deleted_nodes,
    with_exchanged_heads,
    with_inserted_nodes,
)
from treadle.topologies.typed_quantities import takes_quantities, with_units

if TYPE_CHECKING:
    from treadle.topologies.readers.graphs.networkx_graphs import from_networkx as from_networkx

__all__ = [
    "MAX_BANDWIDTH",
    "CatalogueEntry",
    "CayleyGraph",
    "IntersectionArray",
    "Topology",
    "TopologyBuilder",
    "abelian_cayley",
    "affine_plane",
    "all_to_all_bound",
    "all_to_all_limit",
    "are_ranks_connected",
    "bandwidth_optimum",
    "bi_ring",
    "cartesian_power",
    "cartesian_product",
    "catalogue",
    "catalogue_entries",
    "cayley_graph",
    "cayley_graph_of",
    "circulant",
    "complete",
    "complete_bipartite",
    "crown",
    "de_bruijn",
    "degree_expansion",
    "dgx1_v100",
    "dgx_a100",
    "dgx_a100_flat",
    "dgx_h100",
    "diameter",
    "diamond",
    "dihedral_cayley",
    "directed_circulant",
    "disjoint_copies",
    "distance_distribution",
    "distance_matrix",
    "distance_regular",
    "double_binary_tree",
    "doubled_odd_graph",
    "dragonfly",
    "dump_topology",
    "eccentricities",
    "extension_cayley",
    "fat_tree",
    "from_networkx",
    "gb200_nvl72",
    "generalized_hexagon",
    "generalized_kautz",
    "generalized_quadrangle",
    "hamming",
    "has_switches",
    "has_uniform_links",
    "heawood_distance_3",
    "heawood_line",
    "hypercube",
    "ideal_distribution",
    "intersection_array",
    "is_eulerian",
    "is_moore_optimal",
    "is_regular",
    "is_symmetric",
    "jellyfish",
    "kautz",
    "leaf_spine",
    "least_mean_distance",
    "line_graph",
    "load_topology",
    "mean_distance",
    "mesh",
    "metacyclic_cayley",
    "mi250",
    "mi300x",
    "modified_de_bruijn",
    "moore_bound",
    "moore_steps",
    "non_eulerian_nodes",
    "octahedron",
    "odd_graph",
    "paley",
    "parse",
    "path",
    "petersen_line",
    "plane_cayley",
    "platform",
    "pods",
    "projective_plane",
    "punctured",
    "rail_optimized",
    "random_regular_digraph",
    "reached",
    "ring",
    "save_topology",
    "shifted_ring",
    "slimfly",
    "star",
    "subset",
    "topology_from_json",
    "topology_hash",
    "torus",
    "trimmed",
    "tutte_8_cage_line",
    "tutte_12_cage_line",
    "twisted_hypercube",
    "twisted_torus",
    "uni_ring",
    "unreachable_pair",
    "with_axes_ordered",
    "with_bandwidths",
    "with_deleted_nodes",
    "with_exchanged_heads",
    "with_failed_links",
    "with_failed_nodes",
    "with_host_bottleneck",
    "with_inserted_nodes",
    "with_links",
    "with_nodes_ordered",
    "with_parallel_links",
    "with_reverse_links",
    "without_failures",
    "xpander",
]

for _name in sorted({*__all__} - {"from_networkx"}):
    if takes_quantities(globals()[_name]):
        globals()[_name] = with_units(globals()[_name])


def __getattr__(name: str) -> object:
    if name != "from_networkx":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from treadle.topologies.readers.graphs.networkx_graphs import from_networkx  # here, as readers are many

    return from_networkx
