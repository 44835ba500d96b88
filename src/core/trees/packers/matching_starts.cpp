// Two starts for vertex matching (docs/how-it-works/optimal-trees.md): both only choose parents, and leave overloaded
// arcs to the matching.
//
// Breadth-first: for a root any parent one hop nearer keeps the tree a shortest-path tree, so the nodes choose one after
// the other, independently; at each node the choice is greedy load balancing in the order of least freedom, then of
// greatest weight, as in list scheduling by longest processing time first (Graham, 1969).
// Priced: trees grow arc by arc, Prim's algorithm with load over capacity as price. Arcs into a set that is nearly tight
// become dear, so that trees enter it once and spread inside.
#include "trees/packers/matching_starts.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <tuple>

namespace treadle {
namespace {

using Node = TreeFamily::Node;

constexpr int kBlock = 32;  // nodes or roots at a time where a table is written across its rows

// Hops from every root that has trees to every node, row-major (node, root); empty if a root does not reach all.
std::vector<Node> distances(const TreeFamily& family, const std::vector<int>& roots) {
    const std::size_t n = family.n_nodes(), count = roots.size();
    std::vector<Node> table(n * count), rows(kBlock * n);
    std::vector<int> queue;
    for (std::size_t first = 0; first < count; first += kBlock) {
        const std::size_t last = std::min(count, first + kBlock);
        std::fill(rows.begin(), rows.end(), TreeFamily::kNone);
        for (std::size_t i = first; i < last; i++) {
            Node* distance = rows.data() + (i - first) * n;
            queue.assign(1, roots[i]);
            distance[roots[i]] = 0;
            for (std::size_t next = 0; next < queue.size(); next++) {
                const int x = queue[next];
                for (int j = family.out_start[x]; j < family.out_start[x + 1]; j++) {
                    const int y = family.out_head[j];
                    if (distance[y] != TreeFamily::kNone) continue;
                    distance[y] = static_cast<Node>(distance[x] + 1);
                    queue.push_back(y);
                }
            }
            if (queue.size() < n) return {};
        }
        for (std::size_t v = 0; v < n; v++)
            for (std::size_t i = first; i < last; i++) table[v * count + i] = rows[(i - first) * n + v];
    }
    return table;
}

// A number to break ties by.
std::uint64_t draw(std::uint64_t seed, int tree, int arc) {
    std::uint64_t x = (seed + static_cast<std::uint64_t>(tree)) * 0x9e3779b97f4a7c15ull;
    x ^= static_cast<std::uint64_t>(arc + 1) * 0xc2b2ae3d27d4eb4full;
    return (x * 0xbf58476d1ce4e5b9ull) >> 20;
}

// Every tree a tree of shortest paths; each tree takes the arc with the least load for its capacity. At each node
// those without a choice come first, then the heavy ones, and of equal ones those with fewest possible parents.
class BreadthFirstStart {
   public:
    BreadthFirstStart(TreeFamily& family, std::uint64_t seed) : family_(family), seed_(seed) {
        for (int t = 0; t < family.n_trees(); t++)
            if (t == 0 || family.root[t] != family.root[t - 1]) {
                first_tree_.push_back(t);
                roots_.push_back(family.root[t]);
            }
        first_tree_.push_back(family.n_trees());
        classes_ = weights_of(family);
    }

    bool run(const Control& control) {
        const int n = family_.n_nodes(), trees = family_.n_trees();
        distance_ = distances(family_, roots_);
        if (distance_.empty()) return trees == 0;
        std::vector<Node> chosen(static_cast<std::size_t>(kBlock) * trees);  // (node of the block, tree)
        for (int first = 0; first < n; first += kBlock) {
            if (control.cancelled()) return false;
            control.progress(first, 2 * n);
            const int last = std::min(n, first + kBlock);
            std::fill(chosen.begin(), chosen.end(), TreeFamily::kNone);
            for (int v = first; v < last; v++) choose(v, chosen.data() + static_cast<std::size_t>(v - first) * trees);
            for (std::size_t i = 0; i < roots_.size(); i++)
                for (int t = first_tree_[i]; t < first_tree_[i + 1]; t++)
                    for (int v = first; v < last; v++) {
                        family_.parents(t)[v] = chosen[static_cast<std::size_t>(v - first) * trees + t];
                        family_.depths(t)[v] = distance_[v * roots_.size() + i];
                    }
        }
        family_.count_children();
        return true;
    }

   private:
    struct Item {
        int tree, root, slot;  // slot: of the last possible parent
    };

    void choose(int v, Node* parent) {
        const int first = family_.in_start[v], degree = family_.in_start[v + 1] - first;
        const std::size_t count = roots_.size();
        const Node* here = distance_.data() + v * count;
        above_.clear();
        for (int e = 0; e < degree; e++) above_.push_back(distance_.data() + family_.in_tail[first + e] * count);
        choices_.assign(count, 0);
        slot_.assign(count, 0);
        for (int e = 0; e < degree; e++)
            for (std::size_t i = 0; i < count; i++) {
                const bool nearer = above_[e][i] + 1 == here[i];
                choices_[i] += nearer;
                slot_[i] = nearer ? e : slot_[i];
            }
        // without a choice; then by weight and number of choices
        by_turn_.resize(std::max(by_turn_.size(), 1 + classes_.size() * (degree + 1)));
        for (std::size_t i = 0; i < count; i++) {
            if (here[i] == 0) continue;  // rooted here
            for (int t = first_tree_[i]; t < first_tree_[i + 1]; t++) {
                const std::size_t turn = choices_[i] == 1 ? 0 : 1 + class_of(t) * (degree + 1) + choices_[i];
                by_turn_[turn].push_back({t, static_cast<int>(i), slot_[i]});
            }
        }
        for (std::size_t turn = 0; turn < by_turn_.size(); turn++) {
            for (const Item& item : by_turn_[turn]) {
                const int slot = turn == 0 ? item.slot : least_loaded(item, first, degree, here);
                family_.load[first + slot] += family_.weight[item.tree];
                parent[item.tree] = static_cast<Node>(family_.in_tail[first + slot]);
            }
            by_turn_[turn].clear();
        }
    }

    // Of equally loaded arcs the first one after a place that varies from tree to tree.
    int least_loaded(const Item& item, int first, int degree, const Node* here) const {
        const int start = static_cast<int>(draw(seed_, item.tree, first) % static_cast<std::uint64_t>(degree));
        int best = item.slot;
        bool met = false;
        for (int j = 0; j < degree; j++) {
            const int e = start + j < degree ? start + j : start + j - degree;
            if (above_[e][item.root] + 1 != here[item.root]) continue;
            if (!met || better(item.tree, first + e, first + best)) best = e;
            met = true;
        }
        return best;
    }

    std::size_t class_of(int t) const {
        return std::lower_bound(classes_.begin(), classes_.end(), family_.weight[t], std::greater<>()) - classes_.begin();
    }

    // (load + weight) / capacity, compared without division
    bool better(int t, int a, int best) const {
        const std::int64_t weight = family_.weight[t];
        if (family_.capacity[a] == family_.capacity[best]) return family_.load[a] < family_.load[best];
        const auto mine = static_cast<__int128>(family_.load[a] + weight) * family_.capacity[best];
        const auto other = static_cast<__int128>(family_.load[best] + weight) * family_.capacity[a];
        return mine < other;
    }

    TreeFamily& family_;
    const std::uint64_t seed_;
    std::vector<int> roots_, first_tree_;
    std::vector<Node> distance_;
    std::vector<std::int64_t> classes_;  // weights, the greatest first
    // Of the node whose parents are chosen: distances to each in-arc's tail, and by root
    std::vector<const Node*> above_;
    std::vector<int> choices_, slot_;
    std::vector<std::vector<Item>> by_turn_;
};

}  // namespace

std::vector<std::int64_t> weights_of(const TreeFamily& family) {
    std::vector<std::int64_t> weights = family.weight;
    std::sort(weights.begin(), weights.end(), std::greater<>());
    weights.erase(std::unique(weights.begin(), weights.end()), weights.end());
    return weights;
}

bool start_breadth_first(TreeFamily& family, std::uint64_t seed, const Control& control) {
    return BreadthFirstStart(family, seed).run(control);
}

bool start_priced(TreeFamily& family, std::uint64_t seed, const Control& control) {
    const int n = family.n_nodes(), trees = family.n_trees();
    using Offer = std::tuple<double, int, std::uint64_t, int, int>;  // price, depth, tie, arc, head
    std::vector<int> order(trees);
    for (int t = 0; t < trees; t++) order[t] = t;
    std::sort(order.begin(), order.end(), [&](int a, int b) {
        if (family.weight[a] != family.weight[b]) return family.weight[a] > family.weight[b];
        auto x = draw(seed, a, 0), y = draw(seed, b, 0);
        return x != y ? x < y : a < b;
    });
    std::int64_t done = 0;
    for (int t : order) {
        if (control.cancelled()) return false;
        control.progress(done++, 2 * trees);
        Node *parent = family.parents(t), *depth = family.depths(t);
        std::vector<char> inside(n, false);
        std::priority_queue<Offer, std::vector<Offer>, std::greater<Offer>> offers;
        int size = 0;
        auto join = [&](int x) {
            inside[x] = true, size++;
            for (int j = family.out_start[x]; j < family.out_start[x + 1]; j++) {
                int y = family.out_head[j], a = inside[y] ? -1 : family.arc(x, y);
                if (a < 0) continue;
                double price = static_cast<double>(family.load[a] + family.weight[t]) / static_cast<double>(family.capacity[a]);
                offers.emplace(price, depth[x] + 1, draw(seed, t, a), a, y);
            }
        };
        depth[family.root[t]] = 0;
        join(family.root[t]);
        while (size < n && !offers.empty()) {
            auto [price, deep, tie, a, y] = offers.top();
            offers.pop();
            if (inside[y]) continue;
            parent[y] = static_cast<Node>(family.in_tail[a]);
            depth[y] = static_cast<Node>(deep);
            family.load[a] += family.weight[t];
            join(y);
        }
        if (size < n) return false;
    }
    family.count_children();
    return true;
}

}  // namespace treadle
