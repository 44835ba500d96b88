"""Tests that run every function of the compiled core: for sanitizers, and for faults planted in it."""

from __future__ import annotations

CORE_TESTS = tuple(
    f"tests/{name}.py"
    for name in (
        *(
            "synthesis/trees/test_cut_search",
            "synthesis/trees/packers/test_hops",
            "synthesis/trees/packers/test_vertex_matching",
        ),
        *(
            "synthesis/trees/packers/test_packers",
            "synthesis/trees/packers/test_shortest_trees",
            "synthesis/trees/packers/test_regrowth",
        ),
        *(
            "synthesis/trees/tight_cuts/test_relayed_stars",
            "synthesis/trees/tight_cuts/test_plane_shares",
            "synthesis/trees/packers/test_local_search",
        ),
        *(
            "synthesis/trees/packers/test_gathering",
            "synthesis/trees/packers/test_height_first",
            "synthesis/trees/test_tree_units",
        ),
        *(
            "synthesis/trees/packers/test_path_dealing",
            "synthesis/trees/tight_cuts/test_relay_planes",
            "synthesis/steps/bfb/test_bfb_value",
        ),
        *(
            "synthesis/steps/bfb/test_bfb_orbit",
            "synthesis/steps/bfb/test_bfb_discrete",
            "synthesis/steps/bfb/test_bfb_schedule",
        ),
        *(
            "synthesis/steps/bfb/test_bfb_heterogeneous",
            "synthesis/alltoall/routes/test_alltoall_chunk_moves",
        ),
        *(
            "synthesis/alltoall/routes/test_alltoall_quick_routes",
            "synthesis/alltoall/routes/test_alltoall_layers",
        ),
        *(
            "synthesis/alltoall/rate/test_alltoall_exact_random",
            "synthesis/alltoall/rate/test_alltoall_rate_flow",
        ),
        *(
            "synthesis/test_engine",
            "synthesis/trees/test_forestcoll_exact",
            "synthesis/trees/allreduce/test_allreduce_random",
        ),
        *("simulation/test_simulate_messages", "simulation/test_in_network"),
    )
)
