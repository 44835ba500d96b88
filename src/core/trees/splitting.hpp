// Switch removal by edge splitting, with the physical paths of every logical arc.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

struct Fabric {
    int n_nodes = 0;
    std::vector<int> compute;           // node indices
    std::vector<std::int64_t> root;     // r(v) per compute node
    std::vector<int> tail, head;        // physical links
    std::vector<std::int64_t> capacity;  // units; 0 allowed
};

// Logical arcs between compute nodes; each carries path segments, in order, whose units sum to its capacity.
struct LogicalGraph {
    std::vector<int> tail, head;
    std::vector<std::int64_t> capacity;
    std::vector<std::int64_t> segment_offset{0};
    std::vector<int> segment_path;
    std::vector<std::int64_t> segment_units;
    std::vector<std::int64_t> path_offset{0};
    std::vector<int> path_links;
    std::int64_t repairs = 0;  // cuts mended by exchanging split partners
    std::int64_t exact = 0;    // splits whose amount was found by Theorem 28
};

// `mend_limit` caps the cuts mended per level of switches before exact splitting takes over; negative: automatic.
Status remove_switches(const Fabric& fabric, const Control& control, std::int64_t mend_limit, LogicalGraph& result);

// The largest amount of u->w, w->t that can be replaced by u->t without violating condition C (Theorem 28).
std::int64_t splittable_amount(const Fabric& fabric, int u, int w, int t);

}  // namespace treadle
