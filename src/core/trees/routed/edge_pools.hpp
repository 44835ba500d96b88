// Tree edges by where they may be exchanged.
//
// Two tree edges of different trees whose paths pass one node, a switch or the receiver, may exchange what comes before
// that node: no link's load changes. So every edge is listed at each node that its path passes, by the rank that sends.
// Lists are only added to; an edge that has left is dropped where it is met.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trees/routed/routed_trees.hpp"

namespace treadle {

struct TreeEdge {
    int tree = -1, node = -1;  // the edge that the node hangs by
};

class EdgePools {
   public:
    explicit EdgePools(const RoutedTrees& trees) : trees_(trees) { fill(); }

    // Edges, some of them gone, that `sender` sends and whose paths pass the node.
    std::vector<TreeEdge>& at(int sender, int node) {
        return pools_[static_cast<std::size_t>(node) * trees_.n_ranks() + sender];
    }
    bool holds(const TreeEdge& edge, int sender, int node) const {
        if (trees_.root[edge.tree] == edge.node) return false;
        const int path = trees_.paths(edge.tree)[edge.node];
        return trees_.sender(path) == sender && trees_.passes(path, node);
    }
    std::int64_t listed() const { return listed_; }  // entries since the pools were filled

    void add(int tree, int node) {
        const int path = trees_.paths(tree)[node], sender = trees_.sender(path);
        for (const int* e = trees_.path_begin(path); e != trees_.path_end(path); ++e, listed_++)
            at(sender, trees_.network.head[*e]).push_back({tree, node});
    }
    void fill() {
        pools_.assign(static_cast<std::size_t>(trees_.network.n_nodes) * trees_.n_ranks(), {});
        listed_ = 0;
        for (int t = 0; t < trees_.n_trees(); t++)
            for (int v = 0; v < trees_.n_ranks(); v++)
                if (v != trees_.root[t]) add(t, v);
    }

   private:
    const RoutedTrees& trees_;
    std::vector<std::vector<TreeEdge>> pools_;  // by (node, sender)
    std::int64_t listed_ = 0;
};

}  // namespace treadle
