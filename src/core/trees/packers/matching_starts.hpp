// Where the matching of trees to in-arcs begins.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"
#include "trees/packers/tree_family.hpp"

namespace treadle {

// Every tree a tree of shortest paths, with few trees on each arc for its capacity; loads may exceed capacities. False if
// some root does not reach all nodes, or it was cancelled. Ties are broken by the seed.
bool start_breadth_first(TreeFamily& family, std::uint64_t seed, const Control& control);

// Trees that grow one after the other by the arcs that are least loaded so far. Likewise.
bool start_priced(TreeFamily& family, std::uint64_t seed, const Control& control);

// The different weights of trees, the greatest first.
std::vector<std::int64_t> weights_of(const TreeFamily& family);

}  // namespace treadle
