// Lower trees: whole trees are grown anew in what the others leave, and take single arcs from each other.
#pragma once
#include <cstdint>

#include "control.hpp"
#include "trees/packing.hpp"

namespace treadle {

struct RegrowthOptions {
    int lowest = 1;              // no forest can be lower
    std::int64_t max_work = 0;   // steps
    std::int64_t max_cells = 0;  // trees times nodes; trees are not split beyond
    std::uint64_t seed = 0;
};

struct RegrowthCounts {
    std::int64_t before = 0, after = 0;  // heights
    std::int64_t regrown = 0, exchanges = 0, splits = 0, work = 0;
};

// The packing must be within the problem's capacities, and stays so; its height never rises. When cancelled or out of
// steps, the lowest forest so far is left. The problem's own roots are not looked at.
void regrow_trees(const PackingProblem& problem, const RegrowthOptions& options, const Control& control,
                  TreePacking& packing, RegrowthCounts& counts);

}  // namespace treadle
