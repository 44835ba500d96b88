// Graphs and trees at the boundary: treadle/synthesis/core_values/tree_values.py, in the order of its fields.
#pragma once
#include <utility>

#include "bindings/arrays.hpp"
#include "trees/graphs.hpp"
#include "trees/packing.hpp"
#include "trees/routed/routed_trees.hpp"

namespace treadle {

using ArcsIn = std::tuple<Int32In, Int32In, Int64In>;
using RootedFabricIn = std::tuple<int, Int32In, Int64In, ArcsIn>;
using RankedFabricIn = std::tuple<int, int, ArcsIn>;
using LogicalArcsIn = std::tuple<Int32In, Int32In, Int64In, Int64In, Int32In, Int64In, Int64In, Int32In>;
using TreeRowsIn = std::tuple<Int32In, Int64In, Int32In>;
using RoutedForestIn = std::tuple<LogicalArcsIn, TreeRowsIn>;
using SearchLimitsIn = std::tuple<int, std::int64_t, std::int64_t, std::uint64_t>;

inline Fabric to_fabric(const RootedFabricIn& given) {
    const auto& [n_nodes, compute, root, arcs] = given;
    const auto& [tail, head, capacity] = arcs;
    return {n_nodes,           to_vector<int>(compute), to_vector<std::int64_t>(root),
            to_vector<int>(tail), to_vector<int>(head),    to_vector<std::int64_t>(capacity)};
}

inline Network to_network(const RankedFabricIn& given) {
    const auto& [n_ranks, n_nodes, arcs] = given;
    const auto& [tail, head, capacity] = arcs;
    return {n_ranks, n_nodes, to_vector<int>(tail), to_vector<int>(head), to_vector<std::int64_t>(capacity)};
}

inline PackingProblem to_packing_problem(int n_nodes, const ArcsIn& arcs, std::vector<std::int64_t> root = {}) {
    const auto& [tail, head, capacity] = arcs;
    return {n_nodes, std::move(root), to_vector<int>(tail), to_vector<int>(head), to_vector<std::int64_t>(capacity)};
}

inline LogicalGraph to_logical_graph(const LogicalArcsIn& given) {
    const auto& [tail, head, capacity, segment_offset, segment_path, segment_units, path_offset, path_links] = given;
    return {to_vector<int>(tail),
            to_vector<int>(head),
            to_vector<std::int64_t>(capacity),
            to_vector<std::int64_t>(segment_offset),
            to_vector<int>(segment_path),
            to_vector<std::int64_t>(segment_units),
            to_vector<std::int64_t>(path_offset),
            to_vector<int>(path_links)};
}

inline TreePacking to_packing(const TreeRowsIn& given) {
    const auto& [root, multiplicity, parent] = given;
    return {to_vector<int>(root), to_vector<std::int64_t>(multiplicity), to_vector<int>(parent)};
}

inline RoutedForest to_routed_forest(const RoutedForestIn& given) {
    return {to_logical_graph(std::get<0>(given)), to_packing(std::get<1>(given))};
}

inline auto from_logical_graph(LogicalGraph graph) {
    return std::make_tuple(to_numpy(std::move(graph.tail)), to_numpy(std::move(graph.head)),
                           to_numpy(std::move(graph.capacity)), to_numpy(std::move(graph.segment_offset)),
                           to_numpy(std::move(graph.segment_path)), to_numpy(std::move(graph.segment_units)),
                           to_numpy(std::move(graph.path_offset)), to_numpy(std::move(graph.path_links)));
}

inline auto from_packing(TreePacking packing) {
    return std::make_tuple(to_numpy(std::move(packing.root)), to_numpy(std::move(packing.multiplicity)),
                           to_numpy(std::move(packing.parent)));
}

inline auto from_routed_forest(RoutedForest forest) {
    return std::make_tuple(from_logical_graph(std::move(forest.graph)), from_packing(std::move(forest.trees)));
}

}  // namespace treadle
