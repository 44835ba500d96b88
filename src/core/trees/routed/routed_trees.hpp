// Weighted spanning out-trees whose edges carry physical paths, with the loads they put on links.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "trees/graphs.hpp"
#include "trees/packing.hpp"

namespace treadle {

// Nodes 0 .. n_ranks - 1 are spanned by the trees; the others only relay.
struct Network {
    int n_ranks = 0, n_nodes = 0;
    std::vector<int> tail, head;  // links; parallel ones may occur
    std::vector<std::int64_t> capacity;
};

// Trees whose arcs are made of paths: every tree takes the units of an arc's segments in order.
struct RoutedForest {
    LogicalGraph graph;
    TreePacking trees;
};

class RoutedTrees {
   public:
    using Node = std::uint16_t;
    static constexpr Node kNone = 65535;  // parent of the root, and of nodes that have not joined
    static constexpr int kMaxRanks = 65535;

    const Network network;
    std::vector<int> root;             // by tree
    std::vector<std::int64_t> weight;  // by tree, > 0
    std::vector<std::int64_t> load;    // by link

    explicit RoutedTrees(Network given);

    int n_ranks() const { return network.n_ranks; }
    int n_trees() const { return static_cast<int>(root.size()); }
    const Node* parents(int tree) const { return parent_.data() + row(tree); }
    const int* paths(int tree) const { return path_.data() + row(tree); }
    Node* depths(int tree) { return depth_.data() + row(tree); }
    const Node* depths(int tree) const { return depth_.data() + row(tree); }
    int height(int tree) const;
    int height() const;

    int add_tree(int at, std::int64_t weight);
    // The tree keeps `rest` units less; a new tree like it has those.
    int split_off(int tree, std::int64_t rest);

    // Equal lists of links have equal numbers.
    int path_of(const std::vector<int>& links);
    const int* path_begin(int path) const { return path_links_.data() + path_offset_[path]; }
    const int* path_end(int path) const { return path_links_.data() + path_offset_[path + 1]; }
    int sender(int path) const { return network.tail[*path_begin(path)]; }
    bool passes(int path, int node) const;  // its sender does not count
    // The first path as far as `node`, then the second one from there on; loops are left out.
    int splice(int path, int node, int other);
    // Units of the link that would be free if a tree edge of that weight left `path`.
    std::int64_t room(int link) const { return network.capacity[link] - load[link]; }

    // v, with what hangs below it, hangs on the path's sender; depths are left as they are.
    void relink(int tree, int v, int path);
    // Hops from the root, by parents alone; -1 if v hangs in a cycle.
    int climb(int tree, int v) const;
    bool is_below(int tree, int x, int v) const;  // or v itself; by depths
    template <class Visit>
    void for_children(int tree, int x, Visit visit) const {
        const std::size_t at = row(tree);
        for (Node y = first_child_[at + x]; y != kNone;) {
            const Node next = next_[at + y];
            visit(static_cast<int>(y));
            y = next;
        }
    }
    // v and everything below it, parents first.
    const std::vector<int>& subtree(int tree, int v);
    void settle_depths(int tree, int v);

    // What is needed to come back to a state; paths are kept anyway.
    struct Snapshot {
        std::vector<int> root, path;
        std::vector<std::int64_t> weight;
    };
    Snapshot snapshot() const { return {root, path_, weight}; }
    void restore(const Snapshot& state);

    // Trees with equal parents are one tree; arcs carry the paths in use.
    void write(RoutedForest& forest) const;

   private:
    std::size_t row(int tree) const { return static_cast<std::size_t>(tree) * network.n_ranks; }
    void detach(int tree, int v);
    void attach(int tree, int v, int u);

    std::vector<Node> parent_, depth_, first_child_, next_, previous_;  // row-major (tree, rank)
    std::vector<int> path_;                                             // into the rank; -1
    std::vector<std::int64_t> path_offset_{0};
    std::vector<int> path_links_;
    std::unordered_multimap<std::uint64_t, int> known_;  // hash of links -> path
    std::vector<int> below_, joined_;
};

// Trees of the forest with one path per edge: a tree is cut where a segment of one of its arcs ends. False: that takes
// more than `max_cells` trees times ranks.
bool route_trees(const RoutedForest& forest, std::int64_t max_cells, RoutedTrees& trees);

}  // namespace treadle
