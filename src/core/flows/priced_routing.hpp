// A routing of all demands for given link lengths: a source's data is split over its short paths, the more over a path
// the shorter it is. Source: Dial, A probabilistic multipath traffic assignment model which obviates path enumeration
// (Transportation Research 5, 1971), algorithm STOCH.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"
#include "flows/concurrent_flow.hpp"

namespace treadle {

struct PricedRouting {
    // Loads of all links, sources by their weights; or, by source, shape (n_sources, n_links), without weights.
    std::vector<double> flow;
    double distance = 0;  // demand times shortest length, sources by their weights
    std::int32_t failed_source = -1, failed_node = -1;
};

// `spread`: excess length at which a path gets 1/e of what a shortest one gets. Links lead from a node that is nearer
// to the source to one that is farther, so that flows have no cycles. violated: an unreachable demand; cancelled.
Status route_by_lengths(const FlowProblem& problem, const double* length, double spread, bool by_source, int threads,
                        const Control& control, PricedRouting& found);

}  // namespace treadle
