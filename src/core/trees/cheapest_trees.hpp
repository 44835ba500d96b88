// Cheapest trees of one group of nodes, with the links they take: columns of linear programs over trees.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

// Arcs by number, with lengths that are not negative.
struct PricedGraph {
    int n_nodes = 0;
    std::vector<int> tail, head;
    std::vector<std::int64_t> length;
};

// Row after row of as many entries as there are members: a tree for each root asked for, and last each member's nearest,
// itself perhaps, by a path that leaves it and returns.
struct CheapestTrees {
    Status status = Status::ok;        // stuck: some members do not reach others
    std::vector<int> parent;           // place of the member above; -1 at the root, and where nothing is near
    std::vector<std::int64_t> start;   // by entry, and the end: where the path from the member above begins in `arc`
    std::vector<int> arc;              // in the order from root to leaf
};

// For each root (places of members) a minimum spanning arborescence of the members, whose edges are shortest paths that
// pass no member. If `is_centre`, the only root need not be reached by the others. The sum of all lengths, times the
// members, must be below 2^60.
//
// A member with twins that are not given is near to those of its kind by the way that leads back to itself.
CheapestTrees cheapest_trees(const PricedGraph& graph, const std::vector<int>& members, const std::vector<int>& roots,
                             bool is_centre, const Control& control);

}  // namespace treadle
