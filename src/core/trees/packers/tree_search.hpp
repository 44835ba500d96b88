// Local search for lower trees: exchanges between trees that keep the load of every link, and moves into free capacity.
#pragma once
#include <cstdint>

#include "control.hpp"
#include "trees/packers/routed_trees.hpp"

namespace treadle {

struct SearchOptions {
    int lowest = 1;              // no forest can be lower
    std::int64_t max_work = 0;   // steps
    std::int64_t max_cells = 0;  // trees times ranks; trees are not split beyond
    std::uint64_t seed = 0;
};

struct SearchCounts {
    std::int64_t before = 0, after = 0;  // heights
    std::int64_t swaps = 0, reversals = 0, rehangs = 0, splits = 0, work = 0;
};

// Trees of the packing with one path per edge: units are dealt to the segments of the graph's arcs in order, and a
// tree is cut where a path ends. False: that takes more than `max_cells` trees times ranks.
bool route_trees(const LogicalGraph& graph, const TreePacking& packing, std::int64_t max_cells, RoutedTrees& trees);

// Loads stay within capacities and no tree gets higher than the highest one was; when cancelled or out of steps, the
// lowest forest so far is left.
void lower_trees(RoutedTrees& trees, const SearchOptions& options, const Control& control, SearchCounts& counts);

}  // namespace treadle
