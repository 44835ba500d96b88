// The cheapest arborescences of groups of nodes under shortest-path distances: what proves bounds of groups at once.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

// Arcs with lengths that are not negative; passing: paths may go through the node.
struct LengthGraph {
    std::vector<int> tail, head;
    std::vector<__int128> length;
    std::vector<char> passing;  // by node
};

struct Arborescences {
    Status status = Status::ok;    // stuck: `group` is not joined up; violated: it is too large for a table of distances
    int group = -1;
    std::vector<__int128> weight;  // by group and member; where there is a root, by group
};

// For each group of `size` members and each of these (or only the one at place `root`, if that is not -1), the weight of
// the minimum spanning arborescence of the group from there; an arc between two members is as long as the shortest path
// between them through passing nodes. The sum of all lengths, times `size`, must be below 2^125.
Arborescences group_arborescences(const LengthGraph& graph, const std::vector<int>& members, int size, int root,
                                  const Control& control);

}  // namespace treadle
