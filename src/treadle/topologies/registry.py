"""The catalogue: which functions the expression language knows, in the groups in which it lists them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from treadle.brief import brief
from treadle.errors import TopologyError
from treadle.notebook import displayed
from treadle.topologies.catalogue import platforms as _own_platforms  # noqa: F401  declares them
from treadle.topologies.catalogue.cayley import (
    abelian_cayley,
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
from treadle.topologies.catalogue.multicirculants import directed_multicirculant, multicirculant
from treadle.topologies.catalogue.platform_table import Catalogue, Platform, platforms, plug_ins, plugged
from treadle.topologies.catalogue.random_graphs import (
    jellyfish,
    punctured,
    random_regular_digraph,
    xpander,
)
from treadle.topologies.catalogue.rings import bi_ring, double_binary_tree, shifted_ring, uni_ring
from treadle.topologies.catalogue.twisted import twisted_hypercube, twisted_torus
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import (
    subset,
    trimmed,
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
from treadle.topologies.transforms.host_bottleneck import with_host_bottleneck
from treadle.topologies.transforms.insertions import (
    with_deleted_nodes,
    with_exchanged_heads,
    with_inserted_nodes,
)
from treadle.units import format_link_bandwidth

_PLATFORMS = tuple(one.function for one in platforms().values())
_GROUPS: tuple[tuple[str, tuple[Callable[..., Topology], ...]], ...] = (
    ("clusters", (leaf_spine, fat_tree, rail_optimized, pods)),
    ("graphs", (ring, path, star, complete, complete_bipartite, torus, mesh, hypercube, hamming)),
    (
        "direct-connect graphs",
        (
            *(kautz, generalized_kautz, de_bruijn, modified_de_bruijn, diamond),
            *(circulant, directed_circulant, multicirculant, directed_multicirculant),
            *(twisted_torus, twisted_hypercube, uni_ring, bi_ring, shifted_ring, double_binary_tree),
        ),
    ),
    (
        "distance-regular graphs",
        (
            *(distance_regular, octahedron, paley, crown, heawood_distance_3, petersen_line, heawood_line),
            *(projective_plane, affine_plane, generalized_quadrangle, generalized_hexagon),
            *(odd_graph, doubled_odd_graph, tutte_8_cage_line, tutte_12_cage_line),
        ),
    ),
    ("low-diameter networks", (slimfly, dragonfly)),
    ("Cayley graphs", (abelian_cayley, metacyclic_cayley, dihedral_cayley, plane_cayley, extension_cayley)),
    ("random graphs", (jellyfish, random_regular_digraph, xpander)),
    (
        "expansions",
        (
            *(line_graph, degree_expansion, cartesian_power, cartesian_product, disjoint_copies),
            *(with_axes_ordered, with_nodes_ordered),
        ),
    ),
    (
        "transforms",
        (
            *(with_failed_links, with_failed_nodes, punctured, subset, trimmed, with_parallel_links),
            *(with_reverse_links, with_links, with_inserted_nodes, with_deleted_nodes, with_exchanged_heads),
            with_host_bottleneck,
        ),
    ),
)
_FUNCTIONS = (*_PLATFORMS, *(function for _, functions in _GROUPS for function in functions))
_CATALOGUE = Catalogue({function.__name__: function for function in _FUNCTIONS})


@displayed(lambda entry: [entry.signature, entry.group, entry.summary])
@brief("name", "group", "summary")
@dataclass(frozen=True)
class CatalogueEntry:
    """One name of the expression language.

    Parameters
    ----------
    name, group : str
        The function's name; its group, such as ``platforms`` or ``direct-connect graphs``.
    signature, summary : str
        Call with defaults; first line of the function's documentation.
    """

    name: str
    group: str
    signature: str
    summary: str


def catalogue() -> Mapping[str, Callable[..., Topology]]:
    """Return the name of each function of the expression language -> the function."""
    return _CATALOGUE


def all_platforms() -> tuple[Platform, ...]:
    """Return platforms, those of plug-ins that can be loaded too."""
    for name in plug_ins():
        with suppress(TopologyError):  # reported where that name is typed
            plugged(name)
    return tuple(platforms().values())


def catalogue_entries() -> tuple[CatalogueEntry, ...]:
    """Describe the catalogue for people, group by group."""
    groups = (("platforms", tuple(one.function for one in all_platforms())), *_GROUPS)
    found = []
    for group, function in ((group, function) for group, functions in groups for function in functions):
        summary = (inspect.getdoc(function) or "").partition("\n")[0]
        found.append(CatalogueEntry(function.__name__, group, call_signature(function), summary))
    return tuple(found)


def call_signature(function: Callable[..., Topology]) -> str:
    """Return a call with names and defaults, without types: how the catalogue shows a function."""
    words: list[str] = []
    keyword_only = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(word.startswith("*") for word in words):
                words.append("*")
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = f"={parameter.default!r}"
        if parameter.default is parameter.empty:
            default = ""
        elif parameter.name.endswith("bandwidth"):
            default = f'="{format_link_bandwidth(parameter.default).replace(" ", "")}"'
        elif parameter.name == "latency":
            default = f'="{parameter.default}ns"'
        words.append(f"{star}{parameter.name}{default}")
    return f"{function.__name__}({', '.join(words)})"
