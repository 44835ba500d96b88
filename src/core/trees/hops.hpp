// Hops through a fabric, and down trees.
#pragma once
#include <cstddef>
#include <vector>

namespace treadle {

// Most hops from a source to a compute node; arcs into other nodes count nothing. -1: some node is not reached.
int hop_eccentricity(int n_nodes, const std::vector<int>& tail, const std::vector<int>& head,
                     const std::vector<int>& compute, const std::vector<int>& sources);

// Most hops from a root down to a node. `parent` is row-major (tree, node), -1 at the root; without cycles.
int forest_height(const int* parent, std::size_t n_trees, std::size_t n_nodes);

}  // namespace treadle
