// Fewer different trees (docs/how-it-works/optimal-trees.md): a heuristic of this program, by swaps alone.
//
// First, swaps between trees of two roots that raise the sum, over roots, nodes and parents, of the squares of units:
// a node then hangs on few different parents in the trees of a root. Then, root by root, trees are made equal to one
// tree after another: the tree aimed at is one whose rarest edge is most frequent (found by bisection over the
// frequency), and every tree takes its parents, from the root down, from trees that can take what it has.
#include "trees/routed/tree_gathering.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "trees/routed/edge_pools.hpp"

namespace treadle {
namespace {

using Node = RoutedTrees::Node;

constexpr int kSamples = 16;         // tree edges looked at per sender and junction
constexpr int kRounds = 30;          // over all tree edges
constexpr std::int64_t kFew = 10000;  // a round with fewer exchanges than one in so many tree edges is the last

// What both parts of the search have in common: where a node may hang, and steps.
class Hanging {
   public:
    Hanging(RoutedTrees& trees, const GatherOptions& options, const Control& control, GatherCounts& counts)
        : trees_(trees), options_(options), control_(control), counts_(counts), n_(trees.n_ranks()) {}

   protected:
    RoutedTrees& trees_;
    const GatherOptions& options_;
    const Control& control_;
    GatherCounts& counts_;
    const int n_;

    bool stopped() const { return counts_.work > options_.max_work || control_.cancelled(); }

    // Whether v, with what hangs below it, may hang on u.
    bool fits(int t, int v, int u) {
        counts_.work++;
        if (trees_.is_below(t, u, v)) return false;
        const Node* depth = trees_.depths(t);
        const int room = options_.height - depth[u] - 1 + depth[v];
        for (int x : trees_.subtree(t, v)) {
            counts_.work++;
            if (depth[x] > room) return false;
        }
        return true;
    }
};

// A root's trees are alike if a node hangs on the same parent in all of them. Exchanges between trees of two roots, as
// those of the search for lower trees, are made if they raise the sum of the squares of (units with that parent), over
// all roots, nodes and parents.
class Gathering : Hanging {
   public:
    Gathering(RoutedTrees& trees, const GatherOptions& options, const Control& control, GatherCounts& counts)
        : Hanging(trees, options, control, counts), random_(options.seed * 2 + 1), pools_(trees) {
        used_.assign(static_cast<std::size_t>(n_) * n_, {});
        for (int t = 0; t < trees_.n_trees(); t++)
            for (int v = 0; v < n_; v++)
                if (v != trees_.root[t]) count(t, v, trees_.weight[t]);
    }

    void run() {
        const std::int64_t edges = static_cast<std::int64_t>(trees_.n_trees()) * n_;
        for (int round = 0; round < kRounds && !stopped(); round++) {
            const std::int64_t before = counts_.swaps;
            for (int t = 0; t < trees_.n_trees(); t++)
                for (int v = 0; v < n_ && !stopped(); v++)
                    if (v != trees_.root[t]) improve(t, v);
            control_.progress(counts_.work, options_.max_work);
            if ((counts_.swaps - before) * kFew < edges) break;
        }
    }

   private:
    using Parents = std::vector<std::pair<int, std::int64_t>>;

    std::uint64_t random_;
    EdgePools pools_;
    std::vector<Parents> used_;  // by (root, node): parents and units
    std::vector<int> wanted_, passed_;

    std::uint64_t draw() {
        random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
        return random_;
    }

    Parents& used(int t, int v) { return used_[static_cast<std::size_t>(trees_.root[t]) * n_ + v]; }

    std::int64_t units(int t, int v, int u) {
        for (const auto& [parent, units] : used(t, v))
            if (parent == u) return units;
        return 0;
    }

    // Units of the edge that v hangs by.
    void count(int t, int v, std::int64_t change) {
        const int u = trees_.parents(t)[v];
        Parents& parents = used(t, v);
        for (auto& [parent, units] : parents)
            if (parent == u) {
                units += change;
                return;
            }
        parents.emplace_back(u, change);
    }

    // Half of what the sum of squares gains per unit from hanging v on u.
    std::int64_t gain(int t, int v, int u) {
        return units(t, v, u) - units(t, v, trees_.parents(t)[v]) + trees_.weight[t];
    }

    void improve(int t, int v) {
        const int old = trees_.parents(t)[v];
        const std::int64_t mine = units(t, v, old);
        wanted_.clear();
        for (const auto& [u, units] : used(t, v))
            if (u != old && units >= mine) wanted_.push_back(u);
        counts_.work++;
        for (int u : wanted_)
            if (fits(t, v, u) && exchange(t, v, u)) return;
    }

    // Node v of tree t comes to hang on u: some other tree gives up an edge from there that passes one node with it.
    bool exchange(int t, int v, int u) {
        const int old = trees_.parents(t)[v], path = trees_.paths(t)[v];
        const std::int64_t first = gain(t, v, u);
        passed_.clear();
        for (const int* e = trees_.path_begin(path); e != trees_.path_end(path); ++e)
            passed_.push_back(trees_.network.head[*e]);
        for (int node : passed_) {
            auto& edges = pools_.at(u, node);
            std::size_t at = edges.empty() ? 0 : draw() % edges.size();
            for (int k = 0; k < kSamples && k < static_cast<int>(edges.size()); k++, at++) {
                at = at < edges.size() ? at : 0;
                counts_.work++;
                const TreeEdge other = edges[at];
                if (!pools_.holds(other, u, node)) {
                    edges[at] = edges.back();
                    edges.pop_back();
                    continue;
                }
                const int theirs = trees_.paths(other.tree)[other.node];
                if (trees_.root[other.tree] == trees_.root[t] || trees_.weight[other.tree] != trees_.weight[t] ||
                    other.node == old || first + gain(other.tree, other.node, old) <= 0 ||
                    !fits(other.tree, other.node, old))
                    continue;
                hang(t, v, trees_.splice(theirs, node, path));
                hang(other.tree, other.node, trees_.splice(path, node, theirs));
                counts_.swaps++;
                return true;
            }
        }
        return false;
    }

    void hang(int t, int v, int path) {
        count(t, v, -trees_.weight[t]);
        trees_.relink(t, v, path);
        count(t, v, trees_.weight[t]);
        trees_.settle_depths(t, v);
        pools_.add(t, v);
    }
};

// Trees of one root and weight, made equal to one tree after the other by exchanges among them. The tree aimed at is the
// lowest one of edges that as many of them as possible have.
class Aligning : Hanging {
   public:
    using Hanging::Hanging;

    void run(std::vector<int> left) {
        while (left.size() > 1 && !stopped()) {
            pick(left);
            std::vector<std::pair<int, int>> order;
            for (int t : left) order.emplace_back(-matches(t), t);
            std::sort(order.begin(), order.end());
            std::vector<int> done;
            open_.assign(trees_.n_trees(), false);
            for (int t : left) open_[t] = true;
            for (const auto& [_, t] : order)
                if (align(t, left)) done.push_back(t), open_[t] = false;
            if (done.empty()) done.push_back(order[0].second);
            const Node* like = trees_.parents(done[0]);
            auto same = [&](int t) { return std::equal(like, like + n_, trees_.parents(t)); };
            left.erase(std::remove_if(left.begin(), left.end(), same), left.end());
        }
    }

   private:
    int root_ = 0;
    std::vector<int> count_;           // by (node, parent): trees
    std::vector<int> target_, depth_;  // the tree aimed at; -1 at and of its root
    std::vector<int> down_;            // its nodes but the root, parents first
    std::vector<char> open_;           // by tree: may still change

    void pick(const std::vector<int>& left) {
        root_ = trees_.root[left[0]];
        count_.assign(static_cast<std::size_t>(n_) * n_, 0);
        for (int t : left)
            for (int v = 0; v < n_; v++)
                if (v != root_) count_[static_cast<std::size_t>(v) * n_ + trees_.parents(t)[v]]++;
        int low = 1, high = static_cast<int>(left.size());
        while (low < high) {
            const int middle = (low + high + 1) / 2;
            if (spans(middle))
                low = middle;
            else
                high = middle - 1;
        }
        spans(low);
    }

    // Breadth-first over edges that `least` trees have; a node takes the one that most have.
    bool spans(int least) {
        counts_.work += static_cast<std::int64_t>(n_) * n_ / 8;
        target_.assign(n_, -1);
        depth_.assign(n_, -1);
        depth_[root_] = 0;
        down_.clear();
        for (int d = 1; d <= options_.height && static_cast<int>(down_.size()) < n_ - 1; d++) {
            const std::size_t before = down_.size();
            for (int v = 0; v < n_; v++) {
                if (depth_[v] >= 0) continue;
                int most = 0;
                const int* row = count_.data() + static_cast<std::size_t>(v) * n_;
                for (int u = 0; u < n_; u++)
                    if (row[u] >= least && row[u] > most && depth_[u] >= 0) most = row[u], target_[v] = u;
                if (most) down_.push_back(v);
            }
            if (down_.size() == before) return false;
            for (std::size_t i = before; i < down_.size(); i++) depth_[down_[i]] = d;
        }
        return static_cast<int>(down_.size()) == n_ - 1;
    }

    int matches(int t) const {
        int found = 0;
        for (int v : down_) found += trees_.parents(t)[v] == target_[v];
        return found;
    }

    // From the root down every node gets the parent aimed at, from a tree that can take the one it has.
    bool align(int t, const std::vector<int>& left) {
        bool whole = true;
        for (int v : down_) {
            const int u = trees_.parents(t)[v], to = target_[v];
            if (u == to) continue;
            whole = fits(t, v, to) && swap_with_any(t, v, to, u, left) && whole;
        }
        return whole;
    }

    bool swap_with_any(int t, int v, int to, int u, const std::vector<int>& left) {
        for (int other : left) {
            counts_.work++;
            if (other == t || !open_[other] || trees_.parents(other)[v] != to || !fits(other, v, u)) continue;
            const int mine = trees_.paths(t)[v], theirs = trees_.paths(other)[v];
            trees_.relink(t, v, theirs);
            trees_.relink(other, v, mine);
            trees_.settle_depths(t, v);
            trees_.settle_depths(other, v);
            counts_.swaps++;
            return true;
        }
        return false;
    }
};

}  // namespace

void gather_trees(RoutedTrees& trees, const GatherOptions& options, const Control& control, GatherCounts& counts) {
    if (!options.max_work) return;
    Gathering(trees, options, control, counts).run();
    std::map<std::pair<int, std::int64_t>, std::vector<int>> alike;  // by root and weight
    for (int t = 0; t < trees.n_trees(); t++) alike[{trees.root[t], trees.weight[t]}].push_back(t);
    Aligning aligning(trees, options, control, counts);
    for (const auto& [_, members] : alike) aligning.run(members);
}

Status gather_forest(Network network, RoutedForest forest, std::int64_t max_cells, const GatherOptions& options,
                     const Control& control, RoutedForest& result, GatherCounts& counts) {
    RoutedTrees trees(std::move(network));
    if (!route_trees(forest, max_cells, trees)) return Status::stuck;
    forest = {};
    gather_trees(trees, options, control, counts);
    trees.write(result);
    return Status::ok;
}

}  // namespace treadle
