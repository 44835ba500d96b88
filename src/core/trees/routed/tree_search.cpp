// Local search for lower trees at equal loads (docs/how-it-works/optimal-trees.md).
//
// A tree edge is a path of links. Three moves keep loads within capacities: two edges of different trees that pass one
// node swap what comes before it; where that would close a cycle, the nodes above change sides too (a reversal); and a
// subtree moves to a higher node over links with free units. A node at depth d costs d, and much more beyond a limit:
// the square of its hops above it, so that the deepest are lifted first. The limit is found by bisection between the
// bound and the height; then each next lower height is tried with patience, where moves may cost a little and exchanges
// among trees that are low enough make room, as in threshold accepting (Dueck and Scheuer, 1990). The best state is kept.
#include "trees/routed/tree_search.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "trees/routed/edge_pools.hpp"
#include "trees/routed/free_routes.hpp"

namespace treadle {
namespace {

using Node = RoutedTrees::Node;

constexpr std::int64_t kSteep = 64;   // what a hop above the limit costs, squared, beside a hop below it
constexpr int kSamples = 8;           // tree edges looked at per sender and junction
constexpr int kSenders = 256;         // possible new parents looked at per node
constexpr int kAncestors = 8;         // nodes tried above a node that is too deep, itself included
constexpr int kChain = 6;             // ancestors that change sides in a reversal
constexpr int kStall = 3;             // rounds with little gain at a height
constexpr double kGain = 0.9;         // what is left of the excess after a round that gains
constexpr int kPatience = 12;         // the same at the last height that was missed, and ...
constexpr int kLifts = 4000;          // ... nodes that were tried there in vain
constexpr std::int64_t kSideways = 8;  // what a move may cost there, in hops of one node

class TreeSearch {
   public:
    TreeSearch(RoutedTrees& trees, const SearchOptions& options, const Control& control, SearchCounts& counts)
        : trees_(trees), options_(options), control_(control), counts_(counts), n_(trees.n_ranks()),
          random_(options.seed * 2 + 1), cost_(n_ + 1), free_(trees) {}

    void run() {
        int height = trees_.height();
        counts_.before = counts_.after = height;
        if (height <= options_.lowest) return;
        pools_.emplace(trees_);
        count_listed();
        auto best = trees_.snapshot();
        bool kept = true;  // the trees are as in the snapshot
        // By bisection: a limit that cannot be reached in few rounds is taken for too low.
        int floor = options_.lowest;
        while (floor < counts_.after && !stopped())
            if (const int limit = (floor + static_cast<int>(counts_.after) - 1) / 2; !search(limit, best, kept))
                floor = limit + 1;
        // With patience, one hop at a time.
        sideways_ = kSideways;
        while (counts_.after > options_.lowest && !stopped() && search(static_cast<int>(counts_.after) - 1, best, kept)) {
        }
        if (!kept) trees_.restore(best);
    }

   private:
    RoutedTrees& trees_;
    const SearchOptions& options_;
    const Control& control_;
    SearchCounts& counts_;
    const int n_;
    std::uint64_t random_;
    std::vector<std::int64_t> cost_;        // of a node, by its depth
    std::optional<EdgePools> pools_;        // not made if there is nothing to do
    std::int64_t refill_ = 0;               // entries of the pools after which they are filled anew
    std::int64_t sideways_ = 0, tolerance_ = 0, lifts_ = 0;
    FreeRoutes free_;
    std::vector<int> shallow_, deep_, ancestors_, passed_;
    std::vector<std::int64_t> below_;  // nodes by depth below the node that is to be re-hung

    bool stopped() const { return counts_.work > options_.max_work || control_.cancelled(); }

    std::uint64_t draw() {
        random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
        return random_;
    }

    void list_edge(int tree, int v) { pools_->add(tree, v); }

    void count_listed() {
        refill_ = 2 * pools_->listed() + 1000;
        counts_.work += pools_->listed();
    }

    // Lower every node that is deeper than the limit. Keeps a snapshot whenever the height of all trees falls.
    bool search(int limit, RoutedTrees::Snapshot& best, bool& kept) {
        for (int d = 0; d <= n_; d++) {
            const std::int64_t above = std::max(0, d - limit);
            cost_[d] = d + kSteep * above * above;
        }
        double least = std::numeric_limits<double>::infinity();
        lifts_ = 0;
        for (int stall = 0; !stopped() && (sideways_ ? stall < kPatience || lifts_ < kLifts : stall < kStall);) {
            if (pools_->listed() > refill_) {
                pools_->fill();
                count_listed();
            }
            const std::int64_t moves = counts_.swaps + counts_.reversals + counts_.rehangs;
            const int trees = trees_.n_trees(), first = static_cast<int>(draw() % trees);
            for (int i = 0; i < trees && !stopped(); i++) lower_tree((first + i) % trees, limit);
            if (sideways_) shake(limit);
            if (counts_.swaps + counts_.reversals + counts_.rehangs != moves) kept = false;
            const int height = trees_.height();
            if (height < counts_.after) {
                counts_.after = height;
                best = trees_.snapshot();
                kept = true;
                if (height <= limit) return true;
            }
            const double left = excess(limit);
            control_.progress(counts_.work, options_.max_work);
            if (left < (sideways_ ? least : kGain * least))
                least = left, stall = 0, lifts_ = 0;
            else
                stall++;
        }
        return false;
    }

    // Of all trees; a double, for units may be very many.
    double excess(int limit) {
        double sum = 0;
        for (int t = 0; t < trees_.n_trees(); t++) {
            const Node* depth = trees_.depths(t);
            std::int64_t mine = 0;
            for (int v = 0; v < n_; v++)
                if (depth[v] > limit) mine += cost_[depth[v]];
            sum += static_cast<double>(mine) * static_cast<double>(trees_.weight[t]);
        }
        return sum;
    }

    void lower_tree(int t, int limit) {
        deep_.clear();
        const Node* depth = trees_.depths(t);
        for (int v = 0; v < n_; v++)
            if (depth[v] > limit) deep_.push_back(v);
        counts_.work += n_ / 8 + 1;
        const std::vector<int> deep = deep_;
        for (int v : deep) {
            if (trees_.depths(t)[v] <= limit || stopped()) continue;
            tolerance_ = 0;
            lifts_++;
            if (lift(t, v) || !sideways_) continue;
            tolerance_ = sideways_ << draw() % 6;
            lift(t, v);
        }
    }

    // Re-hang the node or one of those above it.
    bool lift(int t, int v) {
        ancestors_.clear();
        for (int x = v; trees_.depths(t)[x] > 1; x = trees_.parents(t)[x]) ancestors_.push_back(x);
        const int size = static_cast<int>(ancestors_.size());
        for (int i = 0; i < std::min(size, kAncestors); i++) {
            const int j = size <= kAncestors ? i : i + static_cast<int>(draw() % (size - i));
            std::swap(ancestors_[i], ancestors_[j]);
            if (stopped()) return false;
            if (raise(t, ancestors_[i])) return true;
        }
        return false;
    }

    void count_below(int t, int v) {
        below_.clear();
        const Node* depth = trees_.depths(t);
        for (int x : trees_.subtree(t, v)) {
            const std::size_t d = depth[x] - depth[v];
            if (below_.size() <= d) below_.resize(d + 1, 0);
            below_[d]++;
            counts_.work++;
        }
    }

    static std::int64_t change(const std::vector<std::int64_t>& below, const std::vector<std::int64_t>& cost, int from,
                               int to) {
        std::int64_t sum = 0;
        for (std::size_t d = 0; d < below.size(); d++) {
            // A path through all nodes is no deeper than that, whatever hangs where.
            const std::size_t last = cost.size() - 1;
            sum += below[d] * (cost[std::min(last, to + d)] - cost[std::min(last, from + d)]);
        }
        return sum;
    }

    // Less cost with node `a` of tree t hung higher up.
    bool raise(int t, int a) {
        list_senders(t, a, trees_.depths(t)[a] - 2);
        if (use_free(t, a)) return true;
        count_below(t, a);
        return exchange(t, a);
    }

    // Exchanges that neither gain nor harm much, anywhere: room to move for those that are stuck.
    void shake(int limit) {
        tolerance_ = kSteep / 2;
        const int moves = trees_.n_trees() / 4 + kAncestors;
        for (int i = 0; i < moves && !stopped(); i++) {
            const int t = static_cast<int>(draw() % trees_.n_trees()), a = static_cast<int>(draw() % n_);
            if (a == trees_.root[t]) continue;
            count_below(t, a);
            list_senders(t, a, limit - static_cast<int>(below_.size()));
            exchange(t, a);
        }
    }

    // Ranks of the tree down to a depth that are not below `a`, highest first.
    void list_senders(int t, int a, int last) {
        const Node* depth = trees_.depths(t);
        shallow_.assign(1, trees_.root[t]);
        for (std::size_t i = 0; i < shallow_.size() && static_cast<int>(shallow_.size()) < kSenders; i++)
            if (depth[shallow_[i]] < last)
                trees_.for_children(t, shallow_[i], [&](int y) {
                    if (y != a) shallow_.push_back(y);
                });
        counts_.work += static_cast<std::int64_t>(shallow_.size());
    }

    // ---- free capacity ----

    bool use_free(int t, int a) {
        const std::vector<int>& links = free_.find(t, a, shallow_, counts_.work);
        if (links.empty()) return false;
        hang(t, a, trees_.path_of(links));
        trees_.settle_depths(t, a);
        counts_.rehangs++;
        return true;
    }

    void hang(int t, int v, int path) {
        trees_.relink(t, v, path);
        list_edge(t, v);
    }

    // ---- exchanges ----

    // Node a of tree t and a node of another tree (or another node of this one) exchange what their paths are up to a
    // node that both pass.
    bool exchange(int t, int a) {
        const int mine = trees_.paths(t)[a];
        passed_.clear();
        for (const int* e = trees_.path_begin(mine); e != trees_.path_end(mine); ++e)
            passed_.push_back(trees_.network.head[*e]);
        const std::size_t turn = draw() % shallow_.size();
        for (std::size_t i = 0; i < shallow_.size(); i++) {
            const int u = shallow_[(i + turn) % shallow_.size()];
            const int to = trees_.depths(t)[u] + 1;
            const std::int64_t gain = -change(below_, cost_, trees_.depths(t)[a], to);
            for (int node : passed_) {
                auto& edges = pools_->at(u, node);
                counts_.work++;
                if (edges.empty()) continue;
                std::size_t at = draw() % edges.size();
                for (int k = 0; k < kSamples && !edges.empty(); k++, at++) {
                    at = at < edges.size() ? at : 0;
                    counts_.work++;
                    const TreeEdge other = edges[at];
                    if (!pools_->holds(other, u, node)) {
                        edges[at] = edges.back();
                        edges.pop_back();
                        continue;
                    }
                    if (try_exchange({t, a}, other, node, gain)) return true;
                    if (static_cast<std::size_t>(k) + 1 >= edges.size()) break;
                }
            }
        }
        return false;
    }

    // `gain`: what tree t would gain per unit from hanging its node on the other's parent.
    bool try_exchange(TreeEdge mine, TreeEdge other, int node, std::int64_t gain) {
        const int w = trees_.parents(mine.tree)[mine.node];
        if (w == other.node || mine.tree == other.tree) return false;
        const Node* depth = trees_.depths(other.tree);
        counts_.work += 2;
        if (trees_.is_below(other.tree, w, other.node)) return reverse(mine, other, node);
        const int from = depth[other.node], to = depth[w] + 1;
        if (to > from) {
            std::int64_t loss = 0;
            for (int x : trees_.subtree(other.tree, other.node)) {
                counts_.work++;
                const int d = depth[x];
                loss += cost_[std::min(n_, d + to - from)] - cost_[d];
                if (loss >= gain + tolerance_) return false;
            }
        }
        if (!equalise(mine, other)) return false;
        const int one = trees_.paths(mine.tree)[mine.node], two = trees_.paths(other.tree)[other.node];
        hang(mine.tree, mine.node, trees_.splice(two, node, one));
        hang(other.tree, other.node, trees_.splice(one, node, two));
        trees_.settle_depths(mine.tree, mine.node);
        trees_.settle_depths(other.tree, other.node);
        counts_.swaps++;
        return true;
    }

    // Equal weights, by splitting the heavier tree.
    bool equalise(TreeEdge one, TreeEdge two) {
        const std::int64_t a = trees_.weight[one.tree], b = trees_.weight[two.tree];
        if (a == b) return true;
        if (static_cast<std::int64_t>(trees_.n_trees() + 1) * n_ > options_.max_cells) return false;
        const int copy = a > b ? trees_.split_off(one.tree, a - b) : trees_.split_off(two.tree, b - a);
        for (int v = 0; v < n_; v++)
            if (v != trees_.root[copy]) list_edge(copy, v);
        counts_.splits++;
        counts_.work += n_;
        return true;
    }

    // The parent of `mine` lies below the other node in the other tree: nodes from there up change sides as well until
    // the other tree holds no cycle. With one: w -> v -> u here and x -> u -> v there become x -> u -> v and w -> v -> u.
    bool reverse(TreeEdge mine, TreeEdge other, int node) {
        chain_.clear();
        const int one = trees_.paths(mine.tree)[mine.node], two = trees_.paths(other.tree)[other.node];
        chain_.push_back({mine.node, other.node, trees_.splice(two, node, one), trees_.splice(one, node, two)});
        int v = trees_.parents(mine.tree)[mine.node];
        for (;;) {
            if (v == trees_.root[mine.tree] || v == other.node || static_cast<int>(chain_.size()) > kChain) return false;
            chain_.push_back({v, v, trees_.paths(other.tree)[v], trees_.paths(mine.tree)[v]});
            v = trees_.parents(mine.tree)[v];
            counts_.work++;
            if (!trees_.is_below(other.tree, v, other.node)) break;
        }
        // Make all changes, then see whether both are still trees and cost less; else take everything back.
        undo_.clear();
        for (const Swap& swap : chain_) {
            undo_.push_back({swap.mine, swap.other, trees_.paths(mine.tree)[swap.mine], trees_.paths(other.tree)[swap.other]});
            trees_.relink(mine.tree, swap.mine, swap.to_mine);
            trees_.relink(other.tree, swap.other, swap.to_other);
        }
        bool good = true;
        for (const Swap& swap : chain_)
            good = good && hops(mine.tree, swap.mine) >= 0 && hops(other.tree, swap.other) >= 0;
        if (good) good = delta(mine.tree, true) + delta(other.tree, false) < tolerance_;
        const bool equal = trees_.weight[mine.tree] == trees_.weight[other.tree];
        if (good && equal) {
            for (const Swap& swap : chain_) list_edge(mine.tree, swap.mine), list_edge(other.tree, swap.other);
            counts_.reversals++;
            return true;
        }
        for (const Swap& swap : undo_) {
            trees_.relink(mine.tree, swap.mine, swap.to_mine);
            trees_.relink(other.tree, swap.other, swap.to_other);
        }
        for (const Swap& swap : chain_) {
            trees_.settle_depths(mine.tree, swap.mine);
            trees_.settle_depths(other.tree, swap.other);
        }
        // Trees of unequal weight: split the heavier one first, as it was, and change the parts of equal weight.
        if (!good || !equalise(mine, other)) return false;
        for (const Swap& swap : chain_) {
            hang(mine.tree, swap.mine, swap.to_mine);
            hang(other.tree, swap.other, swap.to_other);
        }
        for (const Swap& swap : chain_) {
            trees_.settle_depths(mine.tree, swap.mine);
            trees_.settle_depths(other.tree, swap.other);
        }
        counts_.reversals++;
        return true;
    }

    int hops(int t, int v) {
        const int found = trees_.climb(t, v);
        counts_.work += found < 0 ? n_ : found;
        return found;
    }

    // Depths of a tree made anew below the nodes of the chain: how its cost changes per unit.
    std::int64_t delta(int t, bool is_mine) {
        std::int64_t sum = 0;
        Node* depth = trees_.depths(t);
        const Node* parent = trees_.parents(t);
        for (const Swap& swap : chain_) {
            const int v = is_mine ? swap.mine : swap.other;
            const int deep = trees_.climb(t, v);
            for (int x : trees_.subtree(t, v)) {
                counts_.work++;
                const int now = x == v ? deep : depth[parent[x]] + 1;
                sum += cost_[now] - cost_[depth[x]];
                depth[x] = static_cast<Node>(now);
            }
        }
        return sum;
    }

    struct Swap {
        int mine, other, to_mine, to_other;  // nodes, and the paths they get
    };
    std::vector<Swap> chain_, undo_;
};

}  // namespace

void lower_trees(RoutedTrees& trees, const SearchOptions& options, const Control& control, SearchCounts& counts) {
    TreeSearch(trees, options, control, counts).run();
}

Status lower_forest(Network network, RoutedForest forest, const SearchOptions& options, const Control& control,
                    RoutedForest& result, SearchCounts& counts) {
    RoutedTrees trees(std::move(network));
    if (!route_trees(forest, options.max_cells, trees)) return Status::stuck;
    forest = {};  // the search needs the space
    lower_trees(trees, options, control, counts);
    trees.write(result);
    return Status::ok;
}

}  // namespace treadle
