// Steps for the hops of given paths, within what each step may carry.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

struct HopPaths {
    int n_links = 0;
    std::int64_t n_paths = 0;
    const std::int64_t* offset = nullptr;
    const std::int32_t* link = nullptr;
    const std::int64_t* amount = nullptr;  // by path
    const double* width = nullptr;         // by link, at least 1
};

struct StepPace {
    int tries = 0;   // passes without less excess before a cap rises
    int passes = 0;  // over the paths that are in excess, at most
    std::int64_t rise = 1;  // by which a cap rises
    std::uint64_t seed = 0;
    int sweeps = 0;  // at exponential prices, before that
};

// A rising step for every hop, so that a link of width w carries at most w * cap[t] in step t; caps rise where the
// search is stuck. Status::stuck: some load is above its cap after all passes (caps are then raised to hold).
Status assign_steps(const HopPaths& paths, const StepPace& pace, const Control& control, std::vector<std::int64_t>& cap,
                    std::vector<std::int32_t>& step);

}  // namespace treadle
