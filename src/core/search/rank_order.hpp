// Ranks on the nodes of a fabric such that groups of ranks have short trees that load links evenly.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

// A regular digraph as trees see it; for sums, its transpose.
struct TreeGraph {
    int n = 0;
    int degree = 0;
    const std::int32_t* tails = nullptr;     // by link
    const std::int32_t* into = nullptr;      // links into each node, ascending, row-major
    const std::int32_t* distance = nullptr;  // from each node to each, row-major
};

// Ranks r, r + stride, ..., r + (size - 1) stride are a group, and so on for all ranks.
struct RankGroups {
    int size = 0;
    int stride = 0;
    int graph = 0;
    double hop_price = 0;       // of the longest distance within a group
    double load_price = 0;      // of the load of links, their fourth-power mean
    double distance_price = 0;  // of the distances within groups together
};

struct TreeFigures {
    std::int64_t fullest = 0;
    std::int64_t longest = 0;
    std::int64_t distance_sum = 0;
};

// Shortest-path trees from every member of each group to the others, pruned to them, one tree after the other by
// the least loaded links. `members` has the nodes of a group after those of another.
TreeFigures tree_figures(const TreeGraph& graph, const std::int32_t* members, int n_groups, int size);

struct RankPace {
    std::int64_t work = 0;  // links to look at; 0: only the cost of the start
    double hot = 0;         // what a swap may cost in the beginning, as a part of the cost
    std::uint64_t seed = 0;
};

// Swaps of two ranks from the order that is given (by rank, its node) to the best seen; `cost` is its.
Status order_ranks(const std::vector<TreeGraph>& graphs, const std::vector<RankGroups>& kinds, const RankPace& pace,
                   Control control, std::vector<std::int32_t>& order, double& cost);

}  // namespace treadle
