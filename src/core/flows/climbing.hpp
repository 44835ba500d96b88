// Layers as total orders of the links: paths that climb an order cannot deadlock. Distances over climbing paths, the
// loads of the shortest ones, and a search for orders that keep climbing paths short under many link lengths.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

struct ClimbProblem {
    int n_nodes = 0, n_links = 0, n_sources = 0, n_layers = 0;
    const std::int32_t *tail = nullptr, *head = nullptr, *source = nullptr;
    const std::int32_t* order = nullptr;  // (n_layers, n_links): the links of each layer in their order
    const double* demand = nullptr;       // (n_sources, n_nodes), not negative, 0 at the source
};

struct ClimbTable {
    std::vector<double> distance;      // (n_layers, n_nodes, n_sources), infinite where no path climbs
    std::vector<std::int32_t> last;    // likewise: last link of a shortest path, -1 for none
    std::vector<std::int32_t> before;  // (n_layers, n_links, n_sources): the link before, -1 for none
};

// One pass over the links of every layer; lengths positive. Self-loops are passed over.
void climb(const ClimbProblem& problem, const double* length, ClimbTable& table);

// Load of every link if each demand takes one shortest climbing path, in the first layer that has one; floats.
// Demands that no path serves are left out.
void climbing_loads(const ClimbProblem& problem, const double* length, std::vector<double>& load);

struct AnnealOptions {
    int n_lengths = 0;
    const double* lengths = nullptr;  // (n_lengths, n_links), positive
    std::int64_t steps = 0;
    double hot = 0, cold = 0;         // temperatures at the start and at the end, in units of the cost
    std::uint64_t seed = 0;
};

// Simulated annealing from problem.order. Cost: demand times distance over climbing paths, divided by demand times
// distance over all paths, averaged over the lengths; pairs without a climbing path count as far away.
// ok or cancelled; `order` holds the orders reached either way, and `cost` theirs.
Status anneal_orders(const ClimbProblem& problem, const AnnealOptions& options, const Control& control,
                     std::vector<std::int32_t>& order, double& cost);

}  // namespace treadle
