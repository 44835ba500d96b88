// Regular digraphs near a given one: links exchange heads until few steps and little traffic remain.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

// A digraph with as many links into each node as out of it, and what is sought.
struct SwapProblem {
    int n = 0, degree = 0;                // degree up to 8
    std::vector<std::int32_t> tails, heads;
    std::vector<std::int32_t> home;       // head at which a link counts as unchanged; -1: wherever it leads
    std::vector<std::int32_t> opposite;   // of each link that the other way, which moves with it; or empty
    int target = 0;                       // most steps
    int most_changed = 0;                 // links away from home
};

struct SwapPace {
    std::int64_t trials = 0;
    std::uint64_t seed = 0;
    std::int64_t bar = 0;  // only graphs of lower cost are of use
};

// Cost: loads of the steps of an allgather and a reduce-scatter, summed up, times lcm(1, ..., degree); -1 if the best
// graph has pairs beyond the target or self-loops, `missed` of both.
struct SwapGraph {
    std::vector<std::int32_t> heads;
    std::int64_t cost = -1, missed = 0, tried = 0;
};

Status search_link_swaps(const SwapProblem& problem, const SwapPace& pace, const Control& control, SwapGraph& result);

}  // namespace treadle
