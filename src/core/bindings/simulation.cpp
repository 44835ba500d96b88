// Simulations: treadle/simulation/core_values.py.
#include "bindings/arrays.hpp"
#include "simulate/fluid.hpp"
#include "simulate/simulate.hpp"

namespace treadle {
namespace {

using TaskArraysIn = std::tuple<int, Int32In, Int64In, Int64In, Int32In, Int64In>;
using FluidArraysIn = std::tuple<Int64In, Int32In, FloatIn, FloatIn, FloatIn, FloatIn, Int64In, Int32In, Int32In>;

TaskGraph to_task_graph(const TaskArraysIn& given) {
    const auto& [n_resources, resource, duration, edge_offset, edge_target, edge_shift] = given;
    return {static_cast<std::int32_t>(resource.shape(0)),
            n_resources,
            resource.data(),
            duration.data(),
            edge_offset.data(),
            edge_target.data(),
            edge_shift.data()};
}

auto simulate_tasks(const TaskArraysIn& graph, int n_slices, int order, bool with_binding, std::int64_t horizon,
                    ControlIn control) {
    Timeline timeline;
    Status status;
    {
        nb::gil_scoped_release release;
        status = run_tasks(to_task_graph(graph), n_slices, static_cast<Order>(order), with_binding, horizon,
                           Control{control.data()}, timeline);
    }
    return std::make_tuple(static_cast<int>(status),
                           std::make_tuple(timeline.finish, timeline.done, timeline.last,
                                           to_numpy(std::move(timeline.start)), to_numpy(std::move(timeline.binding)),
                                           timeline.is_beyond));
}

FluidGraph to_fluid_graph(const FluidArraysIn& given) {
    const auto& [resource_offset, resource, capacity, work, before, after, edge_offset, edge_target, from_start] = given;
    return {static_cast<std::int32_t>(work.shape(0)),
            static_cast<std::int32_t>(capacity.shape(0)),
            resource_offset.data(),
            resource.data(),
            capacity.data(),
            work.data(),
            before.data(),
            after.data(),
            edge_offset.data(),
            edge_target.data(),
            from_start.data()};
}

auto simulate_flows(const FluidArraysIn& graph, int n_slices, ControlIn control) {
    FluidTimeline timeline;
    Status status;
    {
        nb::gil_scoped_release release;
        status = run_flows(to_fluid_graph(graph), n_slices, Control{control.data()}, timeline);
    }
    return std::make_tuple(static_cast<int>(status),
                           std::make_tuple(timeline.done, timeline.last, to_numpy(std::move(timeline.start)),
                                           to_numpy(std::move(timeline.end))));
}

}  // namespace

void bind_simulation(nb::module_& m) {
    m.def("simulate_tasks", &simulate_tasks, nb::arg("graph"), nb::arg("n_slices"), nb::arg("order"),
          nb::arg("with_binding"), nb::arg("horizon"), nb::arg("control"));
    m.def("simulate_flows", &simulate_flows, nb::arg("graph"), nb::arg("n_slices"), nb::arg("control"));
}

}  // namespace treadle
