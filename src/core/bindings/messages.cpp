// Message passing on graphs of pairs, and moves of plans.
#include "bindings/arrays.hpp"
#include "search/pair_tables.hpp"
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

// PairTables(n_states, unary, tail, head, edge, start, quantity, amount, banned), Domains(state, start),
// MinimaxForms(start, quantity, coefficient, group, weight, limited, limit): see the same file.
using PairTablesIn = std::tuple<Int32In, FloatRows, Int32In, Int32In, Int32In, Int32In, Int32In, UInt64In,
                                UInt64In>;
using DomainsIn = std::tuple<Int64In, Int64In>;
using MinimaxFormsIn = std::tuple<Int32In, Int32In, FloatIn, Int32In, FloatIn, Int32In, double>;

PairTables tables_of(const PairTablesIn& given) {
    const auto& [n_states, unary, tail, head, edge, start, quantity, amount, banned] = given;
    PairTables found{n_states.data(), n_states.shape(0), unary.shape(1), unary.data(), tail.data(), head.data(),
                     tail.shape(0),   edge.data(),       start.data(),   quantity.data(), {}, {}};
    for (std::uint64_t one : to_vector<std::uint64_t>(amount)) found.amount.push_back(reinterpret_cast<const double*>(one));
    for (std::uint64_t one : to_vector<std::uint64_t>(banned))
        found.banned.push_back(reinterpret_cast<const std::uint8_t*>(one));
    return found;
}

Domains domains_of(const DomainsIn& given) { return {std::get<0>(given).data(), std::get<1>(given).data()}; }

// Edge after edge, a row for each state of the tail that is left.
auto add_up(const PairTablesIn& tables, const DomainsIn& domains, FloatIn weights) {
    std::vector<double> found;
    {
        nb::gil_scoped_release release;
        found = pair_energies(tables_of(tables), domains_of(domains), weights.data());
    }
    return to_numpy(std::move(found));
}

// By state that is left, whether it stays.
auto find_partners(const PairTablesIn& tables, const DomainsIn& domains) {
    std::vector<std::uint8_t> found;
    {
        nb::gil_scoped_release release;
        found = states_with_partners(tables_of(tables), domains_of(domains));
    }
    return to_numpy(std::move(found));
}

// The labels.
auto move_nodes(const PairTablesIn& tables, const DomainsIn& domains, const MinimaxFormsIn& forms, Int32In labels,
                double price, int most_sweeps) {
    std::vector<std::int32_t> found;
    {
        nb::gil_scoped_release release;
        const auto& [start, term, coefficient, group, weight, limited, limit] = forms;
        const MinimaxForms aim{group.shape(0),     start.data(),   term.data(), coefficient.data(), group.data(),
                               to_vector<double>(weight), limited.data(), limit};
        found = to_vector<std::int32_t>(labels);
        improve_plan(tables_of(tables), domains_of(domains), aim, price, most_sweeps, found);
    }
    return to_numpy(std::move(found));
}

}  // namespace

void bind_messages(nb::module_& m) {
    m.def("reweighted_trees", &pass_messages, nb::arg("energies"), nb::arg("messages"), nb::arg("most_passes"),
          nb::arg("tolerance"));
    m.def("pair_energies", &add_up, nb::arg("tables"), nb::arg("domains"), nb::arg("weights"));
    m.def("states_with_partners", &find_partners, nb::arg("tables"), nb::arg("domains"));
    m.def("improve_plan", &move_nodes, nb::arg("tables"), nb::arg("domains"), nb::arg("forms"), nb::arg("labels"),
          nb::arg("price"), nb::arg("most_sweeps"));
}

}  // namespace treadle
