// Messages as fluids that flow over all links of their paths at a time, with max-min fair rates.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

// The graph is run `n_slices` times at once; a flow of a slice begins after the same flow of the slice before has left.
struct FluidGraph {
    std::int32_t n_flows = 0, n_resources = 0;
    const std::int64_t* resource_offset = nullptr;  // resources of flow i, each named once; none: takes no time
    const std::int32_t* resource = nullptr;
    const double* capacity = nullptr;           // of each resource, per second
    const double* work = nullptr;               // of each flow
    const double* before = nullptr;             // seconds between the last signal and the start
    const double* after = nullptr;              // seconds between the end and the signals that it sends
    const std::int64_t* edge_offset = nullptr;  // edges of flow i are edge_offset[i] up to edge_offset[i + 1]
    const std::int32_t* edge_target = nullptr;
    const std::int32_t* edge_from_start = nullptr;  // 1: the signal goes when the flow starts; 0: when it has ended
};

struct FluidTimeline {
    std::int64_t done = 0, last = -1;  // flows that ended; one whose signal is the last
    std::vector<double> start, end;    // (n_slices, n_flows), seconds; negative: never; `end` includes `after`
};

Status run_flows(const FluidGraph& graph, std::int32_t n_slices, const Control& control, FluidTimeline& timeline);

}  // namespace treadle
