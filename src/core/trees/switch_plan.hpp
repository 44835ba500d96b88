// How the units that arrive at a switch are paired with those that leave it.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace treadle {

// Units of a switch that wait for a partner, by the node that they come from or go to.
struct Ports {
    std::vector<int> node;
    std::vector<std::int64_t> units;
};

using NodePair = std::pair<int, int>;
using SwitchPlan = std::map<NodePair, std::int64_t>;  // (u, t) -> units of u->w, w->t to be replaced by u->t

// `group`: of each node its box, pod or the like. What is forbidden is not paired, and may be left over.
SwitchPlan plan_switch(Ports arriving, Ports leaving, const std::vector<char>& is_compute,
                       const std::vector<int>& group, const std::set<NodePair>& forbidden);

}  // namespace treadle
