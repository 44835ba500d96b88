// Routes by local search, their layers, steps of their hops: treadle/synthesis/core_values/column_values.py.
#include "bindings/arrays.hpp"
#include "routes/hop_steps.hpp"
#include "routes/layer_orders.hpp"
#include "routes/order_rounds.hpp"
#include "routes/route_search.hpp"

namespace treadle {
namespace {

using PiecesIn = std::tuple<int, Int32In, Int32In, FloatIn, Int32In, Int64In, Int32In, Int64In>;
using LanePathsIn = std::tuple<Int32In, Int64In, Int32In>;
using PaceIn = std::tuple<int, int, double, double, double, std::uint64_t>;
using WaitPathsIn = std::tuple<int, Int32In, Int32In, Int64In, Int32In, Int64In, int, bool>;

using OrderPaceIn = std::tuple<int, int, std::uint64_t>;
using HopPathsIn = std::tuple<Int64In, Int32In, Int64In, FloatIn>;
using StepPaceIn = std::tuple<int, int, std::int64_t, std::uint64_t, int>;

PieceTable to_pieces(const PiecesIn& given) {
    const auto& [n_nodes, tail, head, width, node, first, target, amount] = given;
    return {n_nodes,      static_cast<int>(tail.shape(0)), static_cast<int>(node.shape(0)), tail.data(), head.data(),
            width.data(), node.data(),                     first.data(),                    target.data(), amount.data()};
}

auto search_lane_paths(const PiecesIn& pieces, Int32Rows lanes, const LanePathsIn& start, const PaceIn& pace,
                       ControlIn control) {
    LanePaths paths;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto& [lane, offset, place] = start;
        if (offset.shape(0)) paths = {to_vector<std::int32_t>(lane), to_vector<std::int64_t>(offset), to_vector<std::int32_t>(place)};
        const ClimbLanes climbed{static_cast<int>(lanes.shape(0)), static_cast<int>(lanes.shape(1)), lanes.data()};
        const auto& [most_hops, sweeps, flat, steep, share, seed] = pace;
        status = search_routes(to_pieces(pieces), climbed, {most_hops, sweeps, flat, steep, share, seed},
                               Control{control.data()}, paths);
    }
    return std::make_tuple(static_cast<int>(status),
                           std::make_tuple(to_numpy(std::move(paths.lane)), to_numpy(std::move(paths.offset)),
                                           to_numpy(std::move(paths.place))));
}

// Every path once, and links that there are: what the core writes to and reads by.
void check_wait_paths(const WaitPathsIn& given) {
    const auto& [n_nodes, tail, head, offset, link, sequence, most_layers, may_rise] = given;
    const std::size_t count = sequence.shape(0), hops = link.shape(0);
    if (offset.shape(0) != count + 1 || offset.data()[0] != 0 || offset.data()[count] != static_cast<std::int64_t>(hops))
        throw std::invalid_argument("first_fit_layers: the sequence has to name every path once");
    std::vector<bool> named(count, false);
    for (std::size_t i = 0; i < count; i++) {
        const std::int64_t path = sequence.data()[i];
        if (path < 0 || path >= static_cast<std::int64_t>(count) || named[path] || offset.data()[i + 1] < offset.data()[i])
            throw std::invalid_argument("first_fit_layers: the sequence has to name every path once");
        named[path] = true;
    }
    for (std::size_t i = 0; i < hops; i++)
        if (link.data()[i] < 0 || link.data()[i] >= static_cast<std::int32_t>(tail.shape(0)))
            throw std::invalid_argument("first_fit_layers: a path takes a link that is not there");
}

auto first_fit_layers(const WaitPathsIn& given, ControlIn control) {
    check_wait_paths(given);
    FilledLayers filled;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto& [n_nodes, tail, head, offset, link, sequence, most_layers, may_rise] = given;
        const WaitPaths paths{n_nodes,
                              static_cast<int>(tail.shape(0)),
                              tail.data(),
                              head.data(),
                              static_cast<std::int64_t>(sequence.shape(0)),
                              offset.data(),
                              link.data(),
                              sequence.data(),
                              most_layers,
                              may_rise};
        status = fill_layers(paths, Control{control.data()}, filled);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(filled.layer)), to_numpy(std::move(filled.order)));
}

auto improve_layer_orders(const PiecesIn& pieces, const LanePathsIn& paths, Int32In distance, Int32Rows orders,
                          const OrderPaceIn& pace, ControlIn control) {
    FilledLayers filled;
    Status status;
    {
        nb::gil_scoped_release release;
        const PieceTable table = to_pieces(pieces);
        const auto& [lane, offset, link] = paths;
        const auto& [most_hops, passes, seed] = pace;
        WaitPaths waits;
        waits.n_nodes = table.n_nodes;
        waits.n_links = table.n_links;
        waits.tail = table.tail;
        waits.head = table.head;
        waits.n_paths = static_cast<std::int64_t>(distance.shape(0));
        waits.offset = offset.data();
        waits.link = link.data();
        filled.order.assign(orders.data(), orders.data() + orders.shape(0) * orders.shape(1));
        status = improve_orders(table, waits, distance.data(), {most_hops, passes, seed}, Control{control.data()}, filled);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(filled.layer)), to_numpy(std::move(filled.order)));
}

auto assign_hop_steps(const HopPathsIn& given, const StepPaceIn& pace, Int64In cap, ControlIn control) {
    std::vector<std::int64_t> caps = to_vector<std::int64_t>(cap);
    std::vector<std::int32_t> step;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto& [offset, link, amount, width] = given;
        const HopPaths paths{static_cast<int>(width.shape(0)), static_cast<std::int64_t>(amount.shape(0)),
                             offset.data(), link.data(), amount.data(), width.data()};
        const auto& [tries, passes, rise, seed, sweeps] = pace;
        status = assign_steps(paths, {tries, passes, rise, seed, sweeps}, Control{control.data()}, caps, step);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(caps)), to_numpy(std::move(step)));
}

}  // namespace

void bind_routes(nb::module_& m) {
    m.def("search_lane_paths", &search_lane_paths, nb::arg("pieces"), nb::arg("lanes"), nb::arg("start"), nb::arg("pace"),
          nb::arg("control"));
    m.def("assign_hop_steps", &assign_hop_steps, nb::arg("paths"), nb::arg("pace"), nb::arg("cap"), nb::arg("control"));
    m.def("improve_layer_orders", &improve_layer_orders, nb::arg("pieces"), nb::arg("paths"), nb::arg("distance"),
          nb::arg("orders"), nb::arg("pace"), nb::arg("control"));
    m.def("first_fit_layers", &first_fit_layers, nb::arg("paths"), nb::arg("control"));
}

}  // namespace treadle
