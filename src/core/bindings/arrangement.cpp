// Items on places: treadle/synthesis/core_values/arrangement_values.py.
#include "bindings/arrays.hpp"
#include "search/arrangement.hpp"

namespace treadle {
namespace {

using ProblemIn = std::tuple<int, Int32In, Int32In, Int32In, Int32In, Int32Rows, std::int64_t>;
using AnnealingIn = std::tuple<std::int64_t, double, double, std::uint64_t>;

auto arrange_items(const ProblemIn& given, Int32In start, const AnnealingIn& annealing, ControlIn control) {
    std::vector<std::int32_t> place = to_vector<std::int32_t>(start);
    std::int64_t cost = 0;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto& [n_kinds, tail, head, place_class, place_kind, price, pair_price] = given;
        const ArrangeProblem problem{static_cast<int>(place_class.shape(0)), static_cast<int>(tail.shape(0)),
                                     static_cast<int>(price.shape(0)), n_kinds, tail.data(), head.data(),
                                     place_class.data(), place_kind.data(), price.data(), pair_price};
        const auto& [steps, hot, cold, seed] = annealing;
        status = arrange(problem, {steps, hot, cold, seed}, Control{control.data()}, place, cost);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(place)), cost);
}

}  // namespace

void bind_arrangement(nb::module_& m) {
    m.def("arrange_items", &arrange_items, nb::arg("problem"), nb::arg("start"), nb::arg("annealing"),
          nb::arg("control"));
}

}  // namespace treadle
