"""Typed view of the compiled core (src/core/bindings).

Structs come in as the named tuples of `synthesis.core_values`, `simulation.core_values` and
`parallelism.search.core_search_values`, and go out as plain tuples that fit them. Status codes: 0 ok,
1 violated, 2 cancelled, 3 stuck. `control` is [cancel flag, work done, work expected]. Counts come in the
order that the bindings say.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treadle.finder.rank_order import RankGroups, RankPace, TreeGraph
from treadle.finder.searches.abelian_search import AbelianPace, AbelianProblem
from treadle.finder.searches.link_swaps import SwapPace, SwapProblem
from treadle.finder.searches.multicirculant_search import OrbitPace, OrbitProblem
from treadle.parallelism.search.core_search_values import CoreDomains, MinimaxForms, PairEnergies, PairTables
from treadle.simulation.core_values import FluidArrays, TaskArrays
from treadle.synthesis.core_values.arrangement_values import ArrangeProblem
from treadle.synthesis.core_values.column_values import (
    ColumnPaths,
    DependencyPaths,
    HopPaths,
    OrderPace,
    SearchPace,
    StepPace,
    SubproblemTable,
)
from treadle.synthesis.core_values.flow_values import (
    Annealing,
    ClimbProblem,
    FlowOptions,
    FlowProblem,
    FlowStart,
    PathBasis,
    PathProgram,
)
from treadle.synthesis.core_values.integers import Wide, WideArray
from treadle.synthesis.core_values.step_values import InLinks
from treadle.synthesis.core_values.tree_values import (
    Arcs,
    BoundaryMembers,
    EdgePaths,
    LogicalArcs,
    MatchingOptions,
    PathRows,
    PlaneTable,
    RankedFabric,
    RootedFabric,
    RoutedForest,
    SearchLimits,
    Segments,
    TreeRows,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
UInt16 = NDArray[np.uint16]
UInt64 = NDArray[np.uint64]
Float64 = NDArray[np.float64]

# Plain tuples in the order of the fields of the named ones
_LogicalArcs = tuple[Int32, Int32, Int64, Int64, Int32, Int64, Int64, Int32]
_TreeRows = tuple[Int32, Int64, Int32]
_RoutedForest = tuple[_LogicalArcs, _TreeRows]
_EdgePaths = tuple[Int64, Int32, Int64]
_PlanePairs = tuple[Int32, Int32, Int64]
_Segments = tuple[Int32, Int32, Int64]
_PathRows = tuple[Int64, Int32]
_StepRatios = tuple[Int64, Int64, Int32]
_Sends = tuple[Int64, Int32, Int32, Int32, Int32]
_CutJobs = tuple[Int32, Int64, Int64, Int32]
_Failure = tuple[int, int]
_FoundFlow = tuple[Float64, Float64, float, float, int, int]
_ClimbTable = tuple[Float64, Int32, Int32]
_LanePaths = tuple[Int32, Int64, Int32]
_PathBasis = tuple[Int32, Int32, Int32]
_TaskTimes = tuple[int, int, int, Int64, Int64, bool]
_FluidTimes = tuple[int, int, Float64, Float64]

# Cuts and the removal of switches
def find_violated_cut(
    fabric: RootedFabric, link_factor: int, root_factor: Wide, first: int, control: Int64
) -> tuple[int, Int32]: ...
def split_switches(
    fabric: RootedFabric, mend_limit: int, control: Int64
) -> tuple[int, _LogicalArcs, tuple[int, int]]: ...
def split_amount(fabric: RootedFabric, u: int, w: int, t: int) -> int: ...

# Cheapest arborescences of groups: integers of 128 bits as halves, high and low
def group_arborescences(
    tail: Int32,
    head: Int32,
    length: tuple[Int64, UInt64],
    passing: Int32,
    members: Int32,
    group_size: int,
    root: int,
    control: Int64,
) -> tuple[int, int, tuple[Int64, UInt64]]: ...

# Cheapest trees of one group, and what is nearest to each member: status, parents, paths as starts and arcs
def cheapest_trees(
    n_nodes: int,
    tail: Int32,
    head: Int32,
    length: Int64,
    members: Int32,
    roots: Int32,
    is_centre: bool,
    control: Int64,
) -> tuple[int, Int32, tuple[Int64, Int32]]: ...

# Packers of trees in graphs without switches
def pack(
    multiplicity: Int64, arcs: Arcs, speculate: bool, control: Int64
) -> tuple[int, _TreeRows, tuple[int, int]]: ...
def shortest_trees(
    multiplicity: Int64, arcs: Arcs, wanted: bool, most_cells: int, most_trees: int, control: Int64
) -> tuple[int, _TreeRows]: ...
def match_trees(
    n_nodes: int, root: Int32, weight: Int64, arcs: Arcs, options: MatchingOptions, control: Int64
) -> tuple[int, _TreeRows, tuple[int, int, int, int, int, int]]: ...
def regrow_forest(
    n_nodes: int, arcs: Arcs, trees: TreeRows, limits: SearchLimits, control: Int64
) -> tuple[_TreeRows, tuple[int, int, int, int, int, int]]: ...
def assign_paths(n_nodes: int, arcs: LogicalArcs, trees: TreeRows) -> tuple[int, _EdgePaths]: ...
def most_hops(n_nodes: int, tail: Int32, head: Int32, terminals: Int32, roots: Int32) -> int: ...
def forest_height(parent: Int32, n_nodes: int) -> int: ...

# Searches on forests whose edges are paths
def lower_forest(
    fabric: RankedFabric, forest: RoutedForest, limits: SearchLimits, control: Int64
) -> tuple[int, _RoutedForest, tuple[int, int, int, int, int, int, int]]: ...
def gather_forest(
    fabric: RankedFabric, forest: RoutedForest, limits: SearchLimits, control: Int64
) -> tuple[int, _RoutedForest, tuple[int, int]]: ...
def low_forest(
    fabric: RankedFabric,
    multiplicity: Int64,
    height: int,
    rounds: int,
    max_work: int,
    seed: int,
    control: Int64,
) -> tuple[int, _RoutedForest, tuple[int, int, int, int]]: ...

# What closed forms of pieces need
def relayed_stars(
    n_nodes: int, multiplicity: Int64, capacity: Int64, max_work: int, control: Int64
) -> tuple[int, _TreeRows, tuple[int, int, int]]: ...
def settle_planes(
    table: PlaneTable, need_out: Int64, need_in: Int64, control: Int64
) -> tuple[int, _PlanePairs]: ...
def spread_paths(
    link_tail: Int32, link_head: Int32, segments: Segments, paths: PathRows, max_cells: int
) -> tuple[_Segments, _PathRows]: ...
def assign_border_paths(
    n_children: int, trees: TreeRows, paths: EdgePaths, members: BoundaryMembers
) -> tuple[int, _TreeRows, Int32]: ...

# Breadth-first broadcast
def bfb_loads(
    in_links: InLinks, weight: Int64, transform_limit: int, control: Int64
) -> tuple[int, _StepRatios, _Failure]: ...
def bfb_orbit_loads(
    rows: UInt16, weight: Int64, transform_limit: int
) -> tuple[int, _StepRatios, _Failure]: ...
def bfb_split(
    in_links: InLinks, link: Int32, capacity: Int64, steps: int, chunks: int, control: Int64
) -> tuple[int, _Sends, _Failure]: ...
def bfb_cuts(
    in_links: InLinks, step: int, capacity: WideArray, units: Wide, control: Int64
) -> tuple[int, _CutJobs, _Failure]: ...

# Abelian Cayley digraphs: status, generators, cost, steps, nodes missed, sets tried
def search_abelian_sets(
    problem: AbelianProblem, pace: AbelianPace, starts: Int32, control: Int64
) -> tuple[int, Int32, int, int, int, int]: ...
def swap_links(problem: SwapProblem, pace: SwapPace, control: Int64) -> tuple[int, Int32, int, int, int]: ...
def swap_orbits(
    problem: OrbitProblem, pace: OrbitPace, control: Int64
) -> tuple[int, Int32, Int32, Int32, Int32, int, int]: ...
def tree_figures(graph: TreeGraph, groups: Int32) -> tuple[int, int, int]: ...
def order_ranks(
    graphs: Sequence[TreeGraph], kinds: Sequence[RankGroups], start: Int32, pace: RankPace, control: Int64
) -> tuple[int, Int32, float]: ...

# Flows and paths
def concurrent_flow(
    problem: FlowProblem, start: FlowStart, options: FlowOptions, control: Int64
) -> tuple[int, _FoundFlow, _Failure]: ...
def priced_routing(
    problem: FlowProblem, length: Float64, spread: float, by_source: bool, threads: int, control: Int64
) -> tuple[int, Float64, float, _Failure]: ...
def path_simplex(
    program: PathProgram, basis: PathBasis, most_pivots: int, control: Int64
) -> tuple[int, _PathBasis, int]: ...
def climb_paths(problem: ClimbProblem, length: Float64) -> _ClimbTable: ...
def climb_loads(problem: ClimbProblem, length: Float64) -> Float64: ...
def anneal_link_orders(
    problem: ClimbProblem, lengths: Float64, annealing: Annealing, control: Int64
) -> tuple[int, Int32, float]: ...

# Places of items, and their cost
def arrange_items(
    problem: ArrangeProblem, start: Int32, annealing: Annealing, control: Int64
) -> tuple[int, Int32, int]: ...

# Searched routes; layer of every path (or hop) and links of every layer in order; caps and steps of hops
def search_lane_paths(
    pieces: SubproblemTable, lanes: Int32, start: ColumnPaths, pace: SearchPace, control: Int64
) -> tuple[int, _LanePaths]: ...
def first_fit_layers(paths: DependencyPaths, control: Int64) -> tuple[int, Int32, Int32]: ...
def improve_layer_orders(
    pieces: SubproblemTable,
    paths: ColumnPaths,
    distance: Int32,
    orders: Int32,
    pace: OrderPace,
    control: Int64,
) -> tuple[int, Int32, Int32]: ...
def assign_hop_steps(
    paths: HopPaths, pace: StepPace, cap: Int64, control: Int64
) -> tuple[int, Int64, Int32]: ...

# Freed memory goes back to the system; whether there was any
def release_memory() -> bool: ...

# Simulations
def simulate_tasks(
    graph: TaskArrays, n_slices: int, order: int, with_binding: bool, horizon: int, control: Int64
) -> tuple[int, _TaskTimes]: ...
def simulate_flows(graph: FluidArrays, n_slices: int, control: Int64) -> tuple[int, _FluidTimes]: ...

# Message passing: sums of minima now and before, magnitude of messages; labels; slack; messages
def reweighted_trees(
    energies: PairEnergies, messages: Float64, most_passes: int, tolerance: float
) -> tuple[tuple[float, float, float], Int32, Float64, Float64]: ...

# Weighted sums of the quantities of pairs, edge after edge; infinity where forbidden
def pair_energies(tables: PairTables, domains: CoreDomains, weights: Float64) -> Float64: ...

# By state, whether it has an allowed partner at every neighbour
def states_with_partners(tables: PairTables, domains: CoreDomains) -> UInt8: ...

# Plans made better by changing one node at a time: labels
def improve_plan(
    tables: PairTables,
    domains: CoreDomains,
    forms: MinimaxForms,
    labels: Int32,
    price: float,
    most_sweeps: int,
) -> Int32: ...
