// Message passing on graphs of pairs.
#include "bindings/arrays.hpp"
#include "search/tree_reweighted.hpp"

namespace treadle {
namespace {

// PairEnergies(n_states, tail, head, unary, pair): see treadle/parallelism/search/core_values.py.
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

}  // namespace

void bind_messages(nb::module_& m) {
    m.def("reweighted_trees", &pass_messages, nb::arg("energies"), nb::arg("messages"), nb::arg("most_passes"),
          nb::arg("tolerance"));
}

}  // namespace treadle
