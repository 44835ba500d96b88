"""Tests that run every function of the compiled core: for sanitizers, and for faults planted in it."""

from __future__ import annotations

_FILES = (
    "cli/test_values",
    "finder/searches/test_abelian_search",
    "finder/searches/test_multicirculant_search",
    "finder/searches/test_neighbours",
    "finder/test_rank_order",
    "planning/building/test_placement",
    "program/test_in_network",
    "simulation/test_simulate_messages",
    "synthesis/alltoall/rate/test_alltoall_exact_random",
    "synthesis/alltoall/rate/test_alltoall_rate",
    "synthesis/alltoall/rate/test_priced_routing",
    "synthesis/alltoall/routes/test_alltoall_layers",
    "synthesis/alltoall/routes/test_up_down_orders",
    "synthesis/alltoall/searched/test_searched_routes",
    "synthesis/alltoall/steps/test_hop_steps",
    "synthesis/steps/bfb/test_bfb_conditions",
    "synthesis/steps/bfb/test_bfb_heterogeneous",
    "synthesis/steps/bfb/test_bfb_orbit",
    "synthesis/steps/bfb/test_bfb_schedule",
    "synthesis/steps/bfb/test_bfb_value",
    "synthesis/test_engine",
    "synthesis/trees/packers/test_height_first",
    "synthesis/trees/packers/test_packers",
    "synthesis/trees/packers/test_regrowth",
    "synthesis/trees/packers/test_shortest_trees",
    "synthesis/trees/packers/test_vertex_matching",
    "synthesis/trees/test_cut_search",
    "synthesis/trees/test_forestcoll_exact",
    "synthesis/trees/tight_cuts/test_plane_shares",
    "synthesis/trees/tight_cuts/test_even_planes",
    "synthesis/trees/tight_cuts/test_relayed_stars",
)
_OF_A_FILE = {
    # its unbalanced switches take two minutes under sanitizers, and call nothing that these do not
    "synthesis/trees/allreduce/test_allreduce_random": (
        "test_symmetric_fabrics",
        "test_asymmetric_fabrics_with_switches",
        "test_digraphs",
        "test_capable_switches_on_asymmetric_fabrics",
        "test_huge_and_odd_bandwidths_stay_exact",
    ),
}

CORE_TESTS = (
    *(f"tests/{name}.py" for name in _FILES),
    *(f"tests/{name}.py::{test}" for name, tests in _OF_A_FILE.items() for test in tests),
)
