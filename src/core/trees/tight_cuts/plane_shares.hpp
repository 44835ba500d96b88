// Units of pairs moved from plane to plane until every node sends and is sent what it has on each plane.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

struct PlanePairs {
    std::vector<int> root, child;     // in any order
    std::vector<std::int64_t> units;  // row-major (pair, plane)
};

struct PlaneTable {
    int n = 0, groups = 0, planes = 0;
    std::vector<int> group;           // of each node
    std::vector<std::int64_t> units;  // row-major (group, group, plane), as of EvenShares in Python
    PlanePairs pairs;                 // those that have other units than the groups say
};

// need_out, need_in: row-major (node, plane), what nodes are to send and be sent more (less, if negative); each row
// sums to 0. Units move from plane to plane within pairs, so that these keep their totals, and none falls below 0.
// Status::stuck: moves in reach do not suffice, which says nothing about whether others do.
Status settle_planes(const PlaneTable& table, const std::vector<std::int64_t>& need_out,
                     const std::vector<std::int64_t>& need_in, const Control& control, PlanePairs& result);

}  // namespace treadle
