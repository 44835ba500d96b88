// The extension module treadle._core; its functions are typed in src/treadle/_core.pyi.
#include "bindings/arrays.hpp"
#include "memory.hpp"

NB_MODULE(_core, m) {
    m.doc() = "Treadle's compiled core: free functions over arrays and tuples of arrays.";
    treadle::bind_abelian(m);
    treadle::bind_cuts(m);
    treadle::bind_arborescences(m);
    treadle::bind_packing(m);
    treadle::bind_routed_forests(m);
    treadle::bind_closed_forms(m);
    treadle::bind_steps(m);
    treadle::bind_flows(m);
    treadle::bind_climbing(m);
    treadle::bind_arrangement(m);
    treadle::bind_link_swaps(m);
    treadle::bind_rank_order(m);
    treadle::bind_routes(m);
    treadle::bind_simulation(m);
    treadle::bind_messages(m);
    m.def("release_memory", &treadle::release_memory);
}
