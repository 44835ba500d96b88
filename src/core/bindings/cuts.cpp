// Cuts and the removal of switches.
#include "bindings/trees.hpp"
#include "trees/cuts.hpp"
#include "trees/splitting.hpp"

namespace treadle {
namespace {

// The sink that fails, -1 for none, and the nodes of the violated set.
auto find_violated_cut(const RootedFabricIn& fabric, std::int64_t link_factor, const WideIn& root_factor, int first,
                       ControlIn control) {
    ViolatedCut found;
    {
        nb::gil_scoped_release release;
        const CutFactors factors{link_factor, to_wide(std::get<0>(root_factor), std::get<1>(root_factor))};
        found = test_cuts(to_fabric(fabric), factors, first, Control{control.data()});
    }
    return std::make_tuple(found.sink, to_numpy(std::move(found.nodes)));
}

auto split_switches(const RootedFabricIn& fabric, std::int64_t mend_limit, ControlIn control) {
    LogicalGraph graph;
    SplitCounts counts;
    Status status;
    {
        nb::gil_scoped_release release;
        status = remove_switches(to_fabric(fabric), Control{control.data()}, mend_limit, graph, counts);
    }
    return std::make_tuple(static_cast<int>(status), from_logical_graph(std::move(graph)),
                           std::make_tuple(counts.mended, counts.exact));
}

std::int64_t split_amount(const RootedFabricIn& fabric, int u, int w, int t) {
    nb::gil_scoped_release release;
    return splittable_amount(to_fabric(fabric), u, w, t);
}

}  // namespace

void bind_cuts(nb::module_& m) {
    m.def("find_violated_cut", &find_violated_cut, nb::arg("fabric"), nb::arg("link_factor"), nb::arg("root_factor"),
          nb::arg("first"), nb::arg("control"));
    m.def("split_switches", &split_switches, nb::arg("fabric"), nb::arg("mend_limit"), nb::arg("control"));
    m.def("split_amount", &split_amount, nb::arg("fabric"), nb::arg("u"), nb::arg("w"), nb::arg("t"));
}

}  // namespace treadle
