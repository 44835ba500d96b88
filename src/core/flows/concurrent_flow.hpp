// Maximum concurrent flow by source: per source a flow that delivers its demands, so that the fullest link is as
// empty as possible. Restarted reflected Halpern iterations of the primal-dual hybrid gradient method; every answer
// stands on a certificate computed in doubles: a repaired flow with its loads, and link lengths with their distances.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

struct FlowProblem {
    int n_nodes = 0, n_links = 0, n_sources = 0;
    const std::int32_t *tail = nullptr, *head = nullptr;  // no self-loops
    const double* capacity = nullptr;                     // positive
    const std::int32_t* source = nullptr;
    const double* demand = nullptr;        // (n_sources, n_nodes), not negative, 0 at the source
    const double* weight = nullptr;        // how many equivalent sources each one stands for
    const std::int32_t* orbit = nullptr;   // of each link, from 0 on: links of one orbit share their load evenly
};

struct FlowOptions {
    double gap = 1e-3;
    double time_limit_s = 0;  // 0: none
    std::int64_t max_iterations = 0;
    int threads = 1;
    bool wide = false;                     // doubles in the iterations, too
    const double* start_flow = nullptr;    // (n_sources, n_links), or null
    const double* start_length = nullptr;  // (n_links), or null
};

struct FlowResult {
    std::vector<double> flow;    // (n_sources, n_links): delivers every demand; rounding may deliver a trace more
    std::vector<double> length;  // (n_links), positive, sum of capacity times length is 1
    double load = 0;             // largest load over capacity of `flow`
    double bound = 0;            // least such load that `length` allows
    std::int64_t iterations = 0, certificates = 0;
    std::int32_t failed_source = -1, failed_node = -1;  // demand that no path serves
};

// ok: the gap is reached; stuck: iterations or time ran out, the result is the incumbent; violated: an unreachable
// demand; cancelled: no result.
Status maximise_concurrent_flow(const FlowProblem& problem, const FlowOptions& options, const Control& control,
                                FlowResult& result);

}  // namespace treadle
