// Plans of a graph of pairs made better by changing one node at a time, under a sum of maxima of linear forms.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace treadle {

// What states cost, in several quantities: by node densely, by edge as tables of one quantity each.
struct PairTables {
    const std::int32_t* n_states = nullptr;  // by node
    std::size_t n_nodes = 0;
    std::size_t n_quantities = 0;
    const double* unary = nullptr;  // a row of quantities for each state, node after node
    const std::int32_t* tail = nullptr;  // by table
    const std::int32_t* head = nullptr;
    const std::int32_t* quantity = nullptr;  // -1: not an amount; what is not 0 is forbidden
    std::size_t n_tables = 0;
    const double* amount = nullptr;  // table after table, a row for each state of the tail
};

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

// Moves at a price for each unit of excess, infinity where excess counts before all else, until none is left or
// `most_sweeps` passes over all nodes are done.
void improve_plan(const PairTables& tables, const MinimaxForms& forms, double price, int most_sweeps,
                  std::vector<std::int32_t>& label);

}  // namespace treadle
