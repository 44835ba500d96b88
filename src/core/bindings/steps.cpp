// Breadth-first broadcast: treadle/synthesis/core_values/step_values.py.
#include "bindings/arrays.hpp"
#include "steps/bfb.hpp"

namespace treadle {
namespace {

using InLinksIn = std::tuple<Int64In, Int32In>;
using WideArrayIn = std::tuple<Int64In, UInt64In>;

InLinks to_in_links(const InLinksIn& given) {
    const auto& [offset, tail] = given;
    return {static_cast<int>(offset.shape(0)) - 1, offset.data(), tail.data()};
}

DistanceRows to_rows(const UInt16Rows& rows) {
    return {static_cast<int>(rows.shape(1)), static_cast<int>(rows.shape(0)) - 1, rows.data()};
}

std::vector<__int128> to_wide_vector(const WideArrayIn& given) {
    const auto& [high, low] = given;
    std::vector<__int128> values;
    for (std::size_t i = 0; i < high.shape(0); i++) values.push_back(to_wide(high.data()[i], low.data()[i]));
    return values;
}

auto from_failure(const Failure& failure) { return std::make_tuple(failure.node, failure.other); }

auto from_loads(Status status, StepLoads loads) {
    return std::make_tuple(static_cast<int>(status),
                           std::make_tuple(to_numpy(std::move(loads.numerator)), to_numpy(std::move(loads.denominator)),
                                           to_numpy(std::move(loads.worst))),
                           from_failure(loads.failure));
}

auto from_sends(Status status, SendArrays sends) {
    const auto size = static_cast<std::size_t>(status == Status::ok ? sends.size : 0);
    return std::make_tuple(
        static_cast<int>(status),
        std::make_tuple(to_numpy(std::move(sends.step_offset)), to_numpy(std::move(sends.shard), size),
                        to_numpy(std::move(sends.link), size), to_numpy(std::move(sends.low), size),
                        to_numpy(std::move(sends.high), size)),
        from_failure(sends.failure));
}

auto bfb_loads(const InLinksIn& in, Int64In weight, int transform_limit, ControlIn control) {
    StepLoads loads;
    Status status;
    {
        nb::gil_scoped_release release;
        status = step_loads(to_in_links(in), weight.data(), transform_limit, Control{control.data()}, loads);
    }
    return from_loads(status, std::move(loads));
}

auto bfb_orbit_loads(UInt16Rows rows, Int64In weight, int transform_limit) {
    StepLoads loads;
    Status status;
    {
        nb::gil_scoped_release release;
        status = step_loads(to_rows(rows), weight.data(), transform_limit, loads);
    }
    return from_loads(status, std::move(loads));
}

// `capacity` has one value per step, or one per step and in-link, row-major.
auto bfb_split(const InLinksIn& in, Int32In link, Int64In capacity, int steps, std::int64_t chunks,
               ControlIn control) {
    SendArrays sends;
    Status status;
    {
        nb::gil_scoped_release release;
        const StepCapacities capacities{capacity.data(), static_cast<std::int64_t>(capacity.shape(0)), steps};
        status = bfb_sends(to_in_links(in), link.data(), capacities, chunks, Control{control.data()}, sends);
    }
    return from_sends(status, std::move(sends));
}

// `capacity` of each in-link, and the units of a job, in 128 bits.
auto bfb_cuts(const InLinksIn& in, int step, const WideArrayIn& capacity, const WideIn& units, ControlIn control) {
    CutJobs cuts;
    Status status;
    {
        nb::gil_scoped_release release;
        const std::vector<__int128> capacities = to_wide_vector(capacity);
        status = find_cuts(to_in_links(in), step, capacities.data(), to_wide(std::get<0>(units), std::get<1>(units)),
                           Control{control.data()}, cuts);
    }
    return std::make_tuple(static_cast<int>(status),
                           std::make_tuple(to_numpy(std::move(cuts.node)), to_numpy(std::move(cuts.jobs)),
                                           to_numpy(std::move(cuts.offset)), to_numpy(std::move(cuts.links))),
                           from_failure(cuts.failure));
}

}  // namespace

void bind_steps(nb::module_& m) {
    m.def("bfb_loads", &bfb_loads, nb::arg("in_links"), nb::arg("weight"), nb::arg("transform_limit"),
          nb::arg("control"));
    m.def("bfb_orbit_loads", &bfb_orbit_loads, nb::arg("rows"), nb::arg("weight"), nb::arg("transform_limit"));
    m.def("bfb_split", &bfb_split, nb::arg("in_links"), nb::arg("link"), nb::arg("capacity"), nb::arg("steps"),
          nb::arg("chunks"), nb::arg("control"));
    m.def("bfb_cuts", &bfb_cuts, nb::arg("in_links"), nb::arg("step"), nb::arg("capacity"), nb::arg("units"),
          nb::arg("control"));
}

}  // namespace treadle
