// Ways over links with room: how a node of a tree comes to hang higher up in capacity that no tree uses.
#pragma once
#include <cstdint>
#include <vector>

#include "trees/routed/routed_trees.hpp"

namespace treadle {

class FreeRoutes {
   public:
    explicit FreeRoutes(const RoutedTrees& trees);

    // Links from the first of the senders that reaches the node through relays over links with room for the tree; empty
    // if none does. What the tree's own path to the node takes counts as free. `work` counts the links looked at.
    const std::vector<int>& find(int tree, int node, const std::vector<int>& senders, std::int64_t& work);

   private:
    const RoutedTrees& trees_;
    std::vector<std::vector<int>> relays_in_, out_;  // links from relays into a node; links out of it
    std::vector<int> next_link_;                     // of a relay that was reached: towards the node
    std::vector<char> reached_, own_;                // nodes; links of the own path
    std::vector<int> reached_list_, route_;
};

}  // namespace treadle
