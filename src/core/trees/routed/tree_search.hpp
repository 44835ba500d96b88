// Local search for lower trees: exchanges between trees that keep the load of every link, and moves into free capacity.
#pragma once
#include <cstdint>

#include "control.hpp"
#include "trees/routed/routed_trees.hpp"

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

// Loads stay within capacities and no tree gets higher than the highest one was; when cancelled or out of steps, the
// lowest forest so far is left.
void lower_trees(RoutedTrees& trees, const SearchOptions& options, const Control& control, SearchCounts& counts);

// The same of a forest whose edges may have several paths. Status::stuck: with one path per edge it has too many trees.
Status lower_forest(Network network, RoutedForest forest, const SearchOptions& options, const Control& control,
                    RoutedForest& result, SearchCounts& counts);

}  // namespace treadle
