#include "trees/cuts.hpp"

namespace treadle {
namespace {

// Neighbours of every node along links in either direction: those of v are node[start[v]] up to node[start[v + 1]].
struct Neighbours {
    std::vector<int> start, node;

    explicit Neighbours(const Fabric& fabric) : start(fabric.n_nodes + 1, 0), node(2 * fabric.tail.size()) {
        for (std::size_t e = 0; e < fabric.tail.size(); e++) start[fabric.tail[e] + 1]++, start[fabric.head[e] + 1]++;
        for (int v = 0; v < fabric.n_nodes; v++) start[v + 1] += start[v];
        std::vector<int> next(start.begin(), start.end() - 1);
        for (std::size_t e = 0; e < fabric.tail.size(); e++) {
            node[next[fabric.tail[e]]++] = fabric.head[e];
            node[next[fabric.head[e]]++] = fabric.tail[e];
        }
    }
};

// Places of the compute nodes in an order in which each is near the one before it: depth-first through the fabric.
// A flow whose sink moves to a neighbour is quickly mended.
std::vector<int> nearby_order(const Fabric& fabric) {
    const Neighbours near(fabric);
    std::vector<int> next(near.start.begin(), near.start.end() - 1), place(fabric.n_nodes, -1), order, stack;
    for (std::size_t i = 0; i < fabric.compute.size(); i++) place[fabric.compute[i]] = static_cast<int>(i);
    std::vector<char> seen(fabric.n_nodes, false);
    for (int source : fabric.compute) {
        if (!seen[source]) stack.push_back(source);
        while (!stack.empty()) {
            const int x = stack.back();
            if (!seen[x] && place[x] >= 0) order.push_back(place[x]);
            seen[x] = true;
            while (next[x] < near.start[x + 1] && seen[near.node[next[x]]]) next[x]++;
            if (next[x] == near.start[x + 1])
                stack.pop_back();
            else
                stack.push_back(near.node[next[x]]);
        }
    }
    return order;
}

template <class Cap>
ViolatedCut test_cuts_in(const Fabric& fabric, const CutFactors& factors, const std::vector<int>& order, int first,
                         const Control& control) {
    std::vector<CapacityArc<Cap>> arcs;
    arcs.reserve(fabric.tail.size() + order.size());
    for (std::size_t e = 0; e < fabric.tail.size(); e++)
        arcs.push_back({fabric.tail[e], fabric.head[e], static_cast<Cap>(fabric.capacity[e]) * static_cast<Cap>(factors.link)});
    std::vector<int> nodes;
    std::vector<Cap> roots;
    for (int i : order) {
        nodes.push_back(fabric.compute[i]);
        roots.push_back(static_cast<Cap>(fabric.root[i]) * static_cast<Cap>(factors.root));
    }
    ViolatedCut found;
    std::vector<char> cut;
    found.sink = find_violated<Cap>(fabric.n_nodes, std::move(arcs), nodes, roots, first, cut, control);
    for (int v = 0; found.sink >= 0 && v < fabric.n_nodes; v++)
        if (cut[v]) found.nodes.push_back(v);
    return found;
}

}  // namespace

ViolatedCut test_cuts(const Fabric& fabric, const CutFactors& factors, int first, const Control& control) {
    __int128 bound = 0;  // of all flows together
    for (std::int64_t capacity : fabric.capacity) bound += static_cast<__int128>(capacity) * factors.link;
    for (std::int64_t root : fabric.root) bound += root * factors.root;
    const std::vector<int> order = nearby_order(fabric);
    // Residuals and excesses are sums of some of these: below 2^61 none of them comes near the 63 bits of an int64.
    if (bound < static_cast<__int128>(1) << 61) return test_cuts_in<std::int64_t>(fabric, factors, order, first, control);
    return test_cuts_in<__int128>(fabric, factors, order, first, control);
}

}  // namespace treadle
