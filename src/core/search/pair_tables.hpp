// Choices that cost by themselves and in pairs, in several quantities; and parts of them with fewer states.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace treadle {

// What states cost: by node densely; by edge as tables, each of amounts that some quantities share.
struct PairTables {
    const std::int32_t* n_states = nullptr;  // by node
    std::size_t n_nodes = 0;
    std::size_t n_quantities = 0;
    const double* unary = nullptr;  // a row of quantities for each state, node after node
    const std::int32_t* tail = nullptr;  // by edge, tail < head
    const std::int32_t* head = nullptr;
    std::size_t n_edges = 0;
    const std::int32_t* edge = nullptr;   // by table, rising
    const std::int32_t* start = nullptr;  // by table, the place of its first quantity, and the end
    const std::int32_t* quantity = nullptr;
    std::vector<const double*> amount;        // by table: a row for each state of the tail
    std::vector<const std::uint8_t*> banned;  // by edge, the same of what is forbidden; null where nothing is
};

// States that are left, ascending.
struct Domains {
    const std::int64_t* state = nullptr;  // node after node
    const std::int64_t* start = nullptr;  // by node, and the end

    std::size_t size(std::size_t node) const { return static_cast<std::size_t>(start[node + 1] - start[node]); }
    const std::int64_t* of(std::size_t node) const { return state + start[node]; }
};

// A weighted sum of the quantities of each edge's states that are left, edge after edge; infinity where forbidden.
std::vector<double> pair_energies(const PairTables& tables, const Domains& domains, const double* weight);

// By state that is left, whether it has an allowed partner at every neighbour, and those have: arc consistency.
std::vector<std::uint8_t> states_with_partners(const PairTables& tables, const Domains& domains);

}  // namespace treadle
