// Forests whose trees are trees of shortest paths: every node at its distance from every root.
#pragma once
#include <cstdint>

#include "control.hpp"
#include "trees/packing.hpp"

namespace treadle {

// At every node the roots are assigned to the in-arcs whose tails are one hop nearer to them: a transport problem of its
// own, solved exactly. If all have a solution, they are a forest. Status::stuck: such a forest does not exist, or its
// tables would have more than `most_cells` cells of 8 bytes, or its trees more than `most_trees`.
// Without `wanted` no trees are made: that there are some shows that no cut is violated.
Status shortest_trees(const PackingProblem& problem, bool wanted, std::int64_t most_cells, std::int64_t most_trees,
                      const Control& control, TreePacking& result);

}  // namespace treadle
