// Searches on forests whose edges are paths of the fabric.
#include "bindings/trees.hpp"
#include "trees/routed/height_first.hpp"
#include "trees/routed/tree_gathering.hpp"
#include "trees/routed/tree_search.hpp"

namespace treadle {
namespace {

// Counts: heights before and after, swaps, reversals, re-hangings, splits, steps.
auto lower(const RankedFabricIn& fabric, const RoutedForestIn& forest, const SearchLimitsIn& limits, ControlIn control) {
    RoutedForest found;
    SearchCounts counts;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto& [lowest, max_work, max_cells, seed] = limits;
        status = lower_forest(to_network(fabric), to_routed_forest(forest), {lowest, max_work, max_cells, seed},
                              Control{control.data()}, found, counts);
    }
    return std::make_tuple(static_cast<int>(status), from_routed_forest(std::move(found)),
                           std::make_tuple(counts.before, counts.after, counts.swaps, counts.reversals, counts.rehangs,
                                           counts.splits, counts.work));
}

// Counts: exchanges, steps.
auto gather(const RankedFabricIn& fabric, const RoutedForestIn& forest, const SearchLimitsIn& limits, ControlIn control) {
    RoutedForest found;
    GatherCounts counts;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto& [height, max_work, max_cells, seed] = limits;
        status = gather_forest(to_network(fabric), to_routed_forest(forest), max_cells, {height, max_work, seed},
                               Control{control.data()}, found, counts);
    }
    return std::make_tuple(static_cast<int>(status), from_routed_forest(std::move(found)),
                           std::make_tuple(counts.swaps, counts.work));
}

// Counts: units too many on their links, rounds, edges rerouted, steps.
auto low_forest(const RankedFabricIn& fabric, Int64In multiplicity, int height, int rounds, std::int64_t max_work,
                std::uint64_t seed, ControlIn control) {
    RoutedForest found;
    HeightFirstCounts counts;
    Status status;
    {
        nb::gil_scoped_release release;
        RoutedTrees trees(to_network(fabric));
        status = grow_low_trees(to_vector<std::int64_t>(multiplicity), {height, rounds, max_work, seed},
                                Control{control.data()}, trees, counts);
        if (status == Status::ok) trees.write(found);
    }
    return std::make_tuple(static_cast<int>(status), from_routed_forest(std::move(found)),
                           std::make_tuple(counts.overload, counts.rounds, counts.reroutes, counts.work));
}

}  // namespace

void bind_routed_forests(nb::module_& m) {
    m.def("lower_forest", &lower, nb::arg("fabric"), nb::arg("forest"), nb::arg("limits"), nb::arg("control"));
    m.def("gather_forest", &gather, nb::arg("fabric"), nb::arg("forest"), nb::arg("limits"), nb::arg("control"));
    m.def("low_forest", &low_forest, nb::arg("fabric"), nb::arg("multiplicity"), nb::arg("height"), nb::arg("rounds"),
          nb::arg("max_work"), nb::arg("seed"), nb::arg("control"));
}

}  // namespace treadle
