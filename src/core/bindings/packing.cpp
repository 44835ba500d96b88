// Packers of trees in graphs without switches, and what is asked of forests of such trees.
#include "bindings/trees.hpp"
#include "trees/hops.hpp"
#include "trees/packers/shortest_trees.hpp"
#include "trees/packers/tree_regrowth.hpp"
#include "trees/packers/vertex_matching.hpp"
#include "trees/tree_paths.hpp"

namespace treadle {
namespace {

using MatchingOptionsIn = std::tuple<int, bool, int, int, int, std::int64_t, std::uint64_t>;

auto pack(Int64In root, const ArcsIn& arcs, bool speculate, ControlIn control) {
    TreePacking packing;
    PackingCounts counts;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto problem = to_packing_problem(static_cast<int>(root.shape(0)), arcs, to_vector<std::int64_t>(root));
        status = pack_trees(problem, Control{control.data()}, speculate, packing, counts);
    }
    return std::make_tuple(static_cast<int>(status), from_packing(std::move(packing)),
                           std::make_tuple(counts.speculative, counts.exact));
}

auto forest_of_shortest_paths(Int64In root, const ArcsIn& arcs, bool wanted, std::int64_t most_cells,
                              std::int64_t most_trees, ControlIn control) {
    TreePacking found;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto problem = to_packing_problem(static_cast<int>(root.shape(0)), arcs, to_vector<std::int64_t>(root));
        status = shortest_trees(problem, wanted, most_cells, most_trees, Control{control.data()}, found);
    }
    return std::make_tuple(static_cast<int>(status), from_packing(std::move(found)));
}

MatchingOptions to_matching_options(const MatchingOptionsIn& given) {
    const auto& [start, detours, most_trees, first_height, last_height, max_work, seed] = given;
    return {static_cast<Start>(start), detours, most_trees, first_height, last_height, max_work, seed};
}

// Counts: height, overload left, re-hangings, splits, detours, steps.
auto match_trees(int n_nodes, Int32In root, Int64In weight, const ArcsIn& arcs, const MatchingOptionsIn& options,
                 ControlIn control) {
    Matching found;
    Status status;
    {
        nb::gil_scoped_release release;
        status = match_vertices(to_packing_problem(n_nodes, arcs), to_vector<int>(root),
                                to_vector<std::int64_t>(weight), to_matching_options(options), Control{control.data()},
                                found);
    }
    return std::make_tuple(
        static_cast<int>(status), from_packing(std::move(found.packing)),
        std::make_tuple(found.height, found.overload, found.rehangs, found.splits, found.detours, found.work));
}

// Counts: heights before and after, trees grown anew, exchanges, splits, steps.
auto regrow_forest(int n_nodes, const ArcsIn& arcs, const TreeRowsIn& trees, const SearchLimitsIn& limits,
                   ControlIn control) {
    TreePacking packing;
    RegrowthCounts counts;
    {
        nb::gil_scoped_release release;
        const auto& [lowest, max_work, max_cells, seed] = limits;
        packing = to_packing(trees);
        regrow_trees(to_packing_problem(n_nodes, arcs), {lowest, max_work, max_cells, seed}, Control{control.data()},
                     packing, counts);
    }
    return std::make_tuple(from_packing(std::move(packing)),
                           std::make_tuple(counts.before, counts.after, counts.regrown, counts.exchanges,
                                           counts.splits, counts.work));
}

// What the assignment of paths reads: no capacities, and paths by their numbers alone; copies of large forests cost.
LogicalGraph to_segments(const LogicalArcsIn& given) {
    const auto& [tail, head, capacity, segment_offset, segment_path, segment_units, path_offset, path_links] = given;
    LogicalGraph graph;
    graph.tail = to_vector<int>(tail);
    graph.head = to_vector<int>(head);
    graph.segment_offset = to_vector<std::int64_t>(segment_offset);
    graph.segment_path = to_vector<int>(segment_path);
    graph.segment_units = to_vector<std::int64_t>(segment_units);
    return graph;
}

auto assign_tree_paths(int n_nodes, const LogicalArcsIn& arcs, const TreeRowsIn& trees) {
    TreePaths found;
    Status status;
    {
        nb::gil_scoped_release release;
        const auto& [root, multiplicity, parent] = trees;
        status = assign_paths(n_nodes, to_segments(arcs), parent.data(), to_vector<std::int64_t>(multiplicity),
                              found);
    }
    return std::make_tuple(static_cast<int>(status),
                           std::make_tuple(to_numpy(std::move(found.offset)), to_numpy(std::move(found.path)),
                                           to_numpy(std::move(found.units))));
}

int most_hops(int n_nodes, Int32In tail, Int32In head, Int32In terminals, Int32In roots) {
    nb::gil_scoped_release release;
    return hop_eccentricity(n_nodes, to_vector<int>(tail), to_vector<int>(head), to_vector<int>(terminals),
                            to_vector<int>(roots));
}

// `parent` is row-major (tree, node), -1 at roots.
int height_of_trees(Int32In parent, int n_nodes) {
    nb::gil_scoped_release release;
    return forest_height(parent.data(), n_nodes ? parent.shape(0) / n_nodes : 0, n_nodes);
}

}  // namespace

void bind_packing(nb::module_& m) {
    m.def("pack", &pack, nb::arg("multiplicity"), nb::arg("arcs"), nb::arg("speculate"), nb::arg("control"));
    m.def("shortest_trees", &forest_of_shortest_paths, nb::arg("multiplicity"), nb::arg("arcs"), nb::arg("wanted"),
          nb::arg("most_cells"), nb::arg("most_trees"), nb::arg("control"));
    m.def("match_trees", &match_trees, nb::arg("n_nodes"), nb::arg("root"), nb::arg("weight"), nb::arg("arcs"),
          nb::arg("options"), nb::arg("control"));
    m.def("regrow_forest", &regrow_forest, nb::arg("n_nodes"), nb::arg("arcs"), nb::arg("trees"), nb::arg("limits"),
          nb::arg("control"));
    m.def("assign_paths", &assign_tree_paths, nb::arg("n_nodes"), nb::arg("arcs"), nb::arg("trees"));
    m.def("most_hops", &most_hops, nb::arg("n_nodes"), nb::arg("tail"), nb::arg("head"), nb::arg("terminals"),
          nb::arg("roots"));
    m.def("forest_height", &height_of_trees, nb::arg("parent"), nb::arg("n_nodes"));
}

}  // namespace treadle
