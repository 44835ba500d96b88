// Sequential tree-reweighted message passing (TRW-S) on choices that cost by themselves and in pairs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace treadle {

// Energies of a graph of pairs: infinity forbids a pair of states.
struct PairEnergies {
    const std::int32_t* n_states = nullptr;  // by node
    std::size_t n_nodes = 0;
    const std::int32_t* tail = nullptr;  // by edge, tail < head
    const std::int32_t* head = nullptr;
    std::size_t n_edges = 0;
    const double* unary = nullptr;  // node after node
    const double* pair = nullptr;   // edge after edge, a row for each state of the tail
};

struct TreePasses {
    double minima = 0.0;        // sum of the nodes' minima after the last forward pass
    double minima_before = 0.0; // after the backward pass before it
    double sent = 0.0;          // sum of the messages' largest magnitudes
    std::vector<std::int32_t> label;
    std::vector<double> slack;   // node after node
    std::vector<double> message; // edge after edge: to the tail's states, to the head's
};

// Passes backward and forward until a pair of them gains less than `tolerance` of the sum, at most `most_passes` pairs.
TreePasses reweighted_trees(const PairEnergies& energies, std::vector<double> message, int most_passes, double tolerance);

}  // namespace treadle
