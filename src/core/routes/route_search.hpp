// Paths of an all-to-all by local search on link lengths that grow exponentially with the load.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

// Pieces of demand by source: piece i of source s has first[s] <= i < first[s + 1].
struct PieceTable {
    int n_nodes = 0;
    int n_links = 0;
    int n_sources = 0;
    const std::int32_t* tail = nullptr;
    const std::int32_t* head = nullptr;
    const double* width = nullptr;         // capacity by link, positive
    const std::int32_t* node = nullptr;    // by source
    const std::int64_t* first = nullptr;   // n_sources + 1
    const std::int32_t* target = nullptr;  // node by piece
    const std::int64_t* amount = nullptr;  // by piece
};

// Sequences of links that paths climb; a link may stand in one several times. None: paths are free.
struct ClimbLanes {
    int n_lanes = 0;
    int length = 0;
    const std::int32_t* link = nullptr;  // lane after lane
};

// Places in the lane, or links where paths are free; an empty path has yet to be found.
struct LanePaths {
    std::vector<std::int32_t> lane;
    std::vector<std::int64_t> offset;
    std::vector<std::int32_t> place;
};

struct SearchPace {
    int most_hops = 0;
    int sweeps = 0;
    double flat = 15;      // steepness of the lengths in the first sweep
    double steep = 1500;   // and in the last
    double share = 0.3;    // of a source's pieces that are looked at in one visit
    std::uint64_t seed = 0;
};

// Status::stuck: some pieces have no path (they stay empty). When cancelled, the paths so far.
Status search_routes(const PieceTable& pieces, const ClimbLanes& lanes, const SearchPace& pace, const Control& control,
                     LanePaths& paths);

}  // namespace treadle
