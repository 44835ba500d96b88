// Paths that climb orders of the links: treadle/synthesis/core_values/flow_values.py.
#include "bindings/arrays.hpp"
#include "flows/climbing.hpp"

namespace treadle {
namespace {

using ClimbProblemIn = std::tuple<int, Int32In, Int32In, Int32In, FloatRows, Int32Rows>;
using AnnealingIn = std::tuple<std::int64_t, double, double, std::uint64_t>;

ClimbProblem to_climb_problem(const ClimbProblemIn& given) {
    const auto& [n_nodes, tail, head, source, demand, order] = given;
    return {n_nodes,     static_cast<int>(tail.shape(0)), static_cast<int>(source.shape(0)),
            static_cast<int>(order.shape(0)), tail.data(), head.data(),
            source.data(), order.data(), demand.data()};
}

auto climb_paths(const ClimbProblemIn& problem, FloatIn length) {
    ClimbTable table;
    {
        nb::gil_scoped_release release;
        climb(to_climb_problem(problem), length.data(), table);
    }
    return std::make_tuple(to_numpy(std::move(table.distance)), to_numpy(std::move(table.last)),
                           to_numpy(std::move(table.before)));
}

auto climb_loads(const ClimbProblemIn& problem, FloatIn length) {
    std::vector<double> load;
    {
        nb::gil_scoped_release release;
        climbing_loads(to_climb_problem(problem), length.data(), load);
    }
    return to_numpy(std::move(load));
}

auto anneal_link_orders(const ClimbProblemIn& problem, FloatRows lengths, const AnnealingIn& annealing,
                        ControlIn control) {
    std::vector<std::int32_t> found;
    double cost = 0;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto& [steps, hot, cold, seed] = annealing;
        const AnnealOptions options{static_cast<int>(lengths.shape(0)), lengths.data(), steps, hot, cold, seed};
        status = anneal_orders(to_climb_problem(problem), options, Control{control.data()}, found, cost);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(found)), cost);
}

}  // namespace

void bind_climbing(nb::module_& m) {
    m.def("climb_paths", &climb_paths, nb::arg("problem"), nb::arg("length"));
    m.def("climb_loads", &climb_loads, nb::arg("problem"), nb::arg("length"));
    m.def("anneal_link_orders", &anneal_link_orders, nb::arg("problem"), nb::arg("lengths"), nb::arg("annealing"),
          nb::arg("control"));
}

}  // namespace treadle
