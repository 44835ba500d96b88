// Digraphs that a turn of each orbit of nodes maps to themselves: classes of links exchange heads and turn.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

// Orbit i holds the nodes (i, 0) .. (i, size[i] - 1); of two sizes one divides the other. A class of links leads from
// (tail, a mod size) to (head, a + shift mod size) for a from 0 to the larger of both sizes.
struct OrbitProblem {
    int degree = 0, target = 0;  // degree up to 8, most steps up to 250
    std::vector<std::int32_t> size, tail, head, shift;
    std::vector<std::int32_t> opposite;  // of each class that of the links the other way, maybe itself; or empty
};

struct OrbitPace {
    std::int64_t trials = 0;
    std::uint64_t seed = 0;
    double heat = 0;  // first temperature, as a share of the lower bound of the cost
};

// Cost: as of `SwapGraph`; -1 if the best graph has pairs beyond the target.
struct OrbitGraph {
    std::vector<std::int32_t> tail, head, shift, opposite;
    std::int64_t cost = -1, tried = 0;
};

Status search_orbit_swaps(const OrbitProblem& problem, const OrbitPace& pace, const Control& control,
                          OrbitGraph& result);

}  // namespace treadle
