// What closed forms of pieces need: trees of two hops, units on planes, and paths between the children.
#include "bindings/trees.hpp"
#include "trees/tight_cuts/border_paths.hpp"
#include "trees/tight_cuts/parallel_links.hpp"
#include "trees/tight_cuts/plane_shares.hpp"
#include "trees/tight_cuts/relayed_stars.hpp"

namespace treadle {
namespace {

using PlanePairsIn = std::tuple<Int32In, Int32In, Int64In>;
using PlaneTableIn = std::tuple<int, int, Int32In, Int64In, PlanePairsIn>;
using SegmentsIn = std::tuple<Int32In, Int32In, Int64In>;
using PathRowsIn = std::tuple<Int64In, Int32In>;
using EdgePathsIn = std::tuple<Int64In, Int32In, Int64In>;
using BorderMembersIn = std::tuple<Int32In, Int32In, Int64In, Int64In, Int32In>;

// Counts: trees left without a parent, exchanges, steps.
auto relayed_stars(int n_nodes, Int64In root, Int64In capacity, std::int64_t max_work, ControlIn control) {
    TreePacking found;
    RelayedStarsCounts counts;
    Status status;
    {
        nb::gil_scoped_release release;
        status = relay_stars(n_nodes, to_vector<std::int64_t>(root), to_vector<std::int64_t>(capacity), max_work,
                             Control{control.data()}, found, counts);
    }
    return std::make_tuple(static_cast<int>(status), from_packing(std::move(found)),
                           std::make_tuple(counts.left, counts.exchanges, counts.work));
}

PlaneTable to_plane_table(const PlaneTableIn& given) {
    const auto& [n_groups, n_planes, group, units, pairs] = given;
    const auto& [root, child, pair_units] = pairs;
    return {static_cast<int>(group.shape(0)),
            n_groups,
            n_planes,
            to_vector<int>(group),
            to_vector<std::int64_t>(units),
            {to_vector<int>(root), to_vector<int>(child), to_vector<std::int64_t>(pair_units)}};
}

auto settle(const PlaneTableIn& table, Int64In need_out, Int64In need_in, ControlIn control) {
    PlanePairs found;
    Status status;
    {
        nb::gil_scoped_release release;
        status = settle_planes(to_plane_table(table), to_vector<std::int64_t>(need_out),
                               to_vector<std::int64_t>(need_in), Control{control.data()}, found);
    }
    return std::make_tuple(static_cast<int>(status),
                           std::make_tuple(to_numpy(std::move(found.root)), to_numpy(std::move(found.child)),
                                           to_numpy(std::move(found.units))));
}

auto spread_paths(Int32In link_tail, Int32In link_head, const SegmentsIn& given_segments, const PathRowsIn& given_paths,
                  std::int64_t max_cells) {
    Segments segments;
    Paths paths;
    {
        nb::gil_scoped_release release;
        const auto& [arc, path, units] = given_segments;
        const auto& [offset, links] = given_paths;
        segments = {to_vector<int>(arc), to_vector<int>(path), to_vector<std::int64_t>(units)};
        paths = {to_vector<std::int64_t>(offset), to_vector<int>(links)};
        spread_evenly(to_vector<int>(link_tail), to_vector<int>(link_head), max_cells, segments, paths);
    }
    return std::make_tuple(std::make_tuple(to_numpy(std::move(segments.arc)), to_numpy(std::move(segments.path)),
                                           to_numpy(std::move(segments.units))),
                           std::make_tuple(to_numpy(std::move(paths.offset)), to_numpy(std::move(paths.links))));
}

BorderTrees to_border_trees(int n_children, const TreeRowsIn& trees, const EdgePathsIn& paths,
                            const BorderMembersIn& members) {
    const auto& [offset, path, units] = paths;
    const auto& [start, end, label_offset, label_units, label_member] = members;
    return {n_children,
            to_packing(trees),
            {to_vector<std::int64_t>(offset), to_vector<int>(path), to_vector<std::int64_t>(units)},
            to_vector<int>(start),
            to_vector<int>(end),
            to_vector<std::int64_t>(label_offset),
            to_vector<std::int64_t>(label_units),
            to_vector<int>(label_member)};
}

// Trees with one path an edge, and these paths, row-major (tree, child).
auto assign_borders(int n_children, const TreeRowsIn& trees, const EdgePathsIn& paths, const BorderMembersIn& members) {
    TreePacking found;
    std::vector<int> path;
    Status status;
    {
        nb::gil_scoped_release release;
        status = assign_border_paths(to_border_trees(n_children, trees, paths, members), found, path);
    }
    return std::make_tuple(static_cast<int>(status), from_packing(std::move(found)), to_numpy(std::move(path)));
}

}  // namespace

void bind_closed_forms(nb::module_& m) {
    m.def("relayed_stars", &relayed_stars, nb::arg("n_nodes"), nb::arg("multiplicity"), nb::arg("capacity"),
          nb::arg("max_work"), nb::arg("control"));
    m.def("settle_planes", &settle, nb::arg("table"), nb::arg("need_out"), nb::arg("need_in"), nb::arg("control"));
    m.def("spread_paths", &spread_paths, nb::arg("link_tail"), nb::arg("link_head"), nb::arg("segments"),
          nb::arg("paths"), nb::arg("max_cells"));
    m.def("assign_border_paths", &assign_borders, nb::arg("n_children"), nb::arg("trees"), nb::arg("paths"),
          nb::arg("members"));
}

}  // namespace treadle
