"""The tables and figures of the dissertation: chapters 3 and 4, appendices A and B."""

from __future__ import annotations

from treadle.reproduction.paper_figure import computed, no_figures, simulated

_HERE = "treadle.reproduction"
_BOXES, _EXPANSIONS = f"{_HERE}.box_tables", f"{_HERE}.expansion_tables"
_GRAPHS, _FINDER = f"{_HERE}.graph_tables", f"{_HERE}.finder_figures"
_CURVES, _TIMES = f"{_HERE}.simulated_curves", f"{_HERE}.generation_times"

_HOW = "cut-through, links in slice order, best of 1 to 64 slices"
SIMULATOR = f"message simulator (pipelined latencies of 10 us, {_HOW})"
_TESTBED = f"message simulator (pipelined latencies of 13.33 us, {_HOW}; 21.6 us more, links of 79/4 Gbit/s)"
_SECONDS = "CPU seconds (one thread of this machine)"
_STEPS = "simulated steps"


_CHAPTER_3 = (
    no_figures("table-3.1", "notation", reason="a list of symbols"),
    computed(
        "figure-3.1",
        "the allgather of K2,2",
        f"{_EXPANSIONS}:figure_3_1",
        "treadle solve complete_bipartite:2,2 allgather --algorithm bfb",
    ),
    no_figures("table-3.2", "low-hop against load-balanced graphs", reason="ticks; table-3.4 has figures"),
    computed(
        "figure-3.2",
        "K2,2 and its line graph",
        f"{_EXPANSIONS}:figure_3_2",
        "treadle topology show 'line_graph(complete_bipartite(2, 2))'",
    ),
    computed(
        "figure-3.3",
        "line graphs of optimal bases of degree 4",
        f"{_EXPANSIONS}:figure_3_3",
        full=(2.5, "L^3 and L^4, of up to 2304 nodes"),
    ),
    computed("figure-3.4", "a ring expanded to degree 2", f"{_EXPANSIONS}:figure_3_4"),
    computed("table-3.3", "what expansions preserve", f"{_EXPANSIONS}:table_3_3"),
    computed(
        "table-3.4",
        "Pareto-efficient topologies of 1024 nodes",
        f"{_EXPANSIONS}:table_3_4",
        "treadle design --nodes 1024 --degree 4",
        quick_s=27,
    ),
    no_figures("figure-3.5", "a step of breadth-first broadcast", reason="an illustration"),
    computed(
        "table-3.5",
        "the best topologies of 5 to 12 nodes",
        f"{_EXPANSIONS}:table_3_5",
        "treadle solve hamming:2,3 allreduce --algorithm bfb",
    ),
    simulated("figure-3.6", "allreduce on the testbed", f"{_CURVES}:figure_3_6", model=_TESTBED, quick_s=1),
    computed(
        "figure-3.7",
        "allreduce and all-to-all at large N",
        f"{_FINDER}:figure_3_7",
        quick_s=2.5,
        full=(9, "flows on generalized Kautz graphs"),
        model="alpha-beta model (section 3.3.2; all-to-alls by bounds)",
    ),
    simulated(
        "figure-3.8",
        "data-parallel training on the testbed",
        f"{_HERE}.testbed_training:figure_3_8",
        model=f"{_STEPS} (roofline at 0.3 of the tf32 peak; alpha-beta model of A.1.2; buckets of 25 MiB)",
        quick_s=0.5,
    ),
    simulated(
        "figure-3.9",
        "simulated expert-parallel training",
        f"{_HERE}.expert_training:figure_3_9",
        model=f"{_STEPS} (roofline at 0.2 of the bf16 peak; certified all-to-all flows)",
        quick_s=5,
        full=(30, "the other rows of table A.1"),
    ),
    computed(
        "table-3.6",
        "time to generate schedules: BFB and SCCL",
        f"{_TIMES}:table_3_6",
        "treadle solve hypercube:10 allgather --algorithm bfb",
        quick_s=1,
        full=(60, "exact synthesis on 8 to 16 nodes"),
        model=_SECONDS,
    ),
    computed(
        "figure-3.10",
        "T_L and T_B of the schedules of table 3.6",
        f"{_GRAPHS}:figure_3_10",
        "treadle topology show hypercube:6",
        full=(1, "1024 and 2500 nodes"),
    ),
    simulated(
        "figure-3.11",
        "allreduce on tori of a supercomputer",
        f"{_CURVES}:figure_3_11",
        model=SIMULATOR.replace("10 us", "10 us, 25 Gbit/s links, hosts of 100 Gbit/s"),
        quick_s=0.2,
        full=(37, "means over sizes"),
    ),
)

_CHAPTER_4 = (
    computed("figure-4.1", "bandwidths of DGX A100 and MI250", f"{_BOXES}:figure_4_1"),
    computed(
        "figure-4.2",
        "how often a ring crosses InfiniBand",
        f"{_BOXES}:figure_4_2",
        "treadle compare 'dgx_a100_flat(2)' allgather",
        quick_s=0.5,
    ),
    no_figures("figure-4.3", "a tree on a switch topology", reason="an illustration"),
    no_figures("figure-4.4", "relations between collectives", reason="an illustration"),
    computed("figure-4.5", "the bottleneck cut of two boxes", f"{_BOXES}:figure_4_5"),
    no_figures("figure-4.6", "the auxiliary network", reason="an illustration of figure-4.5's optimum"),
    no_figures("figure-4.7", "switch node removal", reason="an illustration of figure-4.5's trees"),
    computed(
        "figure-4.8",
        "trees that use in-network multicast",
        f"{_BOXES}:figure_4_8",
        "treadle solve 'dgx_h100(2, nvls=True, sharp=True)' allgather --multicast",
    ),
    computed(
        "table-4.1",
        "fixed numbers of trees, 2-box MI250",
        f"{_BOXES}:table_4_1",
        "treadle solve mi250:2 allgather --trees 5",
        quick_s=3,
    ),
    computed(
        "figure-4.9",
        "2-box MI250 in both settings",
        f"{_BOXES}:figure_4_9",
        "treadle solve 'mi250(2, 8)' allgather --exact",
        quick_s=0.2,
    ),
    simulated(
        "figure-4.10",
        "MI250: ForestColl, RCCL, Blink+Switch",
        f"{_CURVES}:figure_4_10",
        "treadle compare mi250:2 allreduce",
        model=SIMULATOR,
        quick_s=1.5,
        full=(24, "means over sizes, and 16+16 GPUs"),
    ),
    simulated(
        "figure-4.11",
        "DGX A100: ForestColl and NCCL",
        f"{_CURVES}:figure_4_11",
        "treadle compare 'dgx_a100_flat(2)' allgather",
        model=SIMULATOR,
        quick_s=0.6,
        full=(2, "means over sizes"),
    ),
    simulated(
        "figure-4.12",
        "DGX H100: ForestColl and NCCL",
        f"{_CURVES}:figure_4_12",
        "treadle bound dgx_h100:16 allgather",
        model=SIMULATOR,
        quick_s=0.2,
        full=(17, "simulations of 128 GPUs"),
    ),
    simulated(
        "figure-4.13",
        "FSDP training",
        f"{_HERE}.sharded_training:figure_4_13",
        model=f"{_STEPS} (roofline at 0.65 of the bf16 peak, kappa 2, 0.88 of Treadle's rates)",
        quick_s=1,
    ),
    computed(
        "figure-4.14",
        "schedule generation at large scale",
        f"{_TIMES}:figure_4_14",
        "treadle compare mi250:8 allgather",
        quick_s=3,
        full=(31, "MultiTree and rings beyond 128 GPUs"),
        model=_SECONDS,
    ),
)

_APPENDIX_A = (
    simulated(
        "figure-A.1",
        "reduce-scatter and allgather on the testbed",
        f"{_CURVES}:figure_a_1",
        model=_TESTBED,
        quick_s=0.5,
    ),
    simulated(
        "figure-A.2",
        "cube and twisted cube",
        f"{_CURVES}:figure_a_2",
        model=_TESTBED.replace("79/4", "25"),
        quick_s=0.5,
    ),
    simulated(
        "figure-A.3",
        "regression of allreduce times",
        f"{_HERE}.regression_figure:figure_a_3",
        model="message simulator (whole messages; the printed alpha, epsilon and B; fit of "
        "`treadle calibrate`)",
        quick_s=0.7,
    ),
    computed(
        "figure-A.4",
        "the fastest construction for every N",
        f"{_FINDER}:figure_a_4",
        "treadle design --nodes 900 --degree 4",
        quick_s=1,
        full=(4, "501 to 2000 nodes"),
        model="alpha-beta model (section 3.3.2)",
    ),
    simulated(
        "figure-A.5",
        "a training timeline",
        f"{_HERE}.expert_training:figure_a_5",
        model=f"{_STEPS} (figure 3.9's at 256 nodes)",
        quick_s=1.5,
    ),
    computed(
        "figure-A.6",
        "breadth-first broadcast on rings",
        f"{_GRAPHS}:figure_a_6",
        "treadle solve bi_ring:2,6 allgather --algorithm bfb",
    ),
    computed(
        "figure-A.7",
        "generalized Kautz graphs beside the optimum",
        f"{_GRAPHS}:figure_a_7",
        "treadle topology show generalized_kautz:4,1000",
        quick_s=1,
        full=(95, "241 to 2000 nodes"),
    ),
    computed("figure-A.8", "Diamond", f"{_GRAPHS}:figure_a_8", "treadle topology show 'diamond()'"),
    computed(
        "figure-A.9",
        "a modified de Bruijn graph",
        f"{_GRAPHS}:figure_a_9",
        "treadle topology show 'modified_de_bruijn(2, 3)'",
    ),
    computed(
        "table-A.1",
        "Pareto-efficient topologies of 32 to 1024 nodes",
        f"{_EXPANSIONS}:table_a_1",
        "treadle design --nodes 256 --degree 4",
        quick_s=29,
    ),
    computed(
        "table-A.2",
        "distance-regular graphs of degree 4",
        f"{_GRAPHS}:table_a_2",
        "treadle topology show distance_regular:4,35",
    ),
    computed("table-A.3", "properties of the base graphs", f"{_GRAPHS}:table_a_3"),
)

_APPENDIX_B = (
    no_figures("table-B.1", "related work", reason="words; see docs/how-it-works/related-systems.md"),
    computed(
        "table-B.2",
        "stages of generation for 1024 GPUs",
        f"{_TIMES}:table_b_2",
        "treadle solve 'dgx_a100_flat(128)' allgather",
        quick_s=3,
        model=_SECONDS,
    ),
    computed("figure-B.1", "switches turned into rings", f"{_BOXES}:figure_b_1"),
    no_figures("figure-B.2", "stages of construction", reason="an illustration of figure-4.5's trees"),
    no_figures("figure-B.3", "the network for fixed k", reason="an illustration; table-4.1 has figures"),
)

_CHAPTER_5 = (
    computed(
        "figure-5.1",
        "an FSDP sharding pattern",
        f"{_HERE}.tensor_states:figure_5_1",
        quick_s=1.5,
        model="preset FSDP of `treadle parallelize`, 8 GPUs (needs PyTorch)",
    ),
    computed(
        "figure-5.2",
        "a compute graph",
        f"{_HERE}.tensor_states:figure_5_2",
        quick_s=1.5,
        model="graph of `treadle capture` (needs PyTorch)",
    ),
)

DISSERTATION = (*_CHAPTER_3, *_CHAPTER_4, *_CHAPTER_5, *_APPENDIX_A, *_APPENDIX_B)
