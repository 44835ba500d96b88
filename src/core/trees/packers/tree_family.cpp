// Depths are kept with the parents: a node that is higher up than v is not below it, so most moves are found legal at
// once, and the others by a climb of as many steps as their depths differ.
#include "trees/packers/tree_family.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace treadle {

TreeFamily::TreeFamily(const PackingProblem& problem, std::vector<int> tree_root, std::vector<std::int64_t> tree_weight)
    : root(std::move(tree_root)), weight(std::move(tree_weight)), n_(problem.n_nodes) {
    std::vector<int> order;
    for (std::size_t a = 0; a < problem.tail.size(); a++)
        if (problem.tail[a] != problem.head[a] && problem.capacity[a] > 0) order.push_back(static_cast<int>(a));
    std::sort(order.begin(), order.end(), [&](int a, int b) {
        if (problem.head[a] != problem.head[b]) return problem.head[a] < problem.head[b];
        return problem.tail[a] < problem.tail[b];
    });
    in_start.assign(n_ + 1, 0);
    out_start.assign(n_ + 1, 0);
    for (int a : order) {
        in_tail.push_back(problem.tail[a]);
        capacity.push_back(problem.capacity[a]);
        in_start[problem.head[a] + 1]++;
        out_start[problem.tail[a] + 1]++;
    }
    std::partial_sum(in_start.begin(), in_start.end(), in_start.begin());
    std::partial_sum(out_start.begin(), out_start.end(), out_start.begin());
    out_head.resize(order.size());
    std::vector<int> place(out_start.begin(), out_start.end() - 1);
    for (int a : order) out_head[place[problem.tail[a]]++] = problem.head[a];
    load.assign(order.size(), 0);
    const std::size_t cells = root.size() * static_cast<std::size_t>(n_);
    parent_.assign(cells, kNone);
    depth_.assign(cells, 0);
    children_.assign(cells, 0);
}

int TreeFamily::arc(int tail, int head) const {
    auto first = in_tail.begin() + in_start[head], last = in_tail.begin() + in_start[head + 1];
    return static_cast<int>(std::lower_bound(first, last, tail) - in_tail.begin());
}

int TreeFamily::height() const { return depth_.empty() ? 0 : *std::max_element(depth_.begin(), depth_.end()); }

void TreeFamily::count_children() {
    std::fill(children_.begin(), children_.end(), Node{0});
    for (int t = 0; t < n_trees(); t++) {
        const Node* parent = parents(t);
        Node* children = children_.data() + static_cast<std::size_t>(t) * n_;
        for (int v = 0; v < n_; v++)
            if (parent[v] != kNone) children[parent[v]]++;
    }
}

const std::vector<int>& TreeFamily::subtree(int tree, int v) {
    below_.assign(1, v);
    for (std::size_t i = 0; i < below_.size(); i++)
        for_children(tree, below_[i], [&](int y) { below_.push_back(y); });
    return below_;
}

bool TreeFamily::can_hang(int tree, int v, int u, int limit) {
    const Node *depth = depths(tree), *parent = parents(tree);
    const int above = depth[u], here = depth[v];
    work++;
    if (above < here) return true;  // nothing below v is so high up, and no node sinks
    if (above + 1 > limit) return false;
    work += above - here;
    int x = u;
    for (int steps = above - here; steps > 0; steps--) x = parent[x];
    if (x == v) return false;
    if (limit >= n_ - 1 || children_[static_cast<std::size_t>(tree) * n_ + v] == 0) return true;
    const int sinks = above + 1 - here;
    if (here + 1 + sinks > limit) return false;
    below_.assign(1, v);
    bool fits = true;
    for (std::size_t i = 0; i < below_.size() && fits; i++)
        for_children(tree, below_[i], [&](int y) {
            fits = fits && depth[y] + sinks <= limit;
            below_.push_back(y);
        });
    return fits;
}

void TreeFamily::hang(int tree, int v, int u) {
    Node *parent = parents(tree), *depth = depths(tree);
    Node* children = children_.data() + static_cast<std::size_t>(tree) * n_;
    load[arc(parent[v], v)] -= weight[tree];
    load[arc(u, v)] += weight[tree];
    children[parent[v]]--;
    children[u]++;
    parent[v] = static_cast<Node>(u);
    const int sinks = depth[u] + 1 - depth[v];
    if (sinks == 0) return;
    for (int x : subtree(tree, v)) depth[x] = static_cast<Node>(depth[x] + sinks);
}

int TreeFamily::split(int tree, std::int64_t units) {
    const std::size_t n = n_, from = static_cast<std::size_t>(tree) * n;
    for (auto* table : {&parent_, &depth_, &children_}) {
        table->resize(table->size() + n);
        std::copy_n(table->begin() + static_cast<std::ptrdiff_t>(from), n, table->end() - static_cast<std::ptrdiff_t>(n));
    }
    weight[tree] -= units;
    weight.push_back(units);
    root.push_back(root[tree]);
    return n_trees() - 1;
}

}  // namespace treadle
