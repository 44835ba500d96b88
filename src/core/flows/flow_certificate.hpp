// Both sides of a concurrent flow's certificate: distances under link lengths, and flows that deliver the demands.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "flows/concurrent_flow.hpp"
#include "worker_pool.hpp"

namespace treadle {

constexpr int flow_lanes = 16;  // sources side by side in a block
constexpr int most_slots = 16;

// The problem with links sorted by head and sources in blocks; idle lanes of the last block have no demand.
struct FlowLayout {
    explicit FlowLayout(const FlowProblem& problem);

    int n, m, sources, blocks;
    std::vector<std::int64_t> first_in;            // of each node, n + 1
    std::vector<std::int32_t> tail, head, link;    // of each place in that order; `link` is the caller's number
    std::vector<double> capacity;
    std::vector<std::int32_t> orbit;
    std::vector<double> orbit_size;
    std::vector<std::int32_t> source;              // of each lane; idle lanes: 0
    std::vector<double> weight;                    // of each lane; idle lanes: 0
    const double* demand;                          // (sources, n)
    double total_weight = 0;

    int lane_count(int block) const {
        const int left = sources - block * flow_lanes;
        return left < flow_lanes ? left : flow_lanes;
    }
    // Slots: shares of the work. Sums run over slots in order, so results do not depend on the number of threads.
    int slots() const { return blocks < most_slots ? blocks : most_slots; }
    int first_block(int slot) const {
        return static_cast<int>(static_cast<std::int64_t>(blocks) * slot / slots());
    }
    void share_in_orbits(std::vector<double>& load) const;
    double fullest(const std::vector<double>& load) const;
};

// Distances from the sources of a block, (n, lanes); `length` by place, positive.
void block_distances(const FlowLayout& layout, const double* length, int block, std::vector<double>& distance);

// Sum of weight * demand * distance over the block; -1, with the pair in `failed`, if a demand cannot be served.
double block_demand_distance(const FlowLayout& layout, int block, const std::vector<double>& distance,
                             std::int32_t failed[2]);

// Turns any flow >= 0 into one that delivers at least the demands: nodes from the farthest to the nearest, what is
// lacking is fetched along the shortest path, and what is too much is cut from the links from nearer nodes.
class FlowRepair {
public:
    explicit FlowRepair(const FlowLayout& layout);

    std::vector<double> flow;  // of one source by place: in and out

    // `rounds` > 1: cut what is too much from all links, again and again, until next to nothing is.
    void run(int lane, const std::vector<double>& distance, const double* length, int rounds);

    // Even split over the links of shortest paths, in proportion to capacity.
    void split_evenly(int lane, const std::vector<double>& distance, const double* length);

private:
    void rank_nodes(int lane, const std::vector<double>& distance);

    const FlowLayout& layout_;
    std::vector<double> lack_, far_;
    std::vector<std::pair<double, std::int32_t>> ranked_;
    std::vector<std::int32_t> order_;
};

}  // namespace treadle
