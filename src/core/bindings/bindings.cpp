// The compiled boundary: contiguous arrays in, new arrays and a status code out; the GIL is released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstring>
#include <limits>
#include <memory>
#include <tuple>

#include "steps/bfb.hpp"
#include "flows/climbing.hpp"
#include "flows/concurrent_flow.hpp"
#include "simulate/fluid.hpp"
#include "trees/packers/height_first.hpp"
#include "trees/hops.hpp"
#include "trees/packing.hpp"
#include "trees/packers/path_dealing.hpp"
#include "flows/path_simplex.hpp"
#include "trees/plane_settling.hpp"
#include "trees/relayed_stars.hpp"
#include "trees/residual.hpp"
#include "trees/packers/shortest_trees.hpp"
#include "simulate/simulate.hpp"
#include "trees/splitting.hpp"
#include "trees/tree_paths.hpp"
#include "trees/packers/tree_gathering.hpp"
#include "trees/packers/tree_regrowth.hpp"
#include "trees/packers/tree_search.hpp"
#include "trees/packers/vertex_matching.hpp"

namespace nb = nanobind;
using namespace treadle;

using Int64In = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Int32In = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatIn = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatRows = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using UInt64In = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using UInt16Rows = nb::ndarray<const std::uint16_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ControlIn = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

namespace {

template <class T>
Out<T> to_numpy(std::vector<T> values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Out<T>(kept->data(), {kept->size()}, owner);
}

Out<std::int32_t> to_numpy(std::unique_ptr<std::int32_t[]> values, std::size_t size) {
    std::int32_t* kept = values.release();
    nb::capsule owner(kept, [](void* p) noexcept { delete[] static_cast<std::int32_t*>(p); });
    return Out<std::int32_t>(kept, {size}, owner);
}

template <class T, class In>
std::vector<T> to_vector(const In& array) {
    return std::vector<T>(array.data(), array.data() + array.shape(0));
}

__int128 wide(std::int64_t high, std::uint64_t low) {
    return static_cast<__int128>((static_cast<unsigned __int128>(high) << 64) | low);
}

Fabric to_fabric(int n_nodes, const Int32In& compute, const Int64In& root, const Int32In& tail, const Int32In& head,
                 const Int64In& capacity) {
    Fabric fabric;
    fabric.n_nodes = n_nodes;
    fabric.compute = to_vector<int>(compute);
    fabric.root = to_vector<std::int64_t>(root);
    fabric.tail = to_vector<int>(tail);
    fabric.head = to_vector<int>(head);
    fabric.capacity = to_vector<std::int64_t>(capacity);
    return fabric;
}

// Places of the compute nodes in an order in which each is near the one before it: depth-first through the fabric.
// A flow whose sink moves to a neighbour is quickly mended.
std::vector<int> nearby_order(int n_nodes, const std::vector<int>& compute, const Int32In& tail, const Int32In& head) {
    const std::size_t arcs = tail.shape(0);
    std::vector<int> start(n_nodes + 1, 0), other(2 * arcs), place(n_nodes, -1), order, stack;
    for (std::size_t e = 0; e < arcs; e++) start[tail.data()[e] + 1]++, start[head.data()[e] + 1]++;
    for (int v = 0; v < n_nodes; v++) start[v + 1] += start[v];
    std::vector<int> next(start.begin(), start.end() - 1);
    for (std::size_t e = 0; e < arcs; e++) {
        other[next[tail.data()[e]]++] = head.data()[e];
        other[next[head.data()[e]]++] = tail.data()[e];
    }
    next.assign(start.begin(), start.end() - 1);
    for (std::size_t i = 0; i < compute.size(); i++) place[compute[i]] = static_cast<int>(i);
    std::vector<char> seen(n_nodes, 0);
    for (int source : compute) {
        if (!seen[source]) stack.push_back(source);
        while (!stack.empty()) {
            const int x = stack.back();
            if (!seen[x] && place[x] >= 0) order.push_back(place[x]);
            seen[x] = 1;
            while (next[x] < start[x + 1] && seen[other[next[x]]]) next[x]++;
            if (next[x] == start[x + 1])
                stack.pop_back();
            else
                stack.push_back(other[next[x]]);
        }
    }
    return order;
}

// Condition C with capacities times `link_factor` and multiplicities times the 128-bit (root_high, root_low). The
// number that fails, and `first`, count in an order of its own, which depends on tails and heads alone.
auto find_violated_cut(int n_nodes, Int32In compute, Int64In root, Int32In tail, Int32In head, Int64In capacity,
                       std::int64_t link_factor, std::int64_t root_high, std::uint64_t root_low, int first,
                       ControlIn control) {
    const Control watch{control.data()};
    std::vector<char> cut;
    int failed = -1;
    {
        nb::gil_scoped_release release;
        const __int128 root_factor = wide(root_high, root_low);
        std::vector<CapacityArc<__int128>> arcs;
        for (std::size_t e = 0; e < tail.shape(0); e++)
            arcs.push_back({tail.data()[e], head.data()[e], static_cast<__int128>(capacity.data()[e]) * link_factor});
        std::vector<__int128> roots;
        std::vector<int> nodes;
        __int128 bound = 0;
        for (const auto& arc : arcs) bound += arc.capacity;
        for (int i : nearby_order(n_nodes, to_vector<int>(compute), tail, head)) {
            nodes.push_back(compute.data()[i]);
            roots.push_back(root.data()[i] * root_factor);
            bound += roots.back();
        }
        if (bound < static_cast<__int128>(1) << 61) {
            std::vector<CapacityArc<std::int64_t>> narrow;
            narrow.reserve(arcs.size());
            for (const auto& arc : arcs) narrow.push_back({arc.tail, arc.head, static_cast<std::int64_t>(arc.capacity)});
            std::vector<std::int64_t> narrow_roots(roots.begin(), roots.end());
            failed = find_violated<std::int64_t>(n_nodes, std::move(narrow), nodes, narrow_roots, first, cut, watch);
        } else {
            failed = find_violated<__int128>(n_nodes, std::move(arcs), nodes, roots, first, cut, watch);
        }
    }
    std::vector<std::int32_t> inside;
    for (int v = 0; failed >= 0 && v < n_nodes; v++)
        if (cut[v]) inside.push_back(v);
    return std::make_tuple(failed, to_numpy(std::move(inside)));
}

auto split_switches(int n_nodes, Int32In compute, Int64In root, Int32In tail, Int32In head, Int64In capacity,
                    std::int64_t mend_limit, ControlIn control) {
    LogicalGraph graph;
    Status status;
    {
        nb::gil_scoped_release release;
        status = remove_switches(to_fabric(n_nodes, compute, root, tail, head, capacity), Control{control.data()},
                                 mend_limit, graph);
    }
    std::vector<std::int64_t> counts{graph.repairs, graph.exact};
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(graph.tail)), to_numpy(std::move(graph.head)),
                           to_numpy(std::move(graph.capacity)), to_numpy(std::move(graph.segment_offset)),
                           to_numpy(std::move(graph.segment_path)), to_numpy(std::move(graph.segment_units)),
                           to_numpy(std::move(graph.path_offset)), to_numpy(std::move(graph.path_links)),
                           to_numpy(std::move(counts)));
}

std::int64_t split_amount(int n_nodes, Int32In compute, Int64In root, Int32In tail, Int32In head, Int64In capacity,
                          int u, int w, int t) {
    nb::gil_scoped_release release;
    return splittable_amount(to_fabric(n_nodes, compute, root, tail, head, capacity), u, w, t);
}

PackingProblem to_packing_problem(int n_nodes, const Int32In& tail, const Int32In& head, const Int64In& capacity,
                                  std::vector<std::int64_t> root = {}) {
    return {n_nodes, std::move(root), to_vector<int>(tail), to_vector<int>(head), to_vector<std::int64_t>(capacity)};
}

auto pack(int n_nodes, Int64In root, Int32In tail, Int32In head, Int64In capacity, bool speculate, ControlIn control) {
    TreePacking packing;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto problem = to_packing_problem(n_nodes, tail, head, capacity, to_vector<std::int64_t>(root));
        status = pack_trees(problem, Control{control.data()}, speculate, packing);
    }
    std::vector<std::int64_t> counts{packing.speculative, packing.exact};
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(packing.root)),
                           to_numpy(std::move(packing.multiplicity)), to_numpy(std::move(packing.parent)),
                           to_numpy(std::move(counts)));
}

// Counts: height, overload left, re-hangings, splits, detours, steps.
auto match_trees(int n_nodes, Int32In tree_root, Int64In tree_weight, Int32In tail, Int32In head, Int64In capacity,
                 int start, bool detours, int most_trees, int first_height, int last_height, std::int64_t max_work,
                 std::uint64_t seed, ControlIn control) {
    Matching found;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto problem = to_packing_problem(n_nodes, tail, head, capacity);
        const MatchingOptions options{static_cast<Start>(start), detours, most_trees, first_height, last_height,
                                      max_work, seed};
        status = match_vertices(problem, to_vector<int>(tree_root), to_vector<std::int64_t>(tree_weight), options,
                                Control{control.data()}, found);
    }
    std::vector<std::int64_t> counts{found.height, found.overload, found.rehangs, found.splits, found.detours, found.work};
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(found.packing.root)),
                           to_numpy(std::move(found.packing.multiplicity)), to_numpy(std::move(found.packing.parent)),
                           to_numpy(std::move(counts)));
}

auto forest_of_shortest_paths(int n_nodes, Int64In root, Int32In tail, Int32In head, Int64In capacity, bool wanted,
                              std::int64_t most_cells, std::int64_t most_trees, ControlIn control) {
    TreePacking found;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto problem = to_packing_problem(n_nodes, tail, head, capacity, to_vector<std::int64_t>(root));
        status = shortest_trees(problem, wanted, most_cells, most_trees, Control{control.data()}, found);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(found.root)),
                           to_numpy(std::move(found.multiplicity)), to_numpy(std::move(found.parent)));
}

// Counts: heights before and after, trees grown anew, exchanges, splits, steps.
auto regrow_forest(int n_nodes, Int32In tail, Int32In head, Int64In capacity, Int32In root, Int64In multiplicity,
                   Int32In parent, int lowest, std::int64_t max_work, std::int64_t max_cells, std::uint64_t seed,
                   ControlIn control) {
    TreePacking packing;
    RegrowthCounts counts;
    {
        nb::gil_scoped_release release;
        const auto problem = to_packing_problem(n_nodes, tail, head, capacity);
        packing.root = to_vector<int>(root);
        packing.multiplicity = to_vector<std::int64_t>(multiplicity);
        packing.parent = to_vector<int>(parent);
        regrow_trees(problem, {lowest, max_work, max_cells, seed}, Control{control.data()}, packing, counts);
    }
    std::vector<std::int64_t> told{counts.before,    counts.after,  counts.regrown,
                                   counts.exchanges, counts.splits, counts.work};
    return std::make_tuple(to_numpy(std::move(packing.root)), to_numpy(std::move(packing.multiplicity)),
                           to_numpy(std::move(packing.parent)), to_numpy(std::move(told)));
}

// Counts: trees left without a parent, exchanges, steps.
auto relayed_stars(int n_nodes, Int64In root, Int64In capacity, std::int64_t max_work, ControlIn control) {
    RelayedStars found;
    Status status;
    {
        nb::gil_scoped_release release;
        status = relay_stars(n_nodes, to_vector<std::int64_t>(root), to_vector<std::int64_t>(capacity), max_work,
                             Control{control.data()}, found);
    }
    std::vector<std::int64_t> counts{found.left, found.exchanges, found.work};
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(found.root)),
                           to_numpy(std::move(found.multiplicity)), to_numpy(std::move(found.parent)),
                           to_numpy(std::move(counts)));
}

auto settle_pairs(int n_groups, int n_planes, Int32In group, Int64In units, Int32In pair_root, Int32In pair_child,
                   Int64In pair_units, Int64In need_out, Int64In need_in, ControlIn control) {
    SettledPairs found;
    Status status;
    {
        nb::gil_scoped_release release;
        PlaneTable table;
        table.n = static_cast<int>(group.shape(0));
        table.groups = n_groups;
        table.planes = n_planes;
        table.group = to_vector<int>(group);
        table.units = to_vector<std::int64_t>(units);
        table.pair_root = to_vector<int>(pair_root);
        table.pair_child = to_vector<int>(pair_child);
        table.pair_units = to_vector<std::int64_t>(pair_units);
        status = settle_planes(table, to_vector<std::int64_t>(need_out), to_vector<std::int64_t>(need_in),
                                        Control{control.data()}, found);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(found.root)),
                           to_numpy(std::move(found.child)), to_numpy(std::move(found.units)));
}

int most_hops(int n_nodes, Int32In tail, Int32In head, Int32In compute, Int32In source) {
    nb::gil_scoped_release release;
    std::vector<char> is_compute(n_nodes, 0);
    for (int v : to_vector<int>(compute)) is_compute[v] = 1;
    return hop_eccentricity(n_nodes, to_vector<int>(tail), to_vector<int>(head), is_compute, to_vector<int>(source));
}

Network to_network(int n_ranks, int n_nodes, const Int32In& tail, const Int32In& head, const Int64In& capacity) {
    return {n_ranks, n_nodes, to_vector<int>(tail), to_vector<int>(head), to_vector<std::int64_t>(capacity)};
}

// A forest as a graph of arcs with paths, trees as parents, and counts.
auto from_routed(Status status, LogicalGraph graph, TreePacking packing, std::vector<std::int64_t> counts) {
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(graph.tail)), to_numpy(std::move(graph.head)),
                           to_numpy(std::move(graph.capacity)), to_numpy(std::move(graph.segment_offset)),
                           to_numpy(std::move(graph.segment_path)), to_numpy(std::move(graph.segment_units)),
                           to_numpy(std::move(graph.path_offset)), to_numpy(std::move(graph.path_links)),
                           to_numpy(std::move(packing.root)), to_numpy(std::move(packing.multiplicity)),
                           to_numpy(std::move(packing.parent)), to_numpy(std::move(counts)));
}

// A forest as the searches on routed trees take and return it. Stuck: the trees need more than `max_cells` trees times
// ranks once every edge has one path.
template <class Search>
auto searched_forest(int n_ranks, int n_nodes, Int32In tail, Int32In head, Int64In capacity, Int32In arc_tail,
                     Int32In arc_head, Int64In segment_offset, Int32In segment_path, Int64In segment_units,
                     Int64In path_offset, Int32In path_links, Int32In root, Int64In multiplicity, Int32In parent,
                     std::int64_t max_cells, Search search) {
    LogicalGraph graph;
    TreePacking packing;
    std::vector<std::int64_t> counts;
    Status status = Status::stuck;
    {
        nb::gil_scoped_release release;
        RoutedTrees trees(to_network(n_ranks, n_nodes, tail, head, capacity));
        {
            LogicalGraph given;
            given.tail = to_vector<int>(arc_tail);
            given.head = to_vector<int>(arc_head);
            given.segment_offset = to_vector<std::int64_t>(segment_offset);
            given.segment_path = to_vector<int>(segment_path);
            given.segment_units = to_vector<std::int64_t>(segment_units);
            given.path_offset = to_vector<std::int64_t>(path_offset);
            given.path_links = to_vector<int>(path_links);
            TreePacking start;
            start.root = to_vector<int>(root);
            start.multiplicity = to_vector<std::int64_t>(multiplicity);
            start.parent = to_vector<int>(parent);
            if (route_trees(given, start, max_cells, trees)) status = Status::ok;
        }
        if (status == Status::ok) {
            counts = search(trees);
            trees.write(graph, packing);
        }
    }
    return from_routed(status, std::move(graph), std::move(packing), std::move(counts));
}

auto lower_forest(int n_ranks, int n_nodes, Int32In tail, Int32In head, Int64In capacity, Int32In arc_tail,
                 Int32In arc_head, Int64In segment_offset, Int32In segment_path, Int64In segment_units,
                 Int64In path_offset, Int32In path_links, Int32In root, Int64In multiplicity, Int32In parent,
                 int lowest, std::int64_t max_work, std::int64_t max_cells, std::uint64_t seed, ControlIn control) {
    const Control watched{control.data()};
    return searched_forest(
        n_ranks, n_nodes, tail, head, capacity, arc_tail, arc_head, segment_offset, segment_path, segment_units,
        path_offset, path_links, root, multiplicity, parent, max_cells, [&](RoutedTrees& trees) {
            SearchCounts counts;
            lower_trees(trees, {lowest, max_work, max_cells, seed}, watched, counts);
            return std::vector<std::int64_t>{counts.before,  counts.after,  counts.swaps, counts.reversals,
                                             counts.rehangs, counts.splits, counts.work};
        });
}

auto gather_forest(int n_ranks, int n_nodes, Int32In tail, Int32In head, Int64In capacity, Int32In arc_tail,
                  Int32In arc_head, Int64In segment_offset, Int32In segment_path, Int64In segment_units,
                  Int64In path_offset, Int32In path_links, Int32In root, Int64In multiplicity, Int32In parent,
                  int height, std::int64_t max_work, std::int64_t max_cells, std::uint64_t seed, ControlIn control) {
    const Control watched{control.data()};
    return searched_forest(
        n_ranks, n_nodes, tail, head, capacity, arc_tail, arc_head, segment_offset, segment_path, segment_units,
        path_offset, path_links, root, multiplicity, parent, max_cells, [&](RoutedTrees& trees) {
            GatherCounts counts;
            gather_trees(trees, {height, max_work, seed}, watched, counts);
            return std::vector<std::int64_t>{counts.swaps, counts.work};
        });
}

auto low_forest(int n_ranks, int n_nodes, Int32In tail, Int32In head, Int64In capacity, Int64In units, int height,
                int rounds, std::int64_t max_work, std::uint64_t seed, ControlIn control) {
    LogicalGraph graph;
    TreePacking packing;
    HeightFirstCounts counts;
    Status status;
    {
        nb::gil_scoped_release release;
        RoutedTrees trees(to_network(n_ranks, n_nodes, tail, head, capacity));
        status = grow_low_trees(to_vector<std::int64_t>(units), {height, rounds, max_work, seed},
                                Control{control.data()}, trees, counts);
        if (status == Status::ok) trees.write(graph, packing);
    }
    return from_routed(status, std::move(graph), std::move(packing),
                       {counts.overload, counts.rounds, counts.reroutes, counts.work});
}

auto even_paths(Int32In link_tail, Int32In link_head, Int32In arc, Int32In path, Int64In units, Int64In path_offset,
                Int32In path_links, std::int64_t max_cells) {
    Segments segments;
    Paths paths;
    {
        nb::gil_scoped_release release;
        segments = {to_vector<int>(arc), to_vector<int>(path), to_vector<std::int64_t>(units)};
        paths = {to_vector<std::int64_t>(path_offset), to_vector<int>(path_links)};
        deal_evenly(to_vector<int>(link_tail), to_vector<int>(link_head), max_cells, segments, paths);
    }
    return std::make_tuple(to_numpy(std::move(segments.arc)), to_numpy(std::move(segments.path)),
                           to_numpy(std::move(segments.units)), to_numpy(std::move(paths.offset)),
                           to_numpy(std::move(paths.links)));
}

auto door_paths(int n_children, Int32In root, Int64In units, Int32In parent, Int64In entry_offset, Int32In entry_path,
                Int64In entry_units, Int32In start, Int32In end, Int64In label_offset, Int64In label_units,
                Int32In label_member) {
    DoorRows rows;
    Status status;
    {
        nb::gil_scoped_release release;
        DoorTrees trees;
        trees.n_children = n_children;
        trees.root = to_vector<int>(root);
        trees.units = to_vector<std::int64_t>(units);
        trees.parent = to_vector<int>(parent);
        trees.entry_offset = to_vector<std::int64_t>(entry_offset);
        trees.entry_path = to_vector<int>(entry_path);
        trees.entry_units = to_vector<std::int64_t>(entry_units);
        trees.start = to_vector<int>(start);
        trees.end = to_vector<int>(end);
        trees.label_offset = to_vector<std::int64_t>(label_offset);
        trees.label_units = to_vector<std::int64_t>(label_units);
        trees.label_member = to_vector<int>(label_member);
        status = deal_by_door(trees, rows);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(rows.root)), to_numpy(std::move(rows.units)),
                           to_numpy(std::move(rows.parent)), to_numpy(std::move(rows.path)));
}

// `parent` is row-major (tree, node), -1 at roots.
auto assign_tree_paths(int n_nodes, Int32In parent, Int64In multiplicity, Int32In tail, Int32In head,
                       Int64In segment_offset, Int32In segment_path, Int64In segment_units) {
    TreePaths found;
    bool fits;
    {
        nb::gil_scoped_release release;
        const ArcSegments arcs{to_vector<int>(tail), to_vector<int>(head), to_vector<std::int64_t>(segment_offset),
                               to_vector<int>(segment_path), to_vector<std::int64_t>(segment_units)};
        fits = assign_paths(n_nodes, arcs, parent.data(), to_vector<std::int64_t>(multiplicity), found);
    }
    return std::make_tuple(fits ? 0 : 3, to_numpy(std::move(found.offset)), to_numpy(std::move(found.path)),
                           to_numpy(std::move(found.units)));
}

int height_of_trees(Int32In parent, int n_nodes) {
    nb::gil_scoped_release release;
    return forest_height(parent.data(), n_nodes ? parent.shape(0) / n_nodes : 0, n_nodes);
}

InLinks to_in_links(const Int64In& offset, const Int32In& tail) {
    return {static_cast<int>(offset.shape(0)) - 1, offset.data(), tail.data()};
}

DistanceRows to_rows(const UInt16Rows& rows) {
    return {static_cast<int>(rows.shape(1)), static_cast<int>(rows.shape(0)) - 1, rows.data()};
}

auto loads_result(Status status, StepLoads&& loads) {
    std::vector<std::int32_t> failure{loads.failure.node, loads.failure.other};
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(loads.numerator)),
                           to_numpy(std::move(loads.denominator)), to_numpy(std::move(loads.worst)),
                           to_numpy(std::move(failure)));
}

auto sends_result(Status status, SendArrays&& sends) {
    std::vector<std::int32_t> failure{sends.failure.node, sends.failure.other};
    const auto size = static_cast<std::size_t>(status == Status::ok ? sends.size : 0);
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(sends.step_offset)),
                           to_numpy(std::move(sends.shard), size), to_numpy(std::move(sends.link), size),
                           to_numpy(std::move(sends.low), size), to_numpy(std::move(sends.high), size),
                           to_numpy(std::move(failure)));
}

auto bfb_loads(Int64In offset, Int32In tail, Int64In weight, int transform_limit, ControlIn control) {
    StepLoads loads;
    Status status;
    {
        nb::gil_scoped_release release;
        status = step_loads(to_in_links(offset, tail), weight.data(), transform_limit, Control{control.data()}, loads);
    }
    return loads_result(status, std::move(loads));
}

auto bfb_orbit_loads(UInt16Rows rows, Int64In weight, int transform_limit) {
    StepLoads loads;
    Status status;
    {
        nb::gil_scoped_release release;
        status = step_loads(to_rows(rows), weight.data(), transform_limit, loads);
    }
    return loads_result(status, std::move(loads));
}

// `capacity` has one value per step, or one per step and in-link, row-major.
auto bfb_split(Int64In offset, Int32In tail, Int32In link, Int64In capacity, int steps, std::int64_t chunks,
               ControlIn control) {
    SendArrays sends;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto stride = static_cast<std::int64_t>(capacity.shape(0)) == steps ? 0 : tail.shape(0);
        status = bfb_sends(to_in_links(offset, tail), link.data(), capacity.data(), steps, stride, chunks,
                           Control{control.data()}, sends);
    }
    return sends_result(status, std::move(sends));
}

auto bfb_orbit_split(UInt16Rows rows, Int64In capacity, std::int64_t chunks) {
    SendArrays sends;
    Status status;
    {
        nb::gil_scoped_release release;
        status = bfb_sends(to_rows(rows), capacity.data(), static_cast<int>(capacity.shape(0)), chunks, sends);
    }
    return sends_result(status, std::move(sends));
}

// 128-bit capacities (one per in-link) and units of a job in two halves.
auto bfb_cuts(Int64In offset, Int32In tail, int step, Int64In capacity_high, UInt64In capacity_low,
              std::int64_t units_high, std::uint64_t units_low, ControlIn control) {
    CutJobs cuts;
    Status status;
    {
        nb::gil_scoped_release release;
        std::vector<__int128> capacity;
        for (std::size_t e = 0; e < tail.shape(0); e++)
            capacity.push_back(wide(capacity_high.data()[e], capacity_low.data()[e]));
        status = find_cuts(to_in_links(offset, tail), step, capacity.data(), wide(units_high, units_low),
                           Control{control.data()}, cuts);
    }
    std::vector<std::int32_t> failure{cuts.failure.node, cuts.failure.other};
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(cuts.node)), to_numpy(std::move(cuts.jobs)),
                           to_numpy(std::move(cuts.offset)), to_numpy(std::move(cuts.links)),
                           to_numpy(std::move(failure)));
}

auto bfb_counts(Int64In offset, Int32In tail, ControlIn control) {
    DistanceCounts counts;
    Status status;
    {
        nb::gil_scoped_release release;
        status = count_distances(to_in_links(offset, tail), Control{control.data()}, counts);
    }
    std::vector<std::int32_t> failure{counts.failure.node, counts.failure.other};
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(counts.sources_min)),
                           to_numpy(std::move(counts.sources_max)), to_numpy(std::move(counts.served_min)),
                           to_numpy(std::move(counts.served_max)), to_numpy(std::move(counts.usable_min)),
                           to_numpy(std::move(counts.usable_max)), to_numpy(std::move(failure)));
}

FlowProblem to_flow_problem(int n_nodes, const Int32In& tail, const Int32In& head, const FloatIn& capacity,
                            const Int32In& source, const FloatRows& demand, const FloatIn& weight,
                            const Int32In& orbit) {
    FlowProblem problem;
    problem.n_nodes = n_nodes;
    problem.n_links = static_cast<int>(tail.shape(0));
    problem.n_sources = static_cast<int>(source.shape(0));
    problem.tail = tail.data();
    problem.head = head.data();
    problem.capacity = capacity.data();
    problem.source = source.data();
    problem.demand = demand.data();
    problem.weight = weight.data();
    problem.orbit = orbit.data();
    for (std::size_t e = 0; e < orbit.shape(0); e++) problem.n_orbits = std::max(problem.n_orbits, orbit.data()[e] + 1);
    return problem;
}

// Empty `start_flow` or `start_length`: none.
auto concurrent_flow(int n_nodes, Int32In tail, Int32In head, FloatIn capacity, Int32In source, FloatRows demand,
                     FloatIn weight, Int32In orbit, FloatRows start_flow, FloatIn start_length, double gap,
                     double time_limit_s, std::int64_t max_iterations, int threads, bool wide, ControlIn control) {
    FlowResult result;
    Status status;
    {
        nb::gil_scoped_release release;
        FlowOptions options;
        options.gap = gap;
        options.time_limit_s = time_limit_s;
        options.max_iterations = max_iterations;
        options.threads = threads;
        options.wide = wide;
        if (start_flow.shape(0)) options.start_flow = start_flow.data();
        if (start_length.shape(0)) options.start_length = start_length.data();
        status = maximise_concurrent_flow(to_flow_problem(n_nodes, tail, head, capacity, source, demand, weight, orbit),
                                          options, Control{control.data()}, result);
    }
    std::vector<double> sides{result.load, result.bound};
    std::vector<std::int64_t> counts{result.iterations, result.certificates};
    std::vector<std::int32_t> failed{result.failed_source, result.failed_node};
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(result.flow)),
                           to_numpy(std::move(result.length)), to_numpy(std::move(sides)),
                           to_numpy(std::move(counts)), to_numpy(std::move(failed)));
}

using Int32Rows = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

ClimbProblem to_climb_problem(int n_nodes, const Int32In& tail, const Int32In& head, const Int32In& source,
                              const FloatRows& demand, const Int32Rows& order) {
    ClimbProblem problem;
    problem.n_nodes = n_nodes;
    problem.n_links = static_cast<int>(tail.shape(0));
    problem.n_sources = static_cast<int>(source.shape(0));
    problem.n_layers = static_cast<int>(order.shape(0));
    problem.tail = tail.data();
    problem.head = head.data();
    problem.source = source.data();
    problem.demand = demand.data();
    problem.order = order.data();
    return problem;
}

auto climb_paths(int n_nodes, Int32In tail, Int32In head, Int32In source, FloatRows demand, Int32Rows order,
                 FloatIn length) {
    ClimbTable table;
    {
        nb::gil_scoped_release release;
        climb(to_climb_problem(n_nodes, tail, head, source, demand, order), length.data(), table);
    }
    return std::make_tuple(to_numpy(std::move(table.distance)), to_numpy(std::move(table.last)),
                           to_numpy(std::move(table.before)));
}

auto climb_loads(int n_nodes, Int32In tail, Int32In head, Int32In source, FloatRows demand, Int32Rows order,
                 FloatIn length) {
    std::vector<double> load;
    {
        nb::gil_scoped_release release;
        climbing_loads(to_climb_problem(n_nodes, tail, head, source, demand, order), length.data(), load);
    }
    return to_numpy(std::move(load));
}

auto anneal_link_orders(int n_nodes, Int32In tail, Int32In head, Int32In source, FloatRows demand, Int32Rows order,
                        FloatRows lengths, std::int64_t steps, double hot, double cold, std::uint64_t seed,
                        ControlIn control) {
    std::vector<std::int32_t> found;
    double cost = 0;
    Status status;
    {
        nb::gil_scoped_release release;
        AnnealOptions options;
        options.n_lengths = static_cast<int>(lengths.shape(0));
        options.lengths = lengths.data();
        options.steps = steps;
        options.hot = hot;
        options.cold = cold;
        options.seed = seed;
        status = anneal_orders(to_climb_problem(n_nodes, tail, head, source, demand, order), options,
                               Control{control.data()}, found, cost);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(found)), cost);
}

// Empty `slack` and `column`: from the keys alone.
auto path_simplex(FloatIn capacity, FloatIn demand, Int32In pair, Int64In offset, Int32In links, Int32In key,
                  Int32In column, Int32In slack, std::int64_t most_pivots, ControlIn control) {
    PathBasis basis;
    Status status;
    {
        nb::gil_scoped_release release;
        PathProgram program;
        program.n_links = static_cast<int>(capacity.shape(0));
        program.n_pairs = static_cast<int>(demand.shape(0));
        program.n_columns = static_cast<int>(pair.shape(0));
        program.capacity = capacity.data();
        program.demand = demand.data();
        program.pair = pair.data();
        program.offset = offset.data();
        program.links = links.data();
        basis.key = to_vector<std::int32_t>(key);
        basis.column = to_vector<std::int32_t>(column);
        basis.slack = to_vector<std::int32_t>(slack);
        status = solve_path_program(program, most_pivots, Control{control.data()}, basis);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(basis.key)),
                           to_numpy(std::move(basis.column)), to_numpy(std::move(basis.slack)), basis.pivots);
}

// Row-major (slice, task) starts and bindings; [finish, tasks done, last task].
auto simulate_tasks(Int32In resource, Int64In duration, Int64In edge_offset, Int32In edge_target, Int64In edge_shift,
                    int n_resources, int n_slices, int order, bool with_binding, ControlIn control) {
    Timeline timeline;
    Status status;
    {
        nb::gil_scoped_release release;
        TaskGraph graph;
        graph.n_tasks = static_cast<std::int32_t>(resource.shape(0));
        graph.n_resources = n_resources;
        graph.resource = resource.data();
        graph.duration = duration.data();
        graph.edge_offset = edge_offset.data();
        graph.edge_target = edge_target.data();
        graph.edge_shift = edge_shift.data();
        status = run_tasks(graph, n_slices, static_cast<Order>(order), with_binding, Control{control.data()}, timeline);
    }
    std::vector<std::int64_t> ends{timeline.finish, timeline.done, timeline.last};
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(ends)), to_numpy(std::move(timeline.start)),
                           to_numpy(std::move(timeline.binding)));
}

// Row-major (slice, flow) starts and ends in seconds; [flows done, last flow].
auto simulate_flows(Int64In resource_offset, Int32In resource, FloatIn capacity, FloatIn work, FloatIn before,
                    FloatIn after, Int64In edge_offset, Int32In edge_target, Int32In edge_from_start, int n_slices,
                    ControlIn control) {
    FluidTimeline timeline;
    Status status;
    {
        nb::gil_scoped_release release;
        FluidGraph graph;
        graph.n_flows = static_cast<std::int32_t>(work.shape(0));
        graph.n_resources = static_cast<std::int32_t>(capacity.shape(0));
        graph.resource_offset = resource_offset.data();
        graph.resource = resource.data();
        graph.capacity = capacity.data();
        graph.work = work.data();
        graph.before = before.data();
        graph.after = after.data();
        graph.edge_offset = edge_offset.data();
        graph.edge_target = edge_target.data();
        graph.edge_from_start = edge_from_start.data();
        status = run_flows(graph, n_slices, Control{control.data()}, timeline);
    }
    std::vector<std::int64_t> ends{timeline.done, timeline.last};
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(ends)), to_numpy(std::move(timeline.start)),
                           to_numpy(std::move(timeline.end)));
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Treadle's compiled core: free functions over int32 and int64 arrays.";
    m.def("find_violated_cut", &find_violated_cut, nb::arg("n_nodes"), nb::arg("compute"), nb::arg("root"),
          nb::arg("tail"), nb::arg("head"), nb::arg("capacity"), nb::arg("link_factor"), nb::arg("root_high"),
          nb::arg("root_low"), nb::arg("first"), nb::arg("control"));
    m.def("split_switches", &split_switches, nb::arg("n_nodes"), nb::arg("compute"), nb::arg("root"), nb::arg("tail"),
          nb::arg("head"), nb::arg("capacity"), nb::arg("mend_limit"), nb::arg("control"));
    m.def("split_amount", &split_amount, nb::arg("n_nodes"), nb::arg("compute"), nb::arg("root"), nb::arg("tail"),
          nb::arg("head"), nb::arg("capacity"), nb::arg("u"), nb::arg("w"), nb::arg("t"));
    m.def("pack", &pack, nb::arg("n_nodes"), nb::arg("root"), nb::arg("tail"), nb::arg("head"), nb::arg("capacity"),
          nb::arg("speculate"), nb::arg("control"));
    m.def("match_trees", &match_trees, nb::arg("n_nodes"), nb::arg("tree_root"), nb::arg("tree_weight"),
          nb::arg("tail"), nb::arg("head"), nb::arg("capacity"), nb::arg("start"), nb::arg("detours"),
          nb::arg("most_trees"), nb::arg("first_height"), nb::arg("last_height"), nb::arg("max_work"), nb::arg("seed"), nb::arg("control"));
    m.def("shortest_trees", &forest_of_shortest_paths, nb::arg("n_nodes"), nb::arg("root"), nb::arg("tail"),
          nb::arg("head"), nb::arg("capacity"), nb::arg("wanted"), nb::arg("most_cells"), nb::arg("most_trees"),
          nb::arg("control"));
    m.def("regrow_forest", &regrow_forest, nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"), nb::arg("capacity"),
          nb::arg("root"), nb::arg("multiplicity"), nb::arg("parent"), nb::arg("lowest"), nb::arg("max_work"),
          nb::arg("max_cells"), nb::arg("seed"), nb::arg("control"));
    m.def("relayed_stars", &relayed_stars, nb::arg("n_nodes"), nb::arg("root"), nb::arg("capacity"),
          nb::arg("max_work"), nb::arg("control"));
    m.def("settle_planes", &settle_pairs, nb::arg("n_groups"), nb::arg("n_planes"), nb::arg("group"),
          nb::arg("units"), nb::arg("pair_root"), nb::arg("pair_child"), nb::arg("pair_units"), nb::arg("need_out"),
          nb::arg("need_in"), nb::arg("control"));
    m.def("most_hops", &most_hops, nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"), nb::arg("compute"),
          nb::arg("source"));
    m.def("lower_forest", &lower_forest, nb::arg("n_ranks"), nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"),
          nb::arg("capacity"), nb::arg("arc_tail"), nb::arg("arc_head"), nb::arg("segment_offset"),
          nb::arg("segment_path"), nb::arg("segment_units"), nb::arg("path_offset"), nb::arg("path_links"),
          nb::arg("root"), nb::arg("multiplicity"), nb::arg("parent"), nb::arg("lowest"), nb::arg("max_work"),
          nb::arg("max_cells"), nb::arg("seed"), nb::arg("control"));
    m.def("gather_forest", &gather_forest, nb::arg("n_ranks"), nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"),
          nb::arg("capacity"), nb::arg("arc_tail"), nb::arg("arc_head"), nb::arg("segment_offset"),
          nb::arg("segment_path"), nb::arg("segment_units"), nb::arg("path_offset"), nb::arg("path_links"),
          nb::arg("root"), nb::arg("multiplicity"), nb::arg("parent"), nb::arg("height"), nb::arg("max_work"),
          nb::arg("max_cells"), nb::arg("seed"), nb::arg("control"));
    m.def("low_forest", &low_forest, nb::arg("n_ranks"), nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"),
          nb::arg("capacity"), nb::arg("units"), nb::arg("height"), nb::arg("rounds"), nb::arg("max_work"),
          nb::arg("seed"), nb::arg("control"));
    m.def("assign_paths", &assign_tree_paths, nb::arg("n_nodes"), nb::arg("parent"), nb::arg("multiplicity"),
          nb::arg("tail"), nb::arg("head"), nb::arg("segment_offset"), nb::arg("segment_path"),
          nb::arg("segment_units"));
    m.def("forest_height", &height_of_trees, nb::arg("parent"), nb::arg("n_nodes"));
    m.def("even_paths", &even_paths, nb::arg("link_tail"), nb::arg("link_head"), nb::arg("arc"), nb::arg("path"),
          nb::arg("units"), nb::arg("path_offset"), nb::arg("path_links"), nb::arg("max_cells"));
    m.def("door_paths", &door_paths, nb::arg("n_children"), nb::arg("root"), nb::arg("units"), nb::arg("parent"),
          nb::arg("entry_offset"), nb::arg("entry_path"), nb::arg("entry_units"), nb::arg("start"), nb::arg("end"),
          nb::arg("label_offset"), nb::arg("label_units"), nb::arg("label_member"));
    m.def("bfb_loads", &bfb_loads, nb::arg("offset"), nb::arg("tail"), nb::arg("weight"), nb::arg("transform_limit"),
          nb::arg("control"));
    m.def("bfb_orbit_loads", &bfb_orbit_loads, nb::arg("rows"), nb::arg("weight"), nb::arg("transform_limit"));
    m.def("bfb_split", &bfb_split, nb::arg("offset"), nb::arg("tail"), nb::arg("link"), nb::arg("capacity"),
          nb::arg("steps"), nb::arg("chunks"), nb::arg("control"));
    m.def("bfb_orbit_split", &bfb_orbit_split, nb::arg("rows"), nb::arg("capacity"), nb::arg("chunks"));
    m.def("bfb_cuts", &bfb_cuts, nb::arg("offset"), nb::arg("tail"), nb::arg("step"), nb::arg("capacity_high"),
          nb::arg("capacity_low"), nb::arg("units_high"), nb::arg("units_low"), nb::arg("control"));
    m.def("climb_paths", &climb_paths, nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"), nb::arg("source"),
          nb::arg("demand"), nb::arg("order"), nb::arg("length"));
    m.def("climb_loads", &climb_loads, nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"), nb::arg("source"),
          nb::arg("demand"), nb::arg("order"), nb::arg("length"));
    m.def("anneal_link_orders", &anneal_link_orders, nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"),
          nb::arg("source"), nb::arg("demand"), nb::arg("order"), nb::arg("lengths"), nb::arg("steps"), nb::arg("hot"),
          nb::arg("cold"), nb::arg("seed"), nb::arg("control"));
    m.def("path_simplex", &path_simplex, nb::arg("capacity"), nb::arg("demand"), nb::arg("pair"), nb::arg("offset"),
          nb::arg("links"), nb::arg("key"), nb::arg("column"), nb::arg("slack"), nb::arg("most_pivots"),
          nb::arg("control"));
    m.def("concurrent_flow", &concurrent_flow, nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"),
          nb::arg("capacity"), nb::arg("source"), nb::arg("demand"), nb::arg("weight"), nb::arg("orbit"),
          nb::arg("start_flow"), nb::arg("start_length"), nb::arg("gap"), nb::arg("time_limit_s"),
          nb::arg("max_iterations"), nb::arg("threads"), nb::arg("wide"), nb::arg("control"));
    m.def("simulate_tasks", &simulate_tasks, nb::arg("resource"), nb::arg("duration"), nb::arg("edge_offset"),
          nb::arg("edge_target"), nb::arg("edge_shift"), nb::arg("n_resources"), nb::arg("n_slices"),
          nb::arg("order"), nb::arg("with_binding"), nb::arg("control"));
    m.def("simulate_flows", &simulate_flows, nb::arg("resource_offset"), nb::arg("resource"), nb::arg("capacity"),
          nb::arg("work"), nb::arg("before"), nb::arg("after"), nb::arg("edge_offset"), nb::arg("edge_target"),
          nb::arg("edge_from_start"), nb::arg("n_slices"), nb::arg("control"));
    m.def("bfb_counts", &bfb_counts, nb::arg("offset"), nb::arg("tail"), nb::arg("control"));
}
