// Ranks on nodes: treadle/finder/rank_order.py.
#include <nanobind/stl/vector.h>

#include "bindings/arrays.hpp"
#include "search/rank_order.hpp"

namespace treadle {
namespace {

using TreeGraphIn = std::tuple<Int32In, Int32Rows, Int32Rows>;
using RankGroupsIn = std::tuple<int, int, int, double, double, double>;
using RankPaceIn = std::tuple<std::int64_t, double, std::uint64_t>;

TreeGraph graph_of(const TreeGraphIn& given) {
    const auto& [tails, into, distance] = given;
    return {static_cast<int>(into.shape(0)), static_cast<int>(into.shape(1)), tails.data(), into.data(), distance.data()};
}

auto bind_tree_figures(const TreeGraphIn& given, Int32Rows groups) {
    TreeFigures found;
    {
        nb::gil_scoped_release release;
        found = tree_figures(graph_of(given), groups.data(), static_cast<int>(groups.shape(0)),
                             static_cast<int>(groups.shape(1)));
    }
    return std::make_tuple(found.fullest, found.longest, found.distance_sum);
}

auto bind_order_ranks(const std::vector<TreeGraphIn>& given, const std::vector<RankGroupsIn>& groups, Int32In start,
                      const RankPaceIn& pace, ControlIn control) {
    std::vector<std::int32_t> order = to_vector<std::int32_t>(start);
    std::vector<TreeGraph> graphs;
    std::vector<RankGroups> kinds;
    for (const TreeGraphIn& one : given) graphs.push_back(graph_of(one));
    for (const auto& [size, stride, graph, hop, load, distance] : groups)
        kinds.push_back({size, stride, graph, hop, load, distance});
    double cost = 0;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto& [work, hot, seed] = pace;
        status = order_ranks(graphs, kinds, {work, hot, seed}, Control{control.data()}, order, cost);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(order)), cost);
}

}  // namespace

void bind_rank_order(nb::module_& m) {
    m.def("tree_figures", &bind_tree_figures, nb::arg("graph"), nb::arg("groups"));
    m.def("order_ranks", &bind_order_ranks, nb::arg("graphs"), nb::arg("kinds"), nb::arg("start"), nb::arg("pace"),
          nb::arg("control"));
}

}  // namespace treadle
