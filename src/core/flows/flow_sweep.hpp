// One pass over the links for 16 sources side by side: the inner loop of the concurrent flow.
//
// Flows and potentials move a step, and in the same pass the loads are added up, so that every cell is read and written
// once per iteration: the pass is bound by memory. Sources of a block lie next to each other, in vector registers.
#pragma once
#include <cstdint>

#include "flows/flow_certificate.hpp"

namespace treadle {

// Lanes side by side in one register; compilers lower it where registers are narrower.
template <class T>
struct Wide {
    typedef T type __attribute__((vector_size(32)));
    static constexpr int width = 32 / sizeof(T);
    static constexpr int parts = flow_lanes / width;
};

// Operands of one sweep over the sources of a block. Arrays of sources are (row, lane).
template <class T>
struct Sweep {
    const FlowLayout* layout;
    const T *length, *flow_step, *potential_step, *weight, *demand;
    T *flow, *potential;
    const T *flow_anchor, *potential_anchor;
    T keep, pull;       // weights of the reflected point and of the anchor
    T* excess;          // scratch, (n, lanes)
    T* load;            // added to, (m, Wide<T>::width)
    const std::int32_t* source;
    double moved = 0;   // out: squared length of the step in the method's metric
};

// One step of all flows and potentials of the block, and their loads; with `measure` its length too.
template <class T>
void sweep_block(Sweep<T>& a, bool measure);

// The flows of the next primal point alone, into (m, lanes).
template <class T>
void next_flows(const Sweep<T>& a, T* next);

}  // namespace treadle
