// Items on places in racks (or other classes), joined items on classes that are near each other, or few pairs of classes joined.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

struct ArrangeProblem {
    int n_items = 0;  // one on each place
    int n_edges = 0;
    int n_classes = 0;
    int n_kinds = 0;
    const std::int32_t* tail = nullptr;
    const std::int32_t* head = nullptr;
    const std::int32_t* place_class = nullptr;  // by place
    const std::int32_t* place_kind = nullptr;   // by place; items change places with others of their kind
    const std::int32_t* price = nullptr;        // of an edge by the classes of its ends, row-major
    std::int64_t pair_price = 0;                // of each pair of classes that some edge joins, in either direction
};

struct ArrangeOptions {
    std::int64_t steps = 0;
    double hot = 1;
    double cold = 1;
    std::uint64_t seed = 0;
};

// Swaps by simulated annealing, from the places that are given to the best seen; `cost` is theirs.
Status arrange(const ArrangeProblem& problem, const ArrangeOptions& options, Control control,
               std::vector<std::int32_t>& place, std::int64_t& cost);

}  // namespace treadle
