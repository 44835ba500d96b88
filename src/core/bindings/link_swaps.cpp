// Digraphs near a given one: treadle/finder/searches/neighbour_search.py.
#include "bindings/arrays.hpp"
#include "search/link_swaps.hpp"

namespace treadle {
namespace {

using SwapProblemIn = std::tuple<int, int, Int32In, Int32In, Int32In, Int32In, int, int>;
using SwapPaceIn = std::tuple<std::int64_t, std::uint64_t, std::int64_t>;

auto swap_links(const SwapProblemIn& given, const SwapPaceIn& pace, ControlIn control) {
    SwapGraph found;
    Status status;
    {
        const auto& [n, degree, tails, heads, home, opposite, target, most_changed] = given;
        const auto& [trials, seed, bar] = pace;
        const SwapProblem problem{n,
                                  degree,
                                  to_vector<std::int32_t>(tails),
                                  to_vector<std::int32_t>(heads),
                                  to_vector<std::int32_t>(home),
                                  to_vector<std::int32_t>(opposite),
                                  target,
                                  most_changed};
        nb::gil_scoped_release release;
        status = search_link_swaps(problem, {trials, seed, bar}, Control{control.data()}, found);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(found.heads)), found.cost, found.missed,
                           found.tried);
}

}  // namespace

void bind_link_swaps(nb::module_& m) {
    m.def("swap_links", &swap_links, nb::arg("problem"), nb::arg("pace"), nb::arg("control"));
}

}  // namespace treadle
