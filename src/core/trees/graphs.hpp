// The graphs that the stages of synthesis hand to each other.
#pragma once
#include <cstdint>
#include <vector>

namespace treadle {

// A fabric with r(v) trees to be rooted at each compute node v.
struct Fabric {
    int n_nodes = 0;
    std::vector<int> compute;            // node indices
    std::vector<std::int64_t> root;      // r(v) per compute node
    std::vector<int> tail, head;         // physical links
    std::vector<std::int64_t> capacity;  // units; 0 allowed
};

// Arcs between compute nodes; each carries path segments, in order, whose units sum to its capacity.
struct LogicalGraph {
    std::vector<int> tail, head;
    std::vector<std::int64_t> capacity;
    std::vector<std::int64_t> segment_offset{0};  // by arc, into the next two
    std::vector<int> segment_path;
    std::vector<std::int64_t> segment_units;
    std::vector<std::int64_t> path_offset{0};  // by path, into the next
    std::vector<int> path_links;               // physical links
};

}  // namespace treadle
