// Trees of a given height routed on the physical network: grown at once, then overloaded edges are ripped up.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"
#include "trees/routed/routed_trees.hpp"

namespace treadle {

struct HeightFirstOptions {
    int height = 1;
    int rounds = 40;             // of ripping up
    std::int64_t max_work = 0;   // steps
    std::uint64_t seed = 0;
};

struct HeightFirstCounts {
    std::int64_t overload = 0;  // units above capacity that are left; 0 on success
    std::int64_t rounds = 0, reroutes = 0, work = 0;
};

// Status::stuck: no forest of that height was found, which says nothing about whether one exists. `units`: trees of
// weight one rooted at each rank.
Status grow_low_trees(const std::vector<std::int64_t>& units, const HeightFirstOptions& options,
                      const Control& control, RoutedTrees& trees, HeightFirstCounts& counts);

}  // namespace treadle
