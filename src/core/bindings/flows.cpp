// Concurrent flows, and the linear program of weighted paths: treadle/synthesis/core_values/flow_values.py.
#include "bindings/arrays.hpp"
#include "flows/concurrent_flow.hpp"
#include "flows/path_simplex.hpp"
#include "flows/priced_routing.hpp"

namespace treadle {
namespace {

using FlowProblemIn = std::tuple<int, Int32In, Int32In, FloatIn, Int32In, FloatRows, FloatIn, Int32In>;
using FlowStartIn = std::tuple<FloatRows, FloatIn>;
using FlowOptionsIn = std::tuple<double, double, std::int64_t, int, bool>;
using PathProgramIn = std::tuple<FloatIn, FloatIn, Int32In, Int64In, Int32In>;
using PathBasisIn = std::tuple<Int32In, Int32In, Int32In>;

FlowProblem to_flow_problem(const FlowProblemIn& given) {
    const auto& [n_nodes, tail, head, capacity, source, demand, weight, orbit] = given;
    return {n_nodes,     static_cast<int>(tail.shape(0)), static_cast<int>(source.shape(0)), tail.data(),
            head.data(), capacity.data(),                 source.data(),                     demand.data(),
            weight.data(), orbit.data()};
}

// Empty `flow` or `length`: none.
FlowOptions to_flow_options(const FlowOptionsIn& given, const FlowStartIn& start) {
    const auto& [gap, time_limit_s, max_iterations, threads, wide] = given;
    const auto& [flow, length] = start;
    return {gap, time_limit_s, max_iterations, threads, wide, flow.shape(0) ? flow.data() : nullptr,
            length.shape(0) ? length.data() : nullptr};
}

// The last two numbers are the demand that no path serves: its source, counted, and its node.
auto concurrent_flow(const FlowProblemIn& problem, const FlowStartIn& start, const FlowOptionsIn& options,
                     ControlIn control) {
    FlowResult found;
    Status status;
    {
        nb::gil_scoped_release release;
        status = maximise_concurrent_flow(to_flow_problem(problem), to_flow_options(options, start),
                                          Control{control.data()}, found);
    }
    return std::make_tuple(static_cast<int>(status),
                           std::make_tuple(to_numpy(std::move(found.flow)), to_numpy(std::move(found.length)),
                                           found.load, found.bound, found.iterations, found.certificates),
                           std::make_tuple(found.failed_source, found.failed_node));
}

auto priced_routing(const FlowProblemIn& problem, FloatIn length, double spread, bool by_source, int threads,
                    ControlIn control) {
    PricedRouting found;
    Status status;
    {
        nb::gil_scoped_release release;
        status = route_by_lengths(to_flow_problem(problem), length.data(), spread, by_source, threads,
                                  Control{control.data()}, found);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(found.flow)), found.distance,
                           std::make_tuple(found.failed_source, found.failed_node));
}

PathProgram to_path_program(const PathProgramIn& given) {
    const auto& [capacity, demand, pair, offset, links] = given;
    return {static_cast<int>(capacity.shape(0)),
            static_cast<int>(demand.shape(0)),
            static_cast<int>(pair.shape(0)),
            capacity.data(),
            demand.data(),
            pair.data(),
            offset.data(),
            links.data()};
}

auto path_simplex(const PathProgramIn& program, const PathBasisIn& start, std::int64_t most_pivots,
                  ControlIn control) {
    PathBasis basis;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto& [key, column, slack] = start;
        basis.key = to_vector<std::int32_t>(key);
        basis.column = to_vector<std::int32_t>(column);
        basis.slack = to_vector<std::int32_t>(slack);
        status = solve_path_program(to_path_program(program), most_pivots, Control{control.data()}, basis);
    }
    return std::make_tuple(static_cast<int>(status),
                           std::make_tuple(to_numpy(std::move(basis.key)), to_numpy(std::move(basis.column)),
                                           to_numpy(std::move(basis.slack))),
                           basis.pivots);
}

}  // namespace

void bind_flows(nb::module_& m) {
    m.def("concurrent_flow", &concurrent_flow, nb::arg("problem"), nb::arg("start"), nb::arg("options"),
          nb::arg("control"));
    m.def("priced_routing", &priced_routing, nb::arg("problem"), nb::arg("length"), nb::arg("spread"),
          nb::arg("by_source"), nb::arg("threads"), nb::arg("control"));
    m.def("path_simplex", &path_simplex, nb::arg("program"), nb::arg("basis"), nb::arg("most_pivots"),
          nb::arg("control"));
}

}  // namespace treadle
