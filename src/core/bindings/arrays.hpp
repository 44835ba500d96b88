// Arrays at the boundary: contiguous numpy arrays in, new numpy arrays out.
//
// A struct crosses the boundary as a tuple: a NamedTuple of treadle/synthesis/core_values,
// treadle/simulation/core_values.py or treadle/parallelism/search/core_search_values.py comes in as a std::tuple and is turned into the core's struct in one place; what
// comes back is a plain tuple that fits one. Functions release the GIL while they work, and return a status code.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "control.hpp"

namespace treadle {

namespace nb = nanobind;

template <class T, int dimensions = 1>
using In = nb::ndarray<T, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
using Int64In = In<const std::int64_t>;
using UInt64In = In<const std::uint64_t>;
using Int32In = In<const std::int32_t>;
using FloatIn = In<const double>;
using FloatRows = In<const double, 2>;
using Int32Rows = In<const std::int32_t, 2>;
using UInt16Rows = In<const std::uint16_t, 2>;
using ControlIn = In<std::int64_t>;  // written to while the caller watches: see control.hpp

template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// The vector becomes the array's memory: no copy.
template <class T>
Out<T> to_numpy(std::vector<T> values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Out<T>(kept->data(), {kept->size()}, owner);
}

inline Out<std::int32_t> to_numpy(std::unique_ptr<std::int32_t[]> values, std::size_t size) {
    std::int32_t* kept = values.release();
    nb::capsule owner(kept, [](void* p) noexcept { delete[] static_cast<std::int32_t*>(p); });
    return Out<std::int32_t>(kept, {size}, owner);
}

template <class T, class Array>
std::vector<T> to_vector(const Array& array) {
    return std::vector<T>(array.data(), array.data() + array.shape(0));
}

// Wide(high, low): a 128-bit integer.
using WideIn = std::tuple<std::int64_t, std::uint64_t>;

inline __int128 to_wide(std::int64_t high, std::uint64_t low) {
    return static_cast<__int128>((static_cast<unsigned __int128>(high) << 64) | low);
}

// One for each file of bindings.
void bind_abelian(nb::module_& m);
void bind_cuts(nb::module_& m);
void bind_arborescences(nb::module_& m);
void bind_arrangement(nb::module_& m);
void bind_link_swaps(nb::module_& m);
void bind_packing(nb::module_& m);
void bind_routed_forests(nb::module_& m);
void bind_closed_forms(nb::module_& m);
void bind_steps(nb::module_& m);
void bind_flows(nb::module_& m);
void bind_climbing(nb::module_& m);
void bind_rank_order(nb::module_& m);
void bind_routes(nb::module_& m);
void bind_simulation(nb::module_& m);
void bind_messages(nb::module_& m);

}  // namespace treadle
