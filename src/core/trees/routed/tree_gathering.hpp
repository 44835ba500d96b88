// Fewer different trees: exchanges between trees that make those of a root alike, at equal loads and within a height.
#pragma once
#include <cstdint>

#include "control.hpp"
#include "trees/routed/routed_trees.hpp"

namespace treadle {

struct GatherOptions {
    int height = 0;             // no tree gets higher
    std::int64_t max_work = 0;  // steps; 0: nothing is done
    std::uint64_t seed = 0;
};

struct GatherCounts {
    std::int64_t swaps = 0, work = 0;
};

void gather_trees(RoutedTrees& trees, const GatherOptions& options, const Control& control, GatherCounts& counts);

// The same of a forest whose edges may have several paths. Status::stuck: with one path per edge its trees times ranks
// are more than `max_cells`.
Status gather_forest(Network network, RoutedForest forest, std::int64_t max_cells, const GatherOptions& options,
                     const Control& control, RoutedForest& result, GatherCounts& counts);

}  // namespace treadle
