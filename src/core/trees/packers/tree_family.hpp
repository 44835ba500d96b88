// Weighted spanning out-trees of one digraph as parent arrays, with the loads they put on its arcs.
#pragma once
#include <cstdint>
#include <vector>

#include "trees/packing.hpp"

namespace treadle {

// Arcs are numbered by head: those into v are in_start[v] up to in_start[v + 1], by rising tail.
class TreeFamily {
   public:
    using Node = std::uint16_t;
    static constexpr Node kNone = 65535;  // parent of the root
    static constexpr int kMaxNodes = 65535;

    std::vector<int> in_start, in_tail, out_start, out_head;
    std::vector<std::int64_t> capacity, load;  // by arc
    std::vector<int> root;                     // by tree
    std::vector<std::int64_t> weight;          // by tree: units it takes of every arc it uses
    std::int64_t work = 0;                     // steps so far, for limits that do not depend on the machine

    // One tree for each root and weight; the problem's own multiplicities are not looked at.
    TreeFamily(const PackingProblem& problem, std::vector<int> tree_root, std::vector<std::int64_t> tree_weight);

    int n_nodes() const { return n_; }
    int n_trees() const { return static_cast<int>(root.size()); }
    Node* parents(int tree) { return parent_.data() + static_cast<std::size_t>(tree) * n_; }
    Node* depths(int tree) { return depth_.data() + static_cast<std::size_t>(tree) * n_; }
    int arc(int tail, int head) const;
    int height() const;

    // Of parents that were written without `hang`.
    void count_children();
    // May v, with all below it, hang on u, no node of the tree deeper than `limit`?
    bool can_hang(int tree, int v, int u, int limit);
    void hang(int tree, int v, int u);
    // So many units of the tree become a tree of their own, equal so far; its number.
    int split(int tree, std::int64_t units);

    template <class Visit>
    void for_children(int tree, int x, Visit visit) {
        const Node* parent = parents(tree);
        int left = children_[static_cast<std::size_t>(tree) * n_ + x];
        for (int i = out_start[x]; left > 0; i++) {
            work++;
            if (parent[out_head[i]] == x) left--, visit(out_head[i]);
        }
    }
    // v and everything below it.
    const std::vector<int>& subtree(int tree, int v);

   private:
    int n_;
    std::vector<Node> parent_, depth_, children_;  // row-major (tree, node)
    std::vector<int> below_;
};

}  // namespace treadle
