"""Treadle's own schedulers: a record each, which names its functions; they load when they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.synthesis.scheduler import (
    Comparing,
    Scheduler,
    equal_shards,
    hosts_store,
    no_forwarders,
    no_switches,
)
from treadle.synthesis.scheduler_options import ScheduleForm

FORESTCOLL, PIPELINED, ROUTES = "forestcoll", "pipelined", "routes"
"""Default of `solve`."""

_HERE = "treadle.schedulers"
_TREES = ("trees", "max_trees", "exact", "packer", "form", "trim")
_ALLTOALL = (CollectiveKind.ALLTOALL,)
_TREE_BASELINES = "treadle.synthesis.trees.baselines"
_STEP_BASELINES = "treadle.synthesis.steps.baselines"
_EXCHANGES = "treadle.synthesis.alltoall.baselines"
_LIBRARIES = "treadle.schedulers.third_party.library_schedules"
_PEERS = "treadle.synthesis.peers"
_SIZES = "treadle.synthesis.sizes"
FEW_RANKS = f"{_SIZES}.spanning_exchanges:few_ranks"
_NOT_TOO_MANY = f"{_SIZES}.spanning_exchanges:not_too_many"
_SEVERAL_BOXES = f"{_SIZES}.spanning_exchanges:several_boxes"
_EVEN_BOXES = f"{_TREE_BASELINES}.hierarchical_ring:boxes_of_one_size"
_TORUS = f"{_STEP_BASELINES}.torus:torus_in_row_major_order"
_RINGS = f"{_STEP_BASELINES}.ring_algorithms:links_of_hamiltonian_rings"
_DIRECT = (no_switches, no_forwarders, equal_shards)
_WHOLE_FABRIC = (*_DIRECT, f"{_STEP_BASELINES}.bidirectional:all_nodes_in_order")
_EQUAL_IN_BOXES = (_NOT_TOO_MANY, equal_shards, _SEVERAL_BOXES)
_GATHERS = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)
_ALLREDUCE = (CollectiveKind.ALLREDUCE,)


def _of(form: ScheduleForm, *always: Any, **usual: Any) -> Callable[..., Scheduler]:
    """Return a constructor of schedulers with these first and named values."""
    make: Any = Scheduler
    return lambda name, *values, **more: make(name, form, *always, *values, **usual, **more)


_trees, _steps = _of(ScheduleForm.TREES), _of(ScheduleForm.STEPS)
_exchanges, _routes = _of(ScheduleForm.ALLTOALL_STEPS, _ALLTOALL), _of(ScheduleForm.ROUTES, _ALLTOALL)
_small_trees = _of(ScheduleForm.TREES, comparing=Comparing.SIZES)
_small_steps = _of(ScheduleForm.STEPS, comparing=Comparing.SIZES)
_practice_trees = _of(ScheduleForm.TREES, comparing=Comparing.PRACTICE)
_practice_steps = _of(ScheduleForm.STEPS, comparing=Comparing.PRACTICE)
_small_routes = _of(ScheduleForm.ROUTES, _ALLTOALL, comparing=Comparing.SMALL)


def _library(name: str, need: str, source: str) -> Scheduler:
    made_by, requirements = f"{_LIBRARIES}:library_schedule", (f"{_LIBRARIES}:{need}",)
    how = Comparing.MACHINES
    return _trees(
        name, SPANNING_KINDS, made_by, requirements=requirements, source=source, comparing=how, is_peer=True
    )


OWN = (
    _trees(
        FORESTCOLL,
        SPANNING_KINDS,
        f"{_HERE}.forestcoll:forestcoll",
        options=_TREES,
        source="ForestColl: dissertation, chapter 4 and appendix B",
        in_groups=True,
    ),
    _trees(
        "rs-ag",
        _ALLREDUCE,
        f"{_HERE}.forestcoll:rs_ag",
        options=_TREES,
        source="ForestColl's reduce-scatter, then its allgather: dissertation, chapter 4",
        in_groups=True,
    ),
    _small_trees(
        "few-trees",
        _GATHERS,
        "treadle.synthesis.trees.few.fixed_k:fixed_k_trees",
        options=("trees", "height"),
        source="ForestColl (dissertation, chapter 4) of few trees; within a height by column generation: own",
    ),
    _trees(
        "isolated",
        SPANNING_KINDS,
        f"{_HERE}.groups:isolated",
        source="ForestColl's trees of each group as if the others were idle",
        comparing=Comparing.GROUPS,
        in_groups=True,
    ),
    _steps(
        "bfb",
        SPANNING_KINDS,
        f"{_HERE}.step_candidates:breadth_first",
        requirements=_DIRECT,
        options=("chunks", "size"),
        source="breadth-first broadcast: dissertation, 3.6 and A.5",
    ),
    _steps(
        "exact",
        SPANNING_KINDS,
        f"{_HERE}.exact_synthesis:exact",
        requirements=_DIRECT,
        options=("chunks", "rounds", "steps", "symmetric", "seed"),
        source="Cai et al., SCCL (PPoPP 2021); dissertation, 3.8.5",
        comparing=Comparing.NAMED,  # it may take hours
    ),
    _steps(
        "te-ccl",
        (CollectiveKind.ALLGATHER,),
        f"{_HERE}.step_candidates:te_ccl",
        requirements=_DIRECT,
        options=("chunks", "seed"),
        source="Liu et al., TE-CCL (SIGCOMM 2024): its integer program, on HiGHS",
        comparing=Comparing.NAMED,  # it takes a minute where nothing is asked for
        is_peer=True,
    ),
    _exchanges(
        "tsmcf",
        f"{_HERE}.alltoall_candidates:time_stepped",
        requirements=(hosts_store,),
        options=("chunks", "steps"),
        source="time-stepped multi-commodity flow: the all-to-all paper, (15)-(20)",
        comparing=Comparing.SMALL,
    ),
    _exchanges(
        PIPELINED,
        f"{_HERE}.alltoall_candidates:pipelined_flow",
        requirements=(hosts_store,),
        options=("chunks", "rounds", "max_steps", "size"),
        source="routes of an optimal flow (the all-to-all paper, (1)-(14)) or of a search, in steps",
    ),
    _exchanges(
        "shortest-paths",
        f"{_HERE}.alltoall_candidates:shortest_paths",
        requirements=(no_switches,),
        options=("chunks", "rounds", "size"),
        source="common practice; balanced, in rounds of our own",
    ),
    _small_routes(
        ROUTES,
        f"{_HERE}.route_candidates:best_routes",
        options=("chunks", "max_layers", "layer_changes", "max_routes", "max_hops", "max_flows", "seed"),
        source="column generation (the all-to-all paper, (21)-(24)) or local search; layers of our own",
    ),
    _routes(
        "hierarchical-routes",
        f"{_HERE}.route_candidates:hierarchical_routes",
        options=("chunks",),
        source='boxes and switches: "ongoing work" of the all-to-all paper',
        comparing=Comparing.SWITCHED,
    ),
    _trees(
        "blink",
        SPANNING_KINDS,
        f"{_TREE_BASELINES}.blink:blink",
        source="Wang et al., Blink (MLSys 2020), with switch removal: dissertation, 4.6.2",
        is_peer=True,
    ),
    _trees(
        "double-binary-tree",
        (CollectiveKind.ALLREDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE),
        f"{_TREE_BASELINES}.double_binary_tree:double_binary_tree",
        source="Sanders, Speck and Traff, Parallel Computing 35 (2009), as adopted by NCCL 2.4",
    ),
    _trees(
        "halving-doubling",
        _GATHERS,
        f"{_TREE_BASELINES}.halving_doubling:halving_doubling",
        requirements=(f"{_TREE_BASELINES}.halving_doubling:power_of_two_ranks",),
        source="Rabenseifner (ICCS 2004); common practice (MPI)",
    ),
    _trees(
        "hierarchical-ring",
        _GATHERS,
        f"{_TREE_BASELINES}.hierarchical_ring:hierarchical_ring",
        requirements=(_EVEN_BOXES,),
        source="Cho et al., BlueConnect (MLSys 2019)",
    ),
    _small_trees(
        "mixed-radix",
        _GATHERS,
        f"{_SIZES}.spanning_exchanges:mixed_radix",
        requirements=(_NOT_TOO_MANY,),
        options=("factors",),
        source="digit by digit: Bruck et al. (IEEE TPDS 8, 1997); grids: common practice",
    ),
    _trees(
        "multitree",
        _GATHERS,
        f"{_TREE_BASELINES}.multitree:multitree",
        source="Huang et al., MultiTree (ISCA 2021); dissertation, 4.6.5",
        is_peer=True,
    ),
    _library("nccl", "nvidia_gpus", "what NCCL 2.30 picks at 1 GB: its tuning.cc"),
    _trees(
        "nvls",
        _GATHERS,
        f"{_TREE_BASELINES}.nvls:nvls",
        requirements=(
            f"{_TREE_BASELINES}.nvls:three_ranks",
            f"{_TREE_BASELINES}.nvls:a_switch_of_all_ranks_that_copies_and_adds",
        ),
        source="NCCL's NVLS (NVLink SHARP)",
        comparing=Comparing.ABLE,
    ),
    _practice_trees(
        "one-shot",
        _GATHERS,
        f"{_SIZES}.spanning_exchanges:one_shot",
        requirements=(FEW_RANKS,),
        source="common practice (NCCL's symmetric kernels, MSCCL++)",
    ),
    _practice_trees(
        "pat",
        _GATHERS,
        f"{_SIZES}.spanning_exchanges:pat",
        requirements=(FEW_RANKS,),
        source="PAT (arXiv 2506.20252), as NCCL has it since 2.23",
    ),
    _practice_trees(
        "rail",
        _GATHERS,
        f"{_SIZES}.spanning_exchanges:rail",
        requirements=(_NOT_TOO_MANY, _SEVERAL_BOXES),
        source="common practice; NCCL's rail all-to-all (with --multicast: and LDMC)",
    ),
    _small_trees(
        "rail-bruck",
        _GATHERS,
        f"{_SIZES}.spanning_exchanges:rail_bruck",
        requirements=(_NOT_TOO_MANY, _SEVERAL_BOXES),
        options=("factors",),
        source="Bruck et al. (IEEE TPDS 8, 1997), between boxes",
    ),
    _practice_trees(
        "rail-ring",
        _GATHERS,
        f"{_SIZES}.spanning_exchanges:rail_ring",
        requirements=(_NOT_TOO_MANY, _SEVERAL_BOXES),
        source="NCCL's symmetric kernels: rings over rails (with --multicast: and STMC)",
    ),
    _library("rccl", "amd_gpus", "what RCCL 2.21.5 picks at 1 GB: its tuning.cc"),
    _trees("ring", SPANNING_KINDS, f"{_TREE_BASELINES}.ring:ring", source="common practice (NCCL, RCCL)"),
    _small_trees(
        "three-stage",
        _GATHERS,
        f"{_SIZES}.spanning_exchanges:three_stage",
        requirements=(_NOT_TOO_MANY, _SEVERAL_BOXES),
        source="aggregation by boxes: own",
    ),
    _trees(
        "tto",
        _ALLREDUCE,
        f"{_PEERS}.tto:tto",
        requirements=(f"{_PEERS}.tto:square_mesh",),
        source="Laskar et al., TTO (HPCA 2024)",
        is_peer=True,
    ),
    _small_steps(
        "axis-exchange",
        _ALLREDUCE,
        f"{_SIZES}.axis_exchange:axis_exchange",
        requirements=(FEW_RANKS, *_WHOLE_FABRIC, _TORUS),
        options=("exchanged",),
        source="one-shot along the axes, each first for its part: own",
    ),
    _small_steps(
        "bfb-pieces",
        _GATHERS,
        f"{_SIZES}.breadth_first_chunks:bfb_chunks",
        requirements=(no_switches, no_forwarders, FEW_RANKS, equal_shards),
        options=("chunks", "parts"),
        source="breadth-first broadcast (dissertation, 3.6), pipelined: own",
    ),
    _small_steps(
        "box-bfb",
        _GATHERS,
        f"{_SIZES}.box_phases:box_bfb",
        requirements=(*_EQUAL_IN_BOXES, _EVEN_BOXES, f"{_SIZES}.box_phases:boxes_of_direct_links"),
        source="breadth-first broadcast (dissertation, 3.6) in boxes, directly across: own",
    ),
    _small_steps(
        "box-carriers",
        _ALLREDUCE,
        f"{_SIZES}.leaders:leader_rounds",
        requirements=(*_EQUAL_IN_BOXES, f"{_SIZES}.leaders:even_boxes"),
        source="sums of boxes carried by few messages: own",
    ),
    _small_steps(
        "box-trees",
        _GATHERS,
        f"{_SIZES}.box_phases:box_trees",
        requirements=(*_EQUAL_IN_BOXES, _EVEN_BOXES, f"{_SIZES}.box_phases:boxes_of_direct_links"),
        options=("trees", "chunks", "parts"),
        source="ForestColl's trees (dissertation, chapter 4) in boxes, directly across, in pieces: own",
    ),
    _steps(
        "bruck",
        _GATHERS,
        f"{_STEP_BASELINES}.full_exchange:bruck",
        requirements=_WHOLE_FABRIC,
        source="Bruck et al. (IEEE TPDS 8, 1997)",
    ),
    _steps(
        "double-binary-tree-steps",
        _ALLREDUCE,
        f"{_STEP_BASELINES}.binary_trees:double_binary_tree_steps",
        requirements=(*_WHOLE_FABRIC, f"{_STEP_BASELINES}.binary_trees:links_of_two_binary_trees"),
        options=("chunks",),
        source="Sanders, Speck and Traeff, Parallel Computing 35 (2009)",
    ),
    _small_steps(
        "factor-allreduce",
        _ALLREDUCE,
        f"{_SIZES}.factor_allreduce:factor_allreduce",
        requirements=(_NOT_TOO_MANY, equal_shards),
        options=("factors", "exchanged", "chunks"),
        source="factor by factor: own; one-shot and two-shot: NCCL's symmetric kernels, MSCCL++",
    ),
    _small_steps(
        "gather-pieces",
        (CollectiveKind.ALLGATHER,),
        f"{_SIZES}.scatter_chunks:gather_chunks",
        requirements=(*_EQUAL_IN_BOXES, f"{_SIZES}.scatter_chunks:few_boxes", _EVEN_BOXES),
        options=("chunks",),
        source="scatter-pieces turned round: own",
    ),
    _steps(
        "one-diameter",
        _ALLREDUCE,
        f"{_STEP_BASELINES}.roots:one_diameter",
        requirements=_WHOLE_FABRIC,
        source="dissertation, A.3.3",
    ),
    _steps(
        "recursive-doubling",
        _GATHERS,
        f"{_STEP_BASELINES}.full_exchange:recursive_doubling",
        requirements=_WHOLE_FABRIC,
        source="Thakur, Rabenseifner and Gropp (IJHPCA 19, 2005); Rabenseifner (ICCS 2004)",
    ),
    _steps(
        "reduce-broadcast",
        _ALLREDUCE,
        f"{_STEP_BASELINES}.roots:reduce_broadcast",
        requirements=(*_WHOLE_FABRIC, f"{_STEP_BASELINES}.roots:links_of_one_bandwidth"),
        source="dissertation, A.3.3",
    ),
    _steps(
        "ring-steps",
        _GATHERS,
        f"{_STEP_BASELINES}.ring_algorithms:ring_steps",
        requirements=(*_WHOLE_FABRIC, _RINGS),
        source="dissertation, A.6.1 and 3.8.2",
    ),
    _small_steps(
        "routed-direct",
        _GATHERS,
        f"{_SIZES}.routed_rounds:routed_direct",
        requirements=(FEW_RANKS, equal_shards),
        source="common practice: one-shot over shortest ways",
    ),
    _small_steps(
        "scatter-pieces",
        (CollectiveKind.REDUCE_SCATTER,),
        f"{_SIZES}.scatter_chunks:scatter_chunks",
        requirements=(*_EQUAL_IN_BOXES, f"{_SIZES}.scatter_chunks:few_boxes", _EVEN_BOXES),
        options=("chunks",),
        source="rails in pieces, what leaves the box first: own",
    ),
    _steps(
        "shifted-bfb-ring",
        _GATHERS,
        f"{_STEP_BASELINES}.ring_algorithms:shifted_bfb_ring",
        requirements=(*_WHOLE_FABRIC, _RINGS),
        source="dissertation, 3.8.3 and A.6.1",
    ),
    _practice_steps(
        "swing",
        _GATHERS,
        f"{_SIZES}.routed_rounds:swing",
        requirements=(FEW_RANKS, *_WHOLE_FABRIC, _TORUS, f"{_SIZES}.routed_rounds:sides_are_powers_of_two"),
        source="De Sensi et al., Swing (NSDI 2024, arXiv 2401.09356)",
    ),
    _steps(
        "taccl",
        _GATHERS,
        f"{_HERE}.step_candidates:taccl",
        requirements=(no_forwarders, equal_shards),
        options=("chunks", "size"),
        source="Shah et al., TACCL (NSDI 2023): its programs, on HiGHS",
        comparing=Comparing.NAMED,
        is_peer=True,
    ),
    _steps(
        "tacos",
        _GATHERS,
        f"{_PEERS}.tacos:tacos",
        requirements=_WHOLE_FABRIC,
        options=("chunks", "seed"),
        source="Won et al., TACOS (MICRO 2024): its greedy matching of links and chunks",
        comparing=Comparing.SMALL,
        is_peer=True,
    ),
    _steps(
        "traditional-torus",
        _GATHERS,
        f"{_STEP_BASELINES}.torus:traditional_torus",
        requirements=(*_WHOLE_FABRIC, _TORUS),
        source="Sack and Gropp (ACM TOPC 1, 2015); dissertation, 3.6.2",
    ),
    _practice_steps(
        "trivance",
        _GATHERS,
        f"{_SIZES}.routed_rounds:trivance",
        requirements=(FEW_RANKS, *_WHOLE_FABRIC, _TORUS),
        source="Trivance (arXiv 2602.17254)",
    ),
    _small_steps(
        "two-round",
        _ALLREDUCE,
        f"{_SIZES}.two_rounds:two_round",
        requirements=(FEW_RANKS, *_WHOLE_FABRIC, f"{_SIZES}.two_rounds:in_classes"),
        options=("rounds",),
        source="sums of classes of a line digraph, exchanged: own",
    ),
    _exchanges(
        "bruck-exchange",
        f"{_EXCHANGES}.bruck:bruck_exchange",
        requirements=(no_switches,),
        source="Bruck et al. (IEEE TPDS 8, 1997), the index operation",
    ),
    _exchanges(
        "factor-exchange",
        f"{_SIZES}.factor_exchange:factor_exchange",
        requirements=(FEW_RANKS,),
        options=("factors",),
        source="Bruck et al. (IEEE TPDS 8, 1997), the index operation; boxes first: common practice",
        comparing=Comparing.SIZES,
    ),
    _exchanges(
        "hypercube-exchange",
        f"{_EXCHANGES}.grid_phases:hypercube_exchange",
        requirements=(no_switches, f"{_EXCHANGES}.grid_phases:hypercube_in_order_of_addresses"),
        source="Johnsson and Ho (IEEE TC 38, 1989)",
    ),
    _exchanges(
        "mesh-exchange",
        f"{_EXCHANGES}.grid_phases:mesh_exchange",
        requirements=(no_switches, f"{_EXCHANGES}.grid_phases:mesh_in_row_major_order"),
        source="Scott (DMCC 1991), as store and forward",
    ),
    _exchanges(
        "pairwise",
        f"{_EXCHANGES}.bruck:pairwise_exchange",
        requirements=(no_switches,),
        source="Thakur, Rabenseifner and Gropp (IJHPCA 19, 2005), section 4.3",
    ),
    _exchanges(
        "taccl-alltoall",
        f"{_HERE}.step_candidates:taccl",
        requirements=(no_forwarders,),
        options=("chunks", "size"),
        source="Shah et al., TACCL (NSDI 2023): its programs, on HiGHS",
        comparing=Comparing.NAMED,
        is_peer=True,
    ),
    _exchanges(
        "te-ccl-alltoall",
        f"{_PEERS}.teccl_exchange:teccl_exchange",
        requirements=(no_switches, f"{_STEP_BASELINES}.bidirectional:all_nodes_in_order"),
        options=("chunks", "steps"),
        source="Liu et al., TE-CCL (SIGCOMM 2024): its linear program, on HiGHS",
        comparing=Comparing.NAMED,
        is_peer=True,
    ),
    _exchanges(
        "torus-exchange",
        f"{_EXCHANGES}.grid_phases:torus_exchange",
        requirements=(no_switches, f"{_EXCHANGES}.grid_phases:torus_in_row_major_order"),
        source="Suh and Yalamanchili (IEEE TPDS 9, 1998), as store and forward",
    ),
    _routes(
        "dor",
        f"{_EXCHANGES}.dimension_order:dor_routes",
        requirements=(f"{_EXCHANGES}.grids:mesh_torus_or_hypercube",),
        source="Dally and Seitz (IEEE TC 36, 1987)",
    ),
    _routes(
        "ewsp",
        f"{_EXCHANGES}.equal_weight:ewsp_routes",
        options=("chunks",),
        source="equal-weight shortest paths: the all-to-all paper, section 5.3",
    ),
    _small_routes(
        "ilp-disjoint",
        f"{_EXCHANGES}.single_path_ilp:disjoint_routes",
        options=("seed",),
        source="ILP over link-disjoint paths: the all-to-all paper, section 5.2",
    ),
    _small_routes(
        "ilp-shortest",
        f"{_EXCHANGES}.single_path_ilp:shortest_routes",
        options=("seed",),
        source="ILP over shortest paths: the all-to-all paper, section 5.2",
    ),
    _small_routes(
        "mcf-extp",
        f"{_EXCHANGES}.fractional_routes:mcf_extp",
        source="MCF-extP: the all-to-all paper, 3.1.2 and 3.2.1",
    ),
    _routes(
        "native",
        f"{_EXCHANGES}.first_paths:layered_native_routes",
        source="common practice (NCCL, Open MPI): the all-to-all paper, section 5.2",
    ),
    _small_routes(
        "path-mcf",
        f"{_EXCHANGES}.fractional_routes:path_mcf_disjoint",
        source="path MCF: the all-to-all paper, (21)-(24)",
    ),
    _routes(
        "sssp",
        f"{_EXCHANGES}.sssp:sssp_routes",
        source="Hoefler, Schneider and Lumsdaine (HOTI 2009)",
    ),
)
