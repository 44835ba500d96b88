// Reflected Halpern iteration, one block of sources at a time (see halpern.hpp for the method).
//
// Per source s the Lagrangian of the flow f and the potentials p is sum over links (length + p(tail) - p(head)) f +
// sum over nodes p (demand - excess). A step: f' = max(0, f - step (length + p(tail) - p(head))), then p moves along
// what the reflected flow 2 f' - f lacks of the demands. The result is reflected and averaged with the anchor.
#include "flows/flow_sweep.hpp"

#include <cstddef>
#include <cstring>

namespace treadle {
namespace {

constexpr int lanes = flow_lanes;

template <class T>
struct LoadOf {  // unaligned access
    using V = typename Wide<T>::type;
    static inline __attribute__((always_inline)) void get(V& to, const T* from) { std::memcpy(&to, from, sizeof to); }
    static inline __attribute__((always_inline)) void put(T* to, const V& from) { std::memcpy(to, &from, sizeof from); }
};

// One step of reflected Halpern iteration in flows and potentials.
template <class T, bool measure>
inline __attribute__((always_inline)) void sweep_body(Sweep<T>& a) {
    using V = typename Wide<T>::type;
    using At = LoadOf<T>;
    constexpr int width = Wide<T>::width, parts = Wide<T>::parts;
    const FlowLayout& layout = *a.layout;
    const int n = layout.n;
    const T keep = a.keep, pull = a.pull;
    std::memset(a.excess, 0, sizeof(T) * n * lanes);
    V weight[parts], moved[parts];
    for (int p = 0; p < parts; p++) {
        At::get(weight[p], a.weight + p * width);
        moved[p] = V{};
    }
    const V zero = V{};
    for (int v = 0; v < n; v++) {
        const std::size_t row = static_cast<std::size_t>(v) * lanes;
        V near[parts], in[parts];
        for (int p = 0; p < parts; p++) {
            At::get(near[p], a.potential + row + p * width);
            in[p] = V{};
        }
        for (std::int64_t e = layout.first_in[v]; e < layout.first_in[v + 1]; e++) {
            const std::size_t tail = static_cast<std::size_t>(layout.tail[e]) * lanes;
            const std::size_t cell = static_cast<std::size_t>(e) * lanes;
            const T length = a.length[e], step = a.flow_step[e];
            V sum = V{};
            for (int p = 0; p < parts; p++) {
                V old, behind, anchor, out;
                At::get(old, a.flow + cell + p * width);
                At::get(behind, a.potential + tail + p * width);
                At::get(anchor, a.flow_anchor + cell + p * width);
                At::get(out, a.excess + tail + p * width);
                const V aim = old - step * (length + behind - near[p]);
                const V next = aim > zero ? aim : zero;
                const V mirrored = next + next - old;
                if (measure) moved[p] += (next - old) * (next - old) * weight[p] / step;
                in[p] += mirrored;
                At::put(a.excess + tail + p * width, out - mirrored);
                sum += mirrored * weight[p];
                At::put(a.flow + cell + p * width, keep * mirrored + pull * anchor);
            }
            V load;
            At::get(load, a.load + e * width);
            At::put(a.load + e * width, load + sum);
        }
        for (int p = 0; p < parts; p++) {
            V mine;
            At::get(mine, a.excess + row + p * width);
            At::put(a.excess + row + p * width, mine + in[p]);
        }
    }
    for (int j = 0; j < lanes; j++) {  // potentials of sources stay 0
        const std::size_t cell = static_cast<std::size_t>(a.source[j]) * lanes + j;
        a.excess[cell] = a.demand[cell];
    }
    for (int v = 0; v < n; v++) {
        const std::size_t row = static_cast<std::size_t>(v) * lanes;
        const T step = a.potential_step[v];
        for (int p = 0; p < parts; p++) {
            V demand, excess, potential, anchor;
            At::get(demand, a.demand + row + p * width);
            At::get(excess, a.excess + row + p * width);
            At::get(potential, a.potential + row + p * width);
            At::get(anchor, a.potential_anchor + row + p * width);
            const V lack = demand - excess;
            if (measure) moved[p] += step * lack * lack * weight[p];
            At::put(a.potential + row + p * width, keep * (potential + 2 * step * lack) + pull * anchor);
        }
    }
    a.moved = 0;
    for (int p = 0; p < parts; p++)
        for (int j = 0; j < width; j++) a.moved += moved[p][j];
}

template <class T>
void sweep_any(Sweep<T>& a, bool measure) {
    if (measure)
        sweep_body<T, true>(a);
    else
        sweep_body<T, false>(a);
}

#if defined(__x86_64__) && defined(__GNUC__)
// Wider registers, and without fused operations the same results.
template <class T>
__attribute__((target("avx2"))) void sweep_avx2(Sweep<T>& a, bool measure) {
    if (measure)
        sweep_body<T, true>(a);
    else
        sweep_body<T, false>(a);
}
bool has_avx2() { return __builtin_cpu_supports("avx2"); }
#else
template <class T>
void sweep_avx2(Sweep<T>& a, bool measure) {
    sweep_any(a, measure);
}
bool has_avx2() { return false; }
#endif

}  // namespace

template <class T>
void sweep_block(Sweep<T>& a, bool measure) {
    if (has_avx2())
        sweep_avx2(a, measure);
    else
        sweep_any(a, measure);
}

// The flows of the next primal point, max(0, f - step * reduced length), of one block.
template <class T>
void next_flows(const Sweep<T>& a, T* next) {
    const FlowLayout& layout = *a.layout;
    for (int e = 0; e < layout.m; e++) {
        const T* behind = a.potential + static_cast<std::size_t>(layout.tail[e]) * lanes;
        const T* near = a.potential + static_cast<std::size_t>(layout.head[e]) * lanes;
        const T* flow = a.flow + static_cast<std::size_t>(e) * lanes;
        for (int j = 0; j < lanes; j++) {
            const T aim = flow[j] - a.flow_step[e] * (a.length[e] + behind[j] - near[j]);
            next[static_cast<std::size_t>(e) * lanes + j] = aim > 0 ? aim : 0;
        }
    }
}

template void sweep_block<float>(Sweep<float>&, bool);
template void sweep_block<double>(Sweep<double>&, bool);
template void next_flows<float>(const Sweep<float>&, float*);
template void next_flows<double>(const Sweep<double>&, double*);

}  // namespace treadle
