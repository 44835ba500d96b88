"""Fabrics as values: catalogue, files, transforms."""

from typing import TYPE_CHECKING

from treadle.topologies.catalogue.cayley import CayleyGraph as CayleyGraph
from treadle.topologies.catalogue.cayley import abelian_cayley as abelian_cayley
from treadle.topologies.catalogue.cayley import cayley_graph as cayley_graph
from treadle.topologies.catalogue.cayley import cayley_graph_of as cayley_graph_of
from treadle.topologies.catalogue.cayley import dihedral_cayley as dihedral_cayley
from treadle.topologies.catalogue.cayley import extension_cayley as extension_cayley
from treadle.topologies.catalogue.cayley import metacyclic_cayley as metacyclic_cayley
from treadle.topologies.catalogue.cayley import plane_cayley as plane_cayley
from treadle.topologies.catalogue.circulants import circulant as circulant
from treadle.topologies.catalogue.circulants import directed_circulant as directed_circulant
from treadle.topologies.catalogue.clusters import fat_tree as fat_tree
from treadle.topologies.catalogue.clusters import leaf_spine as leaf_spine
from treadle.topologies.catalogue.clusters import pods as pods
from treadle.topologies.catalogue.clusters import rail_optimized as rail_optimized
from treadle.topologies.catalogue.distance_regular import affine_plane as affine_plane
from treadle.topologies.catalogue.distance_regular import crown as crown
from treadle.topologies.catalogue.distance_regular import distance_regular as distance_regular
from treadle.topologies.catalogue.distance_regular import doubled_odd_graph as doubled_odd_graph
from treadle.topologies.catalogue.distance_regular import generalized_hexagon as generalized_hexagon
from treadle.topologies.catalogue.distance_regular import generalized_quadrangle as generalized_quadrangle
from treadle.topologies.catalogue.distance_regular import heawood_distance_3 as heawood_distance_3
from treadle.topologies.catalogue.distance_regular import heawood_line as heawood_line
from treadle.topologies.catalogue.distance_regular import octahedron as octahedron
from treadle.topologies.catalogue.distance_regular import odd_graph as odd_graph
from treadle.topologies.catalogue.distance_regular import paley as paley
from treadle.topologies.catalogue.distance_regular import petersen_line as petersen_line
from treadle.topologies.catalogue.distance_regular import projective_plane as projective_plane
from treadle.topologies.catalogue.distance_regular import tutte_8_cage_line as tutte_8_cage_line
from treadle.topologies.catalogue.distance_regular import tutte_12_cage_line as tutte_12_cage_line
from treadle.topologies.catalogue.graphs import complete as complete
from treadle.topologies.catalogue.graphs import complete_bipartite as complete_bipartite
from treadle.topologies.catalogue.graphs import hamming as hamming
from treadle.topologies.catalogue.graphs import hypercube as hypercube
from treadle.topologies.catalogue.graphs import mesh as mesh
from treadle.topologies.catalogue.graphs import path as path
from treadle.topologies.catalogue.graphs import ring as ring
from treadle.topologies.catalogue.graphs import star as star
from treadle.topologies.catalogue.graphs import torus as torus
from treadle.topologies.catalogue.kautz import de_bruijn as de_bruijn
from treadle.topologies.catalogue.kautz import diamond as diamond
from treadle.topologies.catalogue.kautz import generalized_kautz as generalized_kautz
from treadle.topologies.catalogue.kautz import kautz as kautz
from treadle.topologies.catalogue.kautz import modified_de_bruijn as modified_de_bruijn
from treadle.topologies.catalogue.low_diameter import dragonfly as dragonfly
from treadle.topologies.catalogue.low_diameter import slimfly as slimfly
from treadle.topologies.catalogue.multicirculants import directed_multicirculant as directed_multicirculant
from treadle.topologies.catalogue.multicirculants import multicirculant as multicirculant
from treadle.topologies.catalogue.platform_table import platform as platform
from treadle.topologies.catalogue.platforms import dgx1_v100 as dgx1_v100
from treadle.topologies.catalogue.platforms import dgx_a100 as dgx_a100
from treadle.topologies.catalogue.platforms import dgx_a100_flat as dgx_a100_flat
from treadle.topologies.catalogue.platforms import dgx_b200 as dgx_b200
from treadle.topologies.catalogue.platforms import dgx_h100 as dgx_h100
from treadle.topologies.catalogue.platforms import gb200_nvl72 as gb200_nvl72
from treadle.topologies.catalogue.platforms import mi250 as mi250
from treadle.topologies.catalogue.platforms import mi300x as mi300x
from treadle.topologies.catalogue.random_graphs import jellyfish as jellyfish
from treadle.topologies.catalogue.random_graphs import punctured as punctured
from treadle.topologies.catalogue.random_graphs import random_regular_digraph as random_regular_digraph
from treadle.topologies.catalogue.random_graphs import xpander as xpander
from treadle.topologies.catalogue.rings import bi_ring as bi_ring
from treadle.topologies.catalogue.rings import double_binary_tree as double_binary_tree
from treadle.topologies.catalogue.rings import shifted_ring as shifted_ring
from treadle.topologies.catalogue.rings import uni_ring as uni_ring
from treadle.topologies.catalogue.twisted import twisted_hypercube as twisted_hypercube
from treadle.topologies.catalogue.twisted import twisted_torus as twisted_torus
from treadle.topologies.distances import all_to_all_bound as all_to_all_bound
from treadle.topologies.distances import diameter as diameter
from treadle.topologies.distances import distance_distribution as distance_distribution
from treadle.topologies.distances import distance_matrix as distance_matrix
from treadle.topologies.distances import eccentricities as eccentricities
from treadle.topologies.distances import mean_distance as mean_distance
from treadle.topologies.expressions import parse as parse
from treadle.topologies.files import dump_topology as dump_topology
from treadle.topologies.files import load_topology as load_topology
from treadle.topologies.files import save_topology as save_topology
from treadle.topologies.files import topology_from_json as topology_from_json
from treadle.topologies.files import topology_hash as topology_hash
from treadle.topologies.intersection_arrays import IntersectionArray as IntersectionArray
from treadle.topologies.intersection_arrays import intersection_array as intersection_array
from treadle.topologies.moore import all_to_all_limit as all_to_all_limit
from treadle.topologies.moore import bandwidth_optimum as bandwidth_optimum
from treadle.topologies.moore import ideal_distribution as ideal_distribution
from treadle.topologies.moore import is_moore_optimal as is_moore_optimal
from treadle.topologies.moore import least_mean_distance as least_mean_distance
from treadle.topologies.moore import moore_bound as moore_bound
from treadle.topologies.moore import moore_steps as moore_steps
from treadle.topologies.properties import are_ranks_connected as are_ranks_connected
from treadle.topologies.properties import has_switches as has_switches
from treadle.topologies.properties import has_uniform_links as has_uniform_links
from treadle.topologies.properties import is_regular as is_regular
from treadle.topologies.properties import is_symmetric as is_symmetric
from treadle.topologies.properties import non_eulerian_nodes as non_eulerian_nodes
from treadle.topologies.properties import reached as reached
from treadle.topologies.properties import unreachable_pair as unreachable_pair
from treadle.topologies.registry import CatalogueEntry as CatalogueEntry
from treadle.topologies.registry import catalogue as catalogue
from treadle.topologies.registry import catalogue_entries as catalogue_entries
from treadle.topologies.topology import MAX_BANDWIDTH as MAX_BANDWIDTH
from treadle.topologies.topology import Topology as Topology
from treadle.topologies.topology import TopologyBuilder as TopologyBuilder
from treadle.topologies.transforms.changes import subset as subset
from treadle.topologies.transforms.changes import trimmed as trimmed
from treadle.topologies.transforms.changes import with_bandwidths as with_bandwidths
from treadle.topologies.transforms.changes import with_failed_links as with_failed_links
from treadle.topologies.transforms.changes import with_failed_nodes as with_failed_nodes
from treadle.topologies.transforms.changes import with_links as with_links
from treadle.topologies.transforms.changes import with_parallel_links as with_parallel_links
from treadle.topologies.transforms.changes import with_reverse_links as with_reverse_links
from treadle.topologies.transforms.expansions import cartesian_power as cartesian_power
from treadle.topologies.transforms.expansions import cartesian_product as cartesian_product
from treadle.topologies.transforms.expansions import degree_expansion as degree_expansion
from treadle.topologies.transforms.expansions import disjoint_copies as disjoint_copies
from treadle.topologies.transforms.expansions import line_graph as line_graph
from treadle.topologies.transforms.expansions import with_axes_ordered as with_axes_ordered
from treadle.topologies.transforms.expansions import with_nodes_ordered as with_nodes_ordered
from treadle.topologies.transforms.failures import without_failures as without_failures
from treadle.topologies.transforms.host_bottleneck import with_host_bottleneck as with_host_bottleneck
from treadle.topologies.transforms.insertions import with_deleted_nodes as with_deleted_nodes
from treadle.topologies.transforms.insertions import with_exchanged_heads as with_exchanged_heads
from treadle.topologies.transforms.insertions import with_inserted_nodes as with_inserted_nodes
from treadle.topologies.typed_quantities import takes_quantities, with_units

if TYPE_CHECKING:
    from treadle.topologies.readers.graphs.networkx_graphs import from_networkx as from_networkx


for _name, _function in list(globals().items()):
    if takes_quantities(_function):
        globals()[_name] = with_units(_function)


def __getattr__(name: str) -> object:
    if name != "from_networkx":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from treadle.topologies.readers.graphs.networkx_graphs import from_networkx  # here, as readers are many

    return from_networkx
