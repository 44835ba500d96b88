// Forests of height two: a tree reaches most nodes from its root, and the others through these.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"
#include "trees/packing.hpp"

namespace treadle {

struct RelayedStarsCounts {
    std::int64_t left = 0, exchanges = 0, work = 0;  // trees without a parent of some node; exchanges; steps
};

// root[v] trees from node v; capacity[u * n + v] of arc (u, v). Status::stuck: none was found, which says
// nothing about whether one exists.
Status relay_stars(int n, const std::vector<std::int64_t>& root, const std::vector<std::int64_t>& capacity,
                   std::int64_t max_work, const Control& control, TreePacking& result, RelayedStarsCounts& counts);

}  // namespace treadle
