// Physical paths for the edges of trees of a logical graph.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace treadle {

// Arcs of a logical graph, and the paths that make up the capacity of each.
struct ArcSegments {
    std::vector<int> tail, head;
    std::vector<std::int64_t> offset;  // by arc, into the two below
    std::vector<int> path;
    std::vector<std::int64_t> units;
};

struct TreePaths {
    std::vector<std::int64_t> offset{0};  // by (tree, node)
    std::vector<int> path;
    std::vector<std::int64_t> units;
};

// Segments are handed out to the trees in order; trees are rows of parents, -1 at the root. False if a tree uses what
// is no arc, or more of one than it has.
bool assign_paths(int n_nodes, const ArcSegments& arcs, const int* parent, const std::vector<std::int64_t>& multiplicity,
                  TreePaths& result);

}  // namespace treadle
