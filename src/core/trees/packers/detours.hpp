// Detours: the subtree at a node hung the other way up, where every other parent of the node lies below it.
#pragma once
#include <cstdint>
#include <vector>

#include "trees/packers/tree_family.hpp"

namespace treadle {

struct Rehang {
    int tree, node, parent;
};

class Detours {
   public:
    explicit Detours(TreeFamily& family);

    // Re-roots the subtree at a node of the tree, no tree higher than `limit`, and then makes the moves of the chain:
    // all of them, or none. Returns how many moves were made in all. With `exchange`, arcs without room count as well
    // if another tree can leave them.
    int reroot(int tree, int node, int limit, const std::vector<Rehang>& chain, bool exchange);

   private:
    struct Step {
        int next = -1;           // node that is to hang here
        int tree = -1, to = -1;  // the tree that makes room for it on the arc, and its new parent
    };

    TreeFamily& family_;
    int node_ = -1, limit_ = 0;
    std::vector<char> inside_, seen_node_;
    std::vector<Step> step_;
    std::vector<Rehang> log_;  // parents before the moves, to take them back

    bool fits(int tree, int arc, std::int64_t freed = 0) const;
    bool find_room(int tree, int node, int arc, Step& step);
    bool try_hang(int tree, int node, int parent);
    int follow(int tree, int outside, const std::vector<Rehang>& chain);
};

}  // namespace treadle
