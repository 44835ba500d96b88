// Digraphs near a given one, and those that a turn maps to themselves: treadle/finder/searches/neighbour_search.py,
// multicirculant_search.py.
#include "bindings/arrays.hpp"
#include "search/link_swaps.hpp"
#include "search/orbit_swaps.hpp"

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

using OrbitProblemIn = std::tuple<int, int, Int32In, Int32In, Int32In, Int32In, Int32In>;
using OrbitPaceIn = std::tuple<std::int64_t, std::uint64_t, double>;

auto swap_orbits(const OrbitProblemIn& given, const OrbitPaceIn& pace, ControlIn control) {
    OrbitGraph found;
    Status status;
    {
        const auto& [degree, target, size, tail, head, shift, opposite] = given;
        const auto& [trials, seed, heat] = pace;
        const OrbitProblem problem{degree,
                                   target,
                                   to_vector<std::int32_t>(size),
                                   to_vector<std::int32_t>(tail),
                                   to_vector<std::int32_t>(head),
                                   to_vector<std::int32_t>(shift),
                                   to_vector<std::int32_t>(opposite)};
        nb::gil_scoped_release release;
        status = search_orbit_swaps(problem, {trials, seed, heat}, Control{control.data()}, found);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(found.tail)), to_numpy(std::move(found.head)),
                           to_numpy(std::move(found.shift)), to_numpy(std::move(found.opposite)), found.cost,
                           found.tried);
}

}  // namespace

void bind_link_swaps(nb::module_& m) {
    m.def("swap_links", &swap_links, nb::arg("problem"), nb::arg("pace"), nb::arg("control"));
    m.def("swap_orbits", &swap_orbits, nb::arg("problem"), nb::arg("pace"), nb::arg("control"));
}

}  // namespace treadle
