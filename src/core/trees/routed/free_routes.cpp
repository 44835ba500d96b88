#include "trees/routed/free_routes.hpp"

#include <cstddef>

namespace treadle {

FreeRoutes::FreeRoutes(const RoutedTrees& trees)
    : trees_(trees), relays_in_(trees.network.n_nodes), out_(trees.network.n_nodes),
      next_link_(trees.network.n_nodes, -1), reached_(trees.network.n_nodes, 0), own_(trees.network.tail.size(), 0) {
    const auto& net = trees.network;
    for (int e = 0; e < static_cast<int>(net.tail.size()); e++) {
        out_[net.tail[e]].push_back(e);
        if (net.tail[e] >= trees.n_ranks()) relays_in_[net.head[e]].push_back(e);
    }
}

const std::vector<int>& FreeRoutes::find(int tree, int node, const std::vector<int>& senders, std::int64_t& work) {
    const std::int64_t units = trees_.weight[tree];
    const auto& net = trees_.network;
    const int old = trees_.paths(tree)[node];
    for (const int* e = trees_.path_begin(old); e != trees_.path_end(old); ++e) own_[*e] = 1;
    const auto open = [&](int e) { return trees_.room(e) + (own_[e] ? units : 0) >= units; };
    // Backwards from the node through relays, so that one search serves all senders.
    for (int x : reached_list_) reached_[x] = 0;
    reached_list_.assign(1, node);
    reached_[node] = 1;
    for (std::size_t i = 0; i < reached_list_.size(); i++)
        for (int e : relays_in_[reached_list_[i]]) {
            work++;
            const int relay = net.tail[e];
            if (reached_[relay] || !open(e)) continue;
            reached_[relay] = 1;
            next_link_[relay] = e;
            reached_list_.push_back(relay);
        }
    route_.clear();
    for (std::size_t i = 0; i < senders.size() && route_.empty(); i++)
        for (int e : out_[senders[i]]) {
            work++;
            if (!reached_[net.head[e]] || !open(e)) continue;
            route_.push_back(e);
            break;
        }
    for (const int* e = trees_.path_begin(old); e != trees_.path_end(old); ++e) own_[*e] = 0;
    while (!route_.empty() && net.head[route_.back()] != node) route_.push_back(next_link_[net.head[route_.back()]]);
    return route_;
}

}  // namespace treadle
