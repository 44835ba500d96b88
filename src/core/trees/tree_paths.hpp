// Physical paths for the edges of trees of a logical graph.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "control.hpp"
#include "trees/graphs.hpp"

namespace treadle {

// The paths of every tree edge, and how many of its units take each.
struct TreePaths {
    std::vector<std::int64_t> offset{0};  // by (tree, node)
    std::vector<int> path;
    std::vector<std::int64_t> units;
};

// Trees take the units of an arc's segments in order; trees are rows of parents, -1 at the root. Status::stuck if a tree
// uses what is no arc, or more of one than it has.
Status assign_paths(int n_nodes, const LogicalGraph& arcs, const int* parent, const std::vector<std::int64_t>& multiplicity,
                  TreePaths& result);

}  // namespace treadle
