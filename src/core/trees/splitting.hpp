// Switch removal by edge splitting, with the physical paths of every logical arc.
#pragma once
#include <cstdint>

#include "control.hpp"
#include "trees/graphs.hpp"

namespace treadle {

struct SplitCounts {
    std::int64_t mended = 0;  // cuts mended by exchanging split partners
    std::int64_t exact = 0;   // splits whose amount was found by Theorem 28
};

// `mend_limit` caps the cuts mended per level of switches before exact splitting takes over; negative: automatic.
Status remove_switches(const Fabric& fabric, const Control& control, std::int64_t mend_limit, LogicalGraph& result,
                       SplitCounts& counts);

// The largest amount of u->w, w->t that can be replaced by u->t without violating condition C (Theorem 28).
std::int64_t splittable_amount(const Fabric& fabric, int u, int w, int t);

}  // namespace treadle
