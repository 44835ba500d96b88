// Breadth-first-broadcast schedules: every node u receives the shard of each node at distance t in step t, over the
// in-links whose tail is at distance t - 1. Independent balancing problems, one per (u, t).
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "control.hpp"

namespace treadle {

// Links into each node by head, without self-loops: those of u are offset[u] .. offset[u + 1] - 1.
struct InLinks {
    int n = 0;
    const std::int64_t* offset = nullptr;
    const std::int32_t* tail = nullptr;
};

// Distances as the caller has them: row 0 to the receiver, rows 1 .. d to the tails of its in-links; row-major.
struct DistanceRows {
    int n = 0, degree = 0;
    const std::uint16_t* rows = nullptr;
};

// Place of a failure: a source that does not reach a node, or the node and step whose capacities do not suffice.
struct Failure {
    std::int32_t node = -1, other = -1;
};

// Largest jobs-to-weight ratio of each step (the load of the fullest link, in shards per unit of weight).
struct StepLoads {
    std::vector<std::int64_t> numerator, denominator;
    std::vector<std::int32_t> worst;  // a receiver that attains it
    Failure failure;
};

// Sends by step, then by receiver and source.
struct SendArrays {
    std::vector<std::int64_t> step_offset;
    std::int64_t size = 0;
    std::unique_ptr<std::int32_t[]> shard, link, low, high;
    Failure failure;
};

// Receivers whose jobs in one step exceed the capacities: so many jobs, and all the in-links that they may use.
struct CutJobs {
    std::vector<std::int32_t> node;
    std::vector<std::int64_t> jobs, offset{0};
    std::vector<std::int32_t> links;  // positions among all in-links; of cut i from offset[i] on
    Failure failure;
};

// Up to `transform_limit` in-links by a sum over subsets, above by Newton's iteration with flows.
Status step_loads(const InLinks& in, const std::int64_t* weight, int transform_limit, const Control& control,
                  StepLoads& result);
Status step_loads(const DistanceRows& rows, const std::int64_t* weight, int transform_limit, StepLoads& result);

// Chunks a link may carry: one value per step, or one per step and in-link, row-major.
struct StepCapacities {
    const std::int64_t* values = nullptr;
    std::int64_t size = 0;
    int steps = 0;
};

Status bfb_sends(const InLinks& in, const std::int32_t* link, const StepCapacities& capacities, std::int64_t chunks,
                 const Control& control, SendArrays& result);

// A cut for every receiver whose jobs in `step`, `units` each, exceed the capacities of its in-links.
Status find_cuts(const InLinks& in, int step, const __int128* capacity, __int128 units, const Control& control,
                 CutJobs& result);

}  // namespace treadle
