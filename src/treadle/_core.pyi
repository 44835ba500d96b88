"""Typed view of the compiled core (src/core/bindings.cpp).

Status codes: 0 ok, 1 violated, 2 cancelled, 3 stuck. `control` is [cancel flag, work done, work expected].
"""

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
UInt16 = NDArray[np.uint16]
Float64 = NDArray[np.float64]

def find_violated_cut(
    n_nodes: int,
    compute: Int32,
    root: Int64,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    link_factor: int,
    root_high: int,
    root_low: int,
    first: int,
    control: Int64,
) -> tuple[int, Int32]: ...
def split_switches(
    n_nodes: int,
    compute: Int32,
    root: Int64,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    mend_limit: int,
    control: Int64,
) -> tuple[int, Int32, Int32, Int64, Int64, Int32, Int64, Int64, Int32, Int64]: ...
def split_amount(
    n_nodes: int,
    compute: Int32,
    root: Int64,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    u: int,
    w: int,
    t: int,
) -> int: ...
def pack(
    n_nodes: int,
    root: Int64,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    speculate: bool,
    control: Int64,
) -> tuple[int, Int32, Int64, Int32, Int64]: ...
def shortest_trees(
    n_nodes: int,
    root: Int64,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    wanted: bool,
    most_cells: int,
    most_trees: int,
    control: Int64,
) -> tuple[int, Int32, Int64, Int32]: ...
def match_trees(
    n_nodes: int,
    tree_root: Int32,
    tree_weight: Int64,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    start: int,
    detours: bool,
    most_trees: int,
    first_height: int,
    last_height: int,
    max_work: int,
    seed: int,
    control: Int64,
) -> tuple[int, Int32, Int64, Int32, Int64]: ...
def regrow_forest(
    n_nodes: int,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    root: Int32,
    multiplicity: Int64,
    parent: Int32,
    lowest: int,
    max_work: int,
    max_cells: int,
    seed: int,
    control: Int64,
) -> tuple[Int32, Int64, Int32, Int64]: ...
def lower_forest(
    n_ranks: int,
    n_nodes: int,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    arc_tail: Int32,
    arc_head: Int32,
    segment_offset: Int64,
    segment_path: Int32,
    segment_units: Int64,
    path_offset: Int64,
    path_links: Int32,
    root: Int32,
    multiplicity: Int64,
    parent: Int32,
    lowest: int,
    max_work: int,
    max_cells: int,
    seed: int,
    control: Int64,
) -> tuple[int, Int32, Int32, Int64, Int64, Int32, Int64, Int64, Int32, Int32, Int64, Int32, Int64]: ...
def gather_forest(
    n_ranks: int,
    n_nodes: int,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    arc_tail: Int32,
    arc_head: Int32,
    segment_offset: Int64,
    segment_path: Int32,
    segment_units: Int64,
    path_offset: Int64,
    path_links: Int32,
    root: Int32,
    multiplicity: Int64,
    parent: Int32,
    height: int,
    max_work: int,
    max_cells: int,
    seed: int,
    control: Int64,
) -> tuple[int, Int32, Int32, Int64, Int64, Int32, Int64, Int64, Int32, Int32, Int64, Int32, Int64]: ...
def low_forest(
    n_ranks: int,
    n_nodes: int,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    units: Int64,
    height: int,
    rounds: int,
    max_work: int,
    seed: int,
    control: Int64,
) -> tuple[int, Int32, Int32, Int64, Int64, Int32, Int64, Int64, Int32, Int32, Int64, Int32, Int64]: ...
def relayed_stars(
    n_nodes: int, root: Int64, capacity: Int64, max_work: int, control: Int64
) -> tuple[int, Int32, Int64, Int32, Int64]: ...
def settle_planes(
    n_groups: int,
    n_planes: int,
    group: Int32,
    units: Int64,
    pair_root: Int32,
    pair_child: Int32,
    pair_units: Int64,
    need_out: Int64,
    need_in: Int64,
    control: Int64,
) -> tuple[int, Int32, Int32, Int64]: ...
def most_hops(n_nodes: int, tail: Int32, head: Int32, compute: Int32, source: Int32) -> int: ...
def assign_paths(
    n_nodes: int,
    parent: Int32,
    multiplicity: Int64,
    tail: Int32,
    head: Int32,
    segment_offset: Int64,
    segment_path: Int32,
    segment_units: Int64,
) -> tuple[int, Int64, Int32, Int64]: ...
def forest_height(parent: Int32, n_nodes: int) -> int: ...
def even_paths(
    link_tail: Int32,
    link_head: Int32,
    arc: Int32,
    path: Int32,
    units: Int64,
    path_offset: Int64,
    path_links: Int32,
    max_cells: int,
) -> tuple[Int32, Int32, Int64, Int64, Int32]: ...
def door_paths(
    n_children: int,
    root: Int32,
    units: Int64,
    parent: Int32,
    entry_offset: Int64,
    entry_path: Int32,
    entry_units: Int64,
    start: Int32,
    end: Int32,
    label_offset: Int64,
    label_units: Int64,
    label_member: Int32,
) -> tuple[int, Int32, Int64, Int32, Int32]: ...
def bfb_loads(
    offset: Int64, tail: Int32, weight: Int64, transform_limit: int, control: Int64
) -> tuple[int, Int64, Int64, Int32, Int32]: ...
def bfb_orbit_loads(
    rows: UInt16, weight: Int64, transform_limit: int
) -> tuple[int, Int64, Int64, Int32, Int32]: ...
def bfb_split(
    offset: Int64, tail: Int32, link: Int32, capacity: Int64, steps: int, chunks: int, control: Int64
) -> tuple[int, Int64, Int32, Int32, Int32, Int32, Int32]: ...
def bfb_orbit_split(
    rows: UInt16, capacity: Int64, chunks: int
) -> tuple[int, Int64, Int32, Int32, Int32, Int32, Int32]: ...
def bfb_cuts(
    offset: Int64,
    tail: Int32,
    step: int,
    capacity_high: Int64,
    capacity_low: UInt64,
    units_high: int,
    units_low: int,
    control: Int64,
) -> tuple[int, Int32, Int64, Int64, Int32, Int32]: ...
def bfb_counts(
    offset: Int64, tail: Int32, control: Int64
) -> tuple[int, Int64, Int64, Int64, Int64, Int64, Int64, Int32]: ...
def climb_paths(
    n_nodes: int,
    tail: Int32,
    head: Int32,
    source: Int32,
    demand: Float64,
    order: Int32,
    length: Float64,
) -> tuple[Float64, Int32, Int32]: ...
def climb_loads(
    n_nodes: int,
    tail: Int32,
    head: Int32,
    source: Int32,
    demand: Float64,
    order: Int32,
    length: Float64,
) -> Float64: ...
def anneal_link_orders(
    n_nodes: int,
    tail: Int32,
    head: Int32,
    source: Int32,
    demand: Float64,
    order: Int32,
    lengths: Float64,
    steps: int,
    hot: float,
    cold: float,
    seed: int,
    control: Int64,
) -> tuple[int, Int32, float]: ...
def path_simplex(
    capacity: Float64,
    demand: Float64,
    pair: Int32,
    offset: Int64,
    links: Int32,
    key: Int32,
    column: Int32,
    slack: Int32,
    most_pivots: int,
    control: Int64,
) -> tuple[int, Int32, Int32, Int32, int]: ...
def concurrent_flow(
    n_nodes: int,
    tail: Int32,
    head: Int32,
    capacity: Float64,
    source: Int32,
    demand: Float64,
    weight: Float64,
    orbit: Int32,
    start_flow: Float64,
    start_length: Float64,
    gap: float,
    time_limit_s: float,
    max_iterations: int,
    threads: int,
    wide: bool,
    control: Int64,
) -> tuple[int, Float64, Float64, Float64, Int64, Int32]: ...
def simulate_tasks(
    resource: Int32,
    duration: Int64,
    edge_offset: Int64,
    edge_target: Int32,
    edge_shift: Int64,
    n_resources: int,
    n_slices: int,
    order: int,
    with_binding: bool,
    control: Int64,
) -> tuple[int, Int64, Int64, Int64]: ...
def simulate_flows(
    resource_offset: Int64,
    resource: Int32,
    capacity: Float64,
    work: Float64,
    before: Float64,
    after: Float64,
    edge_offset: Int64,
    edge_target: Int32,
    edge_from_start: Int32,
    n_slices: int,
    control: Int64,
) -> tuple[int, Int64, Float64, Float64]: ...
