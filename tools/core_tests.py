"""Tests that run every function of the compiled core: for sanitizers, and for faults planted in it."""

from __future__ import annotations

CORE_TESTS = tuple(
    f"tests/{name}.py"
    for name in (
        *("synthesis/test_cut_search", "synthesis/test_hops", "synthesis/test_vertex_matching"),
        *("synthesis/test_packers", "synthesis/test_shortest_trees", "synthesis/test_regrowth"),
        *("synthesis/test_relayed_stars", "synthesis/test_plane_shares", "synthesis/test_local_search"),
        *("synthesis/test_gathering", "synthesis/test_height_first", "synthesis/test_tree_units"),
        *("synthesis/test_path_dealing", "synthesis/test_relay_planes", "synthesis/test_bfb_value"),
        *("synthesis/test_bfb_orbit", "synthesis/test_bfb_discrete", "synthesis/test_bfb_schedule"),
        *("synthesis/test_bfb_heterogeneous", "synthesis/test_alltoall_chunk_moves"),
        *("synthesis/test_alltoall_quick_routes", "synthesis/test_alltoall_layers"),
        *("synthesis/test_alltoall_exact_random", "synthesis/test_alltoall_rate_flow"),
        *("synthesis/test_engine", "synthesis/test_forestcoll_exact", "synthesis/test_allreduce_random"),
        *("simulation/test_simulate_messages", "simulation/test_in_network"),
    )
)
