// Cheapest arborescences of groups.
#include "bindings/arrays.hpp"
#include "trees/arborescences.hpp"
#include "trees/cheapest_trees.hpp"

namespace treadle {
namespace {

using WideArrayIn = std::tuple<Int64In, UInt64In>;

// Status, the group that it is about or -1, the weights.
auto weigh_groups(Int32In tail, Int32In head, const WideArrayIn& length, Int32In passing, Int32In members, int group_size,
                  int root, ControlIn control) {
    Arborescences found;
    std::vector<std::int64_t> high;
    std::vector<std::uint64_t> low;
    {
        nb::gil_scoped_release release;
        LengthGraph graph{to_vector<int>(tail), to_vector<int>(head), {}, to_vector<char>(passing)};
        const auto& [length_high, length_low] = length;
        for (std::size_t e = 0; e < graph.tail.size(); e++)
            graph.length.push_back(to_wide(length_high.data()[e], length_low.data()[e]));
        found = group_arborescences(graph, to_vector<int>(members), group_size, root, Control{control.data()});
        for (__int128 weight : found.weight) {
            high.push_back(static_cast<std::int64_t>(weight >> 64));
            low.push_back(static_cast<std::uint64_t>(weight));
        }
    }
    return std::make_tuple(static_cast<int>(found.status), found.group,
                           std::make_tuple(to_numpy(std::move(high)), to_numpy(std::move(low))));
}

// Status, the parents, and the paths as starts and arcs.
auto price_trees(int n_nodes, Int32In tail, Int32In head, Int64In length, Int32In members, Int32In roots, bool is_centre,
                 ControlIn control) {
    CheapestTrees found;
    {
        nb::gil_scoped_release release;
        const PricedGraph graph{n_nodes, to_vector<int>(tail), to_vector<int>(head), to_vector<std::int64_t>(length)};
        found = cheapest_trees(graph, to_vector<int>(members), to_vector<int>(roots), is_centre, Control{control.data()});
    }
    return std::make_tuple(static_cast<int>(found.status), to_numpy(std::move(found.parent)),
                           std::make_tuple(to_numpy(std::move(found.start)), to_numpy(std::move(found.arc))));
}

}  // namespace

void bind_arborescences(nb::module_& m) {
    m.def("group_arborescences", &weigh_groups, nb::arg("tail"), nb::arg("head"), nb::arg("length"), nb::arg("passing"),
          nb::arg("members"), nb::arg("group_size"), nb::arg("root"), nb::arg("control"));
    m.def("cheapest_trees", &price_trees, nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"), nb::arg("length"),
          nb::arg("members"), nb::arg("roots"), nb::arg("is_centre"), nb::arg("control"));
}

}  // namespace treadle
