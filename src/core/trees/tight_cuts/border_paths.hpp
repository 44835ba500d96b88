// Which path a unit tree takes between two sets: one that leaves a set by the member by which the tree came in.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"
#include "trees/packing.hpp"
#include "trees/tree_paths.hpp"

namespace treadle {

// Trees of a piece whose children are sets: `start` and `end` are the members of the children at which a path starts
// and ends, -1 for none.
struct BorderTrees {
    int n_children = 0;
    TreePacking trees;
    TreePaths paths;  // of each tree edge, with units
    std::vector<int> start, end;
    std::vector<std::int64_t> label_offset;  // of each child: its unit trees in order, by the member that has them
    std::vector<std::int64_t> label_units;
    std::vector<int> label_member;
};

// Rows of unit trees with one path an edge; `path` is row-major (row, child), -1 at the root. Every pair of children
// keeps its paths and how many unit trees take each, so no link's load changes. Status::stuck: an edge has fewer units
// of paths than its tree.
Status assign_border_paths(const BorderTrees& given, TreePacking& rows, std::vector<int>& path);

}  // namespace treadle
