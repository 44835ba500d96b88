// Fewer different trees: exchanges between trees that make those of a root alike, at equal loads and within a height.
#pragma once
#include <cstdint>

#include "control.hpp"
#include "trees/packers/routed_trees.hpp"

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

}  // namespace treadle
