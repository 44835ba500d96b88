// Message passing on graphs of pairs, and moves of plans.
#include "bindings/arrays.hpp"
#include "search/plan_moves.hpp"
#include "search/tree_reweighted.hpp"

namespace treadle {
namespace {

// PairEnergies(n_states, tail, head, unary, pair): see treadle/parallelism/search/core_search_values.py.
using PairEnergiesIn = std::tuple<Int32In, Int32In, Int32In, FloatIn, FloatIn>;

// The sums of minima after the last forward pass and before it, the messages' magnitude; labels; slack; messages.
auto pass_messages(const PairEnergiesIn& energies, FloatIn messages, int most_passes, double tolerance) {
    TreePasses found;
    {
        nb::gil_scoped_release release;
        const auto& [n_states, tail, head, unary, pair] = energies;
        const PairEnergies graph{n_states.data(), n_states.shape(0), tail.data(), head.data(),
                                 tail.shape(0),   unary.data(),      pair.data()};
        found = reweighted_trees(graph, to_vector<double>(messages), most_passes, tolerance);
    }
    return std::make_tuple(std::make_tuple(found.minima, found.minima_before, found.sent), to_numpy(std::move(found.label)),
                           to_numpy(std::move(found.slack)), to_numpy(std::move(found.message)));
}

// PairTables(n_states, unary, tail, head, quantity, amount), MinimaxForms(start, quantity, coefficient, group, weight,
// limited, limit): see the same file.
using PairTablesIn = std::tuple<Int32In, FloatRows, Int32In, Int32In, Int32In, FloatIn>;
using MinimaxFormsIn = std::tuple<Int32In, Int32In, FloatIn, Int32In, FloatIn, Int32In, double>;

// The labels.
auto move_nodes(const PairTablesIn& tables, const MinimaxFormsIn& forms, Int32In labels, double price, int most_sweeps) {
    std::vector<std::int32_t> found;
    {
        nb::gil_scoped_release release;
        const auto& [n_states, unary, tail, head, quantity, amount] = tables;
        const auto& [start, term, coefficient, group, weight, limited, limit] = forms;
        const PairTables graph{n_states.data(), n_states.shape(0), unary.shape(1),   unary.data(), tail.data(),
                               head.data(),     quantity.data(),   tail.shape(0), amount.data()};
        const MinimaxForms aim{group.shape(0),     start.data(),   term.data(), coefficient.data(), group.data(),
                               to_vector<double>(weight), limited.data(), limit};
        found = to_vector<std::int32_t>(labels);
        improve_plan(graph, aim, price, most_sweeps, found);
    }
    return to_numpy(std::move(found));
}

}  // namespace

void bind_messages(nb::module_& m) {
    m.def("reweighted_trees", &pass_messages, nb::arg("energies"), nb::arg("messages"), nb::arg("most_passes"),
          nb::arg("tolerance"));
    m.def("improve_plan", &move_nodes, nb::arg("tables"), nb::arg("forms"), nb::arg("labels"), nb::arg("price"),
          nb::arg("most_sweeps"));
}

}  // namespace treadle
