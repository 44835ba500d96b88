// Trees as rows of parents with lists of children, so that subtrees are walked in the time that they take; loads follow
// every change. Paths are stored once: equal lists of links have one number, found by a hash of the links.
#include "trees/routed/routed_trees.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace treadle {
namespace {

template <class Values>
std::uint64_t hash_of(const Values* first, const Values* last) {
    std::uint64_t x = 0x9e3779b97f4a7c15ull;
    for (; first != last; ++first) x = (x ^ static_cast<std::uint64_t>(*first + 1)) * 0xbf58476d1ce4e5b9ull, x ^= x >> 29;
    return x;
}

}  // namespace

RoutedTrees::RoutedTrees(Network given) : network(std::move(given)), load(network.tail.size(), 0) {}

int RoutedTrees::height(int tree) const {
    return *std::max_element(depths(tree), depths(tree) + n_ranks());
}

int RoutedTrees::height() const { return depth_.empty() ? 0 : *std::max_element(depth_.begin(), depth_.end()); }

int RoutedTrees::add_tree(int at, std::int64_t units) {
    const std::size_t cells = row(n_trees() + 1);
    root.push_back(at);
    weight.push_back(units);
    for (auto* nodes : {&parent_, &first_child_, &next_, &previous_}) nodes->resize(cells, kNone);
    depth_.resize(cells, 0);
    path_.resize(cells, -1);
    return n_trees() - 1;
}

int RoutedTrees::split_off(int tree, std::int64_t rest) {
    const int copy = add_tree(root[tree], rest);
    weight[tree] -= rest;
    for (auto* nodes : {&parent_, &first_child_, &next_, &previous_, &depth_})
        std::copy_n(nodes->begin() + row(tree), n_ranks(), nodes->begin() + row(copy));
    std::copy_n(path_.begin() + row(tree), n_ranks(), path_.begin() + row(copy));
    return copy;
}

int RoutedTrees::path_of(const std::vector<int>& links) {
    const std::uint64_t key = hash_of(links.data(), links.data() + links.size());
    auto [first, last] = known_.equal_range(key);
    for (; first != last; ++first)
        if (std::equal(links.begin(), links.end(), path_begin(first->second), path_end(first->second)))
            return first->second;
    const int path = static_cast<int>(path_offset_.size()) - 1;
    path_links_.insert(path_links_.end(), links.begin(), links.end());
    path_offset_.push_back(static_cast<std::int64_t>(path_links_.size()));
    known_.emplace(key, path);
    return path;
}

bool RoutedTrees::passes(int path, int node) const {
    return std::any_of(path_begin(path), path_end(path), [&](int e) { return network.head[e] == node; });
}

int RoutedTrees::splice(int path, int node, int other) {
    joined_.clear();
    for (const int* e = path_begin(path); e != path_end(path); ++e) {
        joined_.push_back(*e);
        if (network.head[*e] == node) break;
    }
    const int* e = path_begin(other);
    while (network.head[*e] != node) ++e;
    for (++e; e != path_end(other); ++e) {
        // back at a node of the first part: what lies between is a loop
        auto back = std::find_if(joined_.begin(), joined_.end(), [&](int f) { return network.tail[f] == network.head[*e]; });
        if (back == joined_.end())
            joined_.push_back(*e);
        else
            joined_.erase(back, joined_.end());
    }
    return path_of(joined_);
}

void RoutedTrees::detach(int tree, int v) {
    const std::size_t at = row(tree);
    const Node before = previous_[at + v], after = next_[at + v];
    (before == kNone ? first_child_[at + parent_[at + v]] : next_[at + before]) = after;
    if (after != kNone) previous_[at + after] = before;
}

void RoutedTrees::attach(int tree, int v, int u) {
    const std::size_t at = row(tree);
    const Node first = first_child_[at + u];
    parent_[at + v] = static_cast<Node>(u);
    previous_[at + v] = kNone;
    next_[at + v] = first;
    if (first != kNone) previous_[at + first] = static_cast<Node>(v);
    first_child_[at + u] = static_cast<Node>(v);
}

void RoutedTrees::relink(int tree, int v, int path) {
    const std::size_t at = row(tree);
    if (parent_[at + v] != kNone) {
        detach(tree, v);
        for (const int* e = path_begin(path_[at + v]); e != path_end(path_[at + v]); ++e) load[*e] -= weight[tree];
    }
    attach(tree, v, sender(path));
    path_[at + v] = path;
    for (const int* e = path_begin(path); e != path_end(path); ++e) load[*e] += weight[tree];
}

int RoutedTrees::climb(int tree, int v) const {
    const Node* parent = parents(tree);
    int hops = 0;
    for (; v != root[tree]; v = parent[v])
        if (++hops >= n_ranks()) return -1;
    return hops;
}

bool RoutedTrees::is_below(int tree, int x, int v) const {
    const Node *parent = parents(tree), *depth = depths(tree);
    while (depth[x] > depth[v]) x = parent[x];
    return x == v;
}

const std::vector<int>& RoutedTrees::subtree(int tree, int v) {
    below_.assign(1, v);
    for (std::size_t i = 0; i < below_.size(); i++) for_children(tree, below_[i], [&](int y) { below_.push_back(y); });
    return below_;
}

void RoutedTrees::settle_depths(int tree, int v) {
    Node* depth = depths(tree);
    const Node* parent = parents(tree);
    for (int x : subtree(tree, v))
        depth[x] = x == v ? static_cast<Node>(climb(tree, v)) : static_cast<Node>(depth[parent[x]] + 1);
}

void RoutedTrees::restore(const Snapshot& state) {
    root.clear();
    weight.clear();
    for (auto* nodes : {&parent_, &first_child_, &next_, &previous_, &depth_}) nodes->clear();
    path_.clear();
    std::fill(load.begin(), load.end(), 0);
    for (std::size_t t = 0; t < state.root.size(); t++) {
        const int tree = add_tree(state.root[t], state.weight[t]);
        for (int v = 0; v < n_ranks(); v++)
            if (v != root[tree]) relink(tree, v, state.path[row(tree) + v]);
        settle_depths(tree, root[tree]);
    }
}

void RoutedTrees::write(RoutedForest& forest) const {
    LogicalGraph& graph = forest.graph;
    TreePacking& packing = forest.trees;
    const int n = n_ranks();
    std::vector<int> order(n_trees());
    for (int t = 0; t < n_trees(); t++) order[t] = t;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return root[a] != root[b] ? root[a] < root[b]
                                  : std::lexicographical_compare(parents(a), parents(a) + n, parents(b), parents(b) + n);
    });
    for (std::size_t i = 0; i < order.size(); i++) {
        const int t = order[i];
        if (i > 0 && root[t] == root[order[i - 1]] && std::equal(parents(t), parents(t) + n, parents(order[i - 1]))) {
            packing.multiplicity.back() += weight[t];
            continue;
        }
        packing.root.push_back(root[t]);
        packing.multiplicity.push_back(weight[t]);
        for (int v = 0; v < n; v++) packing.parent.push_back(v == root[t] ? -1 : parents(t)[v]);
    }
    std::vector<std::int64_t> units(path_offset_.size() - 1, 0);
    for (int t = 0; t < n_trees(); t++)
        for (int v = 0; v < n; v++)
            if (paths(t)[v] >= 0) units[paths(t)[v]] += weight[t];
    std::vector<std::array<int, 3>> used;  // tail, head, path
    for (int p = 0; p < static_cast<int>(units.size()); p++)
        if (units[p] > 0) used.push_back({sender(p), network.head[path_end(p)[-1]], p});
    std::sort(used.begin(), used.end());
    for (std::size_t i = 0; i < used.size(); i++) {
        const auto [tail, head, p] = used[i];
        if (i == 0 || used[i - 1][0] != tail || used[i - 1][1] != head) {
            graph.tail.push_back(tail);
            graph.head.push_back(head);
            graph.capacity.push_back(0);
            graph.segment_offset.push_back(graph.segment_offset.back());
        }
        graph.capacity.back() += units[p];
        graph.segment_offset.back()++;
        graph.segment_path.push_back(static_cast<int>(i));
        graph.segment_units.push_back(units[p]);
        graph.path_links.insert(graph.path_links.end(), path_begin(p), path_end(p));
        graph.path_offset.push_back(static_cast<std::int64_t>(graph.path_links.size()));
    }
}

bool route_trees(const RoutedForest& forest, std::int64_t max_cells, RoutedTrees& trees) {
    const LogicalGraph& graph = forest.graph;
    const TreePacking& packing = forest.trees;
    const int n = trees.n_ranks();
    std::unordered_map<std::int64_t, int> arc_of;
    for (std::size_t a = 0; a < graph.tail.size(); a++)
        arc_of[static_cast<std::int64_t>(graph.tail[a]) * n + graph.head[a]] = static_cast<int>(a);
    std::vector<int> numbers(graph.path_offset.size() - 1, -1);
    auto number = [&](int p) {
        if (numbers[p] < 0)
            numbers[p] = trees.path_of(std::vector<int>(graph.path_links.begin() + graph.path_offset[p],
                                                        graph.path_links.begin() + graph.path_offset[p + 1]));
        return numbers[p];
    };
    // Every arc's segment in turn, and what of it is left.
    std::vector<std::int64_t> segment(graph.segment_offset.begin(), graph.segment_offset.end() - 1);
    std::vector<std::int64_t> left;  // units of that segment that no tree has yet
    for (std::int64_t s : segment) left.push_back(graph.segment_units[s]);
    std::vector<int> arcs(n);
    for (std::size_t t = 0; t < packing.root.size(); t++) {
        const int* parent = packing.parent.data() + t * n;
        for (int v = 0; v < n; v++)
            arcs[v] = parent[v] < 0 ? -1 : arc_of.at(static_cast<std::int64_t>(parent[v]) * n + v);
        for (std::int64_t rest = packing.multiplicity[t]; rest > 0;) {
            if (static_cast<std::int64_t>(trees.n_trees() + 1) * n > max_cells) return false;
            // As many units as all arcs of the tree have of their segments in turn.
            std::int64_t units = rest;
            for (int a : arcs) {
                if (a < 0) continue;
                while (left[a] == 0) left[a] = graph.segment_units[++segment[a]];
                units = std::min(units, left[a]);
            }
            const int tree = trees.add_tree(packing.root[t], units);
            for (int v = 0; v < n; v++) {
                if (arcs[v] < 0) continue;
                trees.relink(tree, v, number(graph.segment_path[segment[arcs[v]]]));
                left[arcs[v]] -= units;
            }
            trees.settle_depths(tree, trees.root[tree]);
            rest -= units;
        }
    }
    return true;
}

}  // namespace treadle
