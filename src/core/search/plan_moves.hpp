// Plans of a graph of pairs made better by changing one node at a time, under a sum of maxima of linear forms.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/pair_tables.hpp"

namespace treadle {

// Sum over groups of weight * the largest form; limited forms above the limit are in excess.
struct MinimaxForms {
    std::size_t n_forms = 0;
    const std::int32_t* start = nullptr;  // by form, the place of its first term, and the end
    const std::int32_t* quantity = nullptr;
    const double* coefficient = nullptr;
    const std::int32_t* group = nullptr;  // by form: its group, -1 for none
    std::vector<double> weight;           // by group
    const std::int32_t* limited = nullptr;  // by form: whether
    double limit = 0.0;                     // infinity for none
};

// Labels are places in the domains. Moves at a price for each unit of excess, infinity where excess counts before all else, until none is left or
// `most_sweeps` passes over all nodes are done.
void improve_plan(const PairTables& tables, const Domains& domains, const MinimaxForms& forms, double price,
                  int most_sweeps, std::vector<std::int32_t>& label);

}  // namespace treadle
