// Primal simplex method for weighted paths: every pair's shares add up to 1, and the load of no link exceeds T times
// its capacity; T is minimised. Generalised upper bounds (Dantzig and Van Slyke, 1967): each pair has a key path that
// takes up what its other paths leave, so that the working basis has one row per link instead of one per link and pair.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

struct PathProgram {
    int n_links = 0, n_pairs = 0, n_columns = 0;
    const double* capacity = nullptr;      // positive
    const double* demand = nullptr;        // of each pair, positive
    const std::int32_t* pair = nullptr;    // of each column
    const std::int64_t* offset = nullptr;  // n_columns + 1
    const std::int32_t* links = nullptr;   // of column p: links[offset[p]:offset[p + 1]], none twice
};

struct PathBasis {
    std::vector<std::int32_t> key;     // column of each pair
    std::vector<std::int32_t> column;  // basic columns that are no keys
    std::vector<std::int32_t> slack;   // links whose spare capacity is basic; with T and `column`: n_links in all
    std::int64_t pivots = 0;
};

// From `basis`; if it has no slacks, from the keys alone. The right sides are perturbed a little against cycling, so
// the basis is optimal for them and nearly so without. ok; stuck: too many pivots or too little precision, the basis
// is what was reached; cancelled likewise.
Status solve_path_program(const PathProgram& program, std::int64_t most_pivots, const Control& control,
                          PathBasis& basis);

}  // namespace treadle
