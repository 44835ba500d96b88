// Condition C: for every node set S that leaves out a compute node, d+(S) >= r(S).
//
// It holds iff each compute node receives R = sum r units from a source s with arcs s -> v of capacity r(v) (Theorem 23,
// Theorem 25 of the dissertation). One flow of value R is kept while its sink moves. When R units arrive at v and v' is
// next, R units are pushed from v to v' in the residual network: the sum of both flows is one of value R from s to v'.
// If fewer can be pushed, let A be the nodes still reached from v. No residual capacity leaves A, and s is in A, since
// some flow still ends at v; so S = A - s has d+(S) + r(V - S) < R, that is d+(S) < r(S): a violated set, for free.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "control.hpp"
#include "trees/graphs.hpp"
#include "trees/residual.hpp"

namespace treadle {

// The index into `compute` of the first sink (from `first` on) that fails, or -1; also if it is cancelled. The source s
// is node `n_nodes`. On failure `cut` holds the nodes of a violated S.
template <class Cap>
int find_violated(int n_nodes, std::vector<CapacityArc<Cap>> arcs, const std::vector<int>& compute,
                  const std::vector<Cap>& root, int first, std::vector<char>& cut, const Control& control = {}) {
    const int s = n_nodes;
    Cap total = 0;
    for (std::size_t i = 0; i < compute.size(); i++) {
        if (root[i] > 0) arcs.push_back({s, compute[i], root[i]});
        total += root[i];
    }
    ResidualNetwork<Cap> network(n_nodes + 1, std::move(arcs));
    int at = s;
    for (std::size_t i = first; i < compute.size() && !control.cancelled(); i++) {
        control.progress(i, compute.size());
        if (network.push(at, compute[i], total) < total) {
            cut.assign(n_nodes, false);
            for (int v = 0; v < n_nodes; v++) cut[v] = network.reached(v);
            return static_cast<int>(i);
        }
        // Every arc out of s is full and stays so, so no path leads through s.
        if (at == s) network.close_arcs_into(s);
        at = compute[i];
    }
    return -1;
}

// What capacities and multiplicities of a fabric are multiplied by before they are compared: a rate p / q without
// rounding.
struct CutFactors {
    std::int64_t link = 1;
    __int128 root = 1;
};

struct ViolatedCut {
    int sink = -1;           // -1: none
    std::vector<int> nodes;  // S
};

// Tests condition C from sink `first` on. Sinks are counted in an order of their own, which depends on tails, heads and
// the order of compute nodes alone.
ViolatedCut test_cuts(const Fabric& fabric, const CutFactors& factors, int first, const Control& control);

}  // namespace treadle
