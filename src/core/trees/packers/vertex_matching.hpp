// Spanning out-trees packed vertex by vertex: at every node trees are matched to in-arcs along augmenting paths.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"
#include "trees/packing.hpp"

namespace treadle {

enum class Start : int { breadth_first = 0, priced = 1 };

struct MatchingOptions {
    Start start = Start::breadth_first;
    bool detours = false;       // re-root subtrees where matching alone is stuck
    int most_trees = 0;         // so many at most, when those that are too heavy to move are split
    int first_height = 0;       // no tree higher than this; raised by one ...
    int last_height = 0;        // ... up to this where the matching is stuck
    std::int64_t max_work = 0;  // steps before giving up
    std::uint64_t seed = 0;
};

struct Matching {
    TreePacking packing;  // identical trees once, with multiplicity
    std::int64_t height = 0, rehangs = 0, splits = 0, detours = 0, work = 0;
    std::int64_t overload = 0;  // units above capacity that are left; 0 on success
};

// One spanning tree for each root and weight, those of one root together. Status::stuck: no packing found, which
// says nothing about whether one exists.
Status match_vertices(const PackingProblem& problem, std::vector<int> tree_root, std::vector<std::int64_t> tree_weight,
                      const MatchingOptions& options, const Control& control, Matching& result);

}  // namespace treadle
