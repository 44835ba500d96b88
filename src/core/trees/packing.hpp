// Spanning-tree packing in a switch-free graph, and the physical paths of the trees.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

struct PackingProblem {
    int n_nodes = 0;
    std::vector<std::int64_t> root;  // r(v), every node
    std::vector<int> tail, head;     // one arc at most per (tail, head)
    std::vector<std::int64_t> capacity;
};

struct TreePacking {
    std::vector<int> root;
    std::vector<std::int64_t> multiplicity;
    std::vector<int> parent;         // row-major (tree, node); -1 at the root
};

struct PackingCounts {
    std::int64_t speculative = 0;  // unit trees grown greedily and checked in batches
    std::int64_t exact = 0;        // unit trees grown with one flow test per edge
};

// Without `speculate` every tree is grown exactly.
Status pack_trees(const PackingProblem& problem, const Control& control, bool speculate, TreePacking& result,
                  PackingCounts& counts);

}  // namespace treadle
