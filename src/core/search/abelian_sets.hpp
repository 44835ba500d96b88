// Generator sets of abelian Cayley digraphs: few steps, and breadth-first broadcast with little traffic.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

// A product of cyclic groups, elements numbered in mixed radix with the last factor fastest, and what is sought.
struct AbelianProblem {
    std::vector<std::int32_t> moduli;
    int degree = 0;
    bool two_way = false;  // only sets closed under inverses
    int target = 0;        // most steps
};

struct AbelianPace {
    std::int64_t work = 0;  // words of bit sets touched, about a nanosecond each
    std::uint64_t seed = 0;
    std::int64_t bar = 0;  // only sets of lower cost are of use
};

// The best set: its cost is the sum of the loads over the steps times lcm(1, ..., degree); empty if none is below
// the bar. `missed` are the nodes beyond the target of the set that misses fewest.
struct AbelianSet {
    std::vector<std::int32_t> generators;
    std::int64_t cost = -1;
    int steps = 0, missed = 0;
    std::int64_t tried = 0;  // generator sets
};

// `starts` holds sets to begin with, `degree` numbers each.
Status search_abelian(const AbelianProblem& problem, const AbelianPace& pace, const std::vector<std::int32_t>& starts,
                      const Control& control, AbelianSet& result);

}  // namespace treadle
