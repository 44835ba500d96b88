// Generator sets of abelian Cayley digraphs: treadle/finder/searches/abelian_search.py.
#include "bindings/arrays.hpp"
#include "search/abelian_sets.hpp"

namespace treadle {
namespace {

using AbelianProblemIn = std::tuple<Int32In, int, bool, int>;
using AbelianPaceIn = std::tuple<std::int64_t, std::uint64_t, std::int64_t>;

auto search_abelian_sets(const AbelianProblemIn& given, const AbelianPaceIn& pace, Int32In starts, ControlIn control) {
    AbelianSet found;
    Status status;
    {
        const auto& [moduli, degree, two_way, target] = given;
        const auto& [work, seed, bar] = pace;
        const AbelianProblem problem{to_vector<std::int32_t>(moduli), degree, two_way, target};
        const std::vector<std::int32_t> first = to_vector<std::int32_t>(starts);
        nb::gil_scoped_release release;
        status = search_abelian(problem, {work, seed, bar}, first, Control{control.data()}, found);
    }
    return std::make_tuple(static_cast<int>(status), to_numpy(std::move(found.generators)), found.cost, found.steps,
                           found.missed, found.tried);
}

}  // namespace

void bind_abelian(nb::module_& m) {
    m.def("search_abelian_sets", &search_abelian_sets, nb::arg("problem"), nb::arg("pace"), nb::arg("starts"),
          nb::arg("control"));
}

}  // namespace treadle
