// Lower trees by growing whole trees anew (docs/how-it-works/optimal-trees.md).
//
// A tree that is taken out can be grown again breadth-first in the room that the others leave: it is then as low as it
// can be beside them. For a limit of the height, all trees above it are grown anew in rounds. Full arcs that would have
// lifted a node become dear, and trees within the limit evade them by growing anew along cheapest paths of hops and
// prices: negotiated congestion, as in PathFinder (McMurchie and Ebeling, FPGA 1995), but loads never exceed capacities.
// What is still too high takes single arcs from trees that find another way. So the search can stop at any time.
#include "trees/packers/tree_regrowth.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

namespace treadle {
namespace {

using Units = std::int64_t;

constexpr int kHop = 32;               // what an arc costs where arcs have prices
constexpr int kScales[] = {32, 8, 2};  // units of price, the dearest first
constexpr int kBuckets = 1024;         // more than an arc can cost
constexpr int kHighest = 200;          // price
constexpr int kExchanges = 4;          // arcs that a tree takes from others in a round
constexpr int kTries = 8;              // arcs it asks for, for each of them
constexpr int kOwners = 12;            // trees looked at for one that has the arc
constexpr int kStep = 4;               // part of what is above the bound that is to go at once
constexpr int kStall = 2;              // rounds with little gain
constexpr int kPatience = 8;           // the same at the last height that was missed
constexpr double kGain = 0.9;          // what is left after a round that gains

// A digraph's arcs by tail and by head; those without capacity and loops are left out.
struct Arcs {
    explicit Arcs(const PackingProblem& problem) : tail(problem.tail), head(problem.head) {
        const int n = problem.n_nodes;
        first_out.assign(n + 1, 0);
        first_in.assign(n + 1, 0);
        auto usable = [&](std::size_t a) { return tail[a] != head[a] && problem.capacity[a] > 0; };
        for (std::size_t a = 0; a < tail.size(); a++)
            if (usable(a)) first_out[tail[a] + 1]++, first_in[head[a] + 1]++;
        std::partial_sum(first_out.begin(), first_out.end(), first_out.begin());
        std::partial_sum(first_in.begin(), first_in.end(), first_in.begin());
        out.resize(first_out[n]);
        in.resize(first_in[n]);
        std::vector<int> next_out = first_out, next_in = first_in;
        for (std::size_t a = 0; a < tail.size(); a++)
            if (usable(a)) out[next_out[tail[a]]++] = in[next_in[head[a]]++] = static_cast<int>(a);
    }

    const std::vector<int>&tail, &head;
    std::vector<int> first_out, out, first_in, in;
};

class TreeRegrowth {
   public:
    TreeRegrowth(const PackingProblem& problem, const RegrowthOptions& options, const Control& control,
                 TreePacking& packing, RegrowthCounts& counts)
        : arcs_(problem), options_(options), control_(control), counts_(counts), n_(problem.n_nodes),
          random_(options.seed * 2 + 1), room_(problem.capacity), price_(room_.size(), 0), depth_(n_), arc_(n_),
          below_(n_), cost_(n_), buckets_(kBuckets) {
        forest_.root = packing.root;
        forest_.weight = packing.multiplicity;
        into_of(packing);
        for (int t = 0; t < trees(); t++) {
            place(t, forest_.weight[t]);
            read(t);
            forest_.height.push_back(deepest());
        }
    }

    void run() {
        counts_.before = counts_.after = height();
        best_ = forest_;
        settle();
        int floor = options_.lowest;
        while (floor < counts_.after && !stopped()) {
            const int high = static_cast<int>(counts_.after), limit = high - std::max(1, (high - floor) / kStep);
            if (!search(limit, kStall)) floor = limit + 1;
        }
        while (counts_.after > options_.lowest && !stopped() && search(static_cast<int>(counts_.after) - 1, kPatience)) {
        }
    }

    void write(TreePacking& packing) const {
        packing.root = best_.root;
        packing.multiplicity = best_.weight;
        packing.parent.clear();
        for (const int a : best_.into) packing.parent.push_back(a < 0 ? -1 : arcs_.tail[a]);
    }

   private:
    struct Forest {
        std::vector<int> root;
        std::vector<Units> weight;
        std::vector<int> into;  // row-major (tree, node): the arc into it; -1 at the root
        std::vector<int> height;
    };

    const Arcs arcs_;
    const RegrowthOptions& options_;
    const Control& control_;
    RegrowthCounts& counts_;
    const int n_;
    std::uint64_t random_;
    Forest forest_, best_;
    std::vector<Units> room_;  // of each arc: units that no tree takes
    std::vector<int> price_;   // of each arc: how often it was full where a tree needed it
    // The tree that was grown or read last: nodes from the root down, their depths and arcs.
    std::vector<int> order_, depth_, arc_;
    std::vector<int> below_, cost_, wanted_, kept_, stack_;
    std::vector<std::vector<int>> buckets_;

    int trees() const { return static_cast<int>(forest_.root.size()); }
    int* row(int t) { return forest_.into.data() + static_cast<std::size_t>(t) * n_; }
    int height() const { return forest_.height.empty() ? 0 : *std::max_element(forest_.height.begin(), forest_.height.end()); }
    bool stopped() const { return counts_.work > options_.max_work || control_.cancelled(); }
    int deepest() const { return depth_[order_.back()]; }

    int draw(int below) {
        random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
        return static_cast<int>(random_ % static_cast<std::uint64_t>(below));
    }

    void into_of(const TreePacking& packing) {
        std::vector<int> known(n_, -1);  // the arc from each node into the one at hand
        forest_.into.assign(packing.parent.size(), -1);
        for (int v = 0; v < n_; v++) {
            for (int j = arcs_.first_in[v]; j < arcs_.first_in[v + 1]; j++) known[arcs_.tail[arcs_.in[j]]] = arcs_.in[j];
            for (std::size_t cell = v; cell < packing.parent.size(); cell += n_)
                if (packing.parent[cell] >= 0) forest_.into[cell] = known[packing.parent[cell]];
        }
    }

    // So many units of the tree are put on its arcs, or taken off.
    void place(int t, Units units) {
        const int* into = row(t);
        for (int v = 0; v < n_; v++)
            if (into[v] >= 0) room_[into[v]] -= units;
        counts_.work += n_;
    }

    // Order, depths and arcs of a tree of the forest.
    void read(int t) {
        const int* into = row(t);
        std::fill(depth_.begin(), depth_.end(), -1);
        depth_[forest_.root[t]] = 0;
        for (int v = 0; v < n_; v++) {
            stack_.clear();
            for (int x = v; depth_[x] < 0; x = arcs_.tail[into[x]]) stack_.push_back(x);
            for (; !stack_.empty(); stack_.pop_back()) depth_[stack_.back()] = depth_[arcs_.tail[into[stack_.back()]]] + 1;
            arc_[v] = into[v];
        }
        sort_by_depth();
    }

    void sort_by_depth() {
        std::vector<int> next(n_ + 1, 0);
        for (int v = 0; v < n_; v++) next[depth_[v] + 1]++;
        std::partial_sum(next.begin(), next.end(), next.begin());
        order_.resize(n_);
        for (int v = 0; v < n_; v++) order_[next[depth_[v]]++] = v;
        counts_.work += n_;
    }

    // A tree of fewest hops over arcs with room for it; of equally short ways those over cheap arcs, then those with
    // most room. False if it does not span.
    bool grow(int root, Units units) {
        std::fill(depth_.begin(), depth_.end(), -1);
        order_.assign(1, root);
        depth_[root] = 0;
        arc_[root] = -1;
        for (std::size_t i = 0; i < order_.size(); i++) {
            const int u = order_[i];
            for (int j = arcs_.first_out[u]; j < arcs_.first_out[u + 1]; j++) {
                const int a = arcs_.out[j], x = arcs_.head[a];
                if (room_[a] < units) continue;
                if (depth_[x] < 0) {
                    depth_[x] = depth_[u] + 1;
                    arc_[x] = a;
                    order_.push_back(x);
                } else if (depth_[x] == depth_[u] + 1 && is_better(a, arc_[x])) {
                    arc_[x] = a;
                }
            }
            counts_.work += arcs_.first_out[u + 1] - arcs_.first_out[u];
        }
        return static_cast<int>(order_.size()) == n_;
    }

    bool is_better(int a, int b) const { return price_[a] != price_[b] ? price_[a] < price_[b] : room_[a] > room_[b]; }

    // The same by least cost: hops and prices. Buckets of nodes by cost, used in turn.
    bool grow_cheap(int root, Units units, int scale) {
        std::fill(cost_.begin(), cost_.end(), std::numeric_limits<int>::max());
        order_.clear();
        cost_[root] = depth_[root] = 0;
        arc_[root] = -1;
        buckets_[0].push_back(root);
        int left = 1;
        for (int now = 0; left > 0; now++) {
            auto& bucket = buckets_[now % kBuckets];
            for (std::size_t i = 0; i < bucket.size(); i++) {  // arcs cost something, so none is added here
                const int u = bucket[i];
                left--;
                if (cost_[u] != now) continue;
                order_.push_back(u);
                for (int j = arcs_.first_out[u]; j < arcs_.first_out[u + 1]; j++) {
                    const int a = arcs_.out[j], x = arcs_.head[a];
                    const int through = now + kHop + std::min(price_[a] * scale, kBuckets - kHop - 1);
                    if (room_[a] < units || through >= cost_[x]) continue;
                    cost_[x] = through;
                    depth_[x] = depth_[u] + 1;
                    arc_[x] = a;
                    buckets_[through % kBuckets].push_back(x);
                    left++;
                }
                counts_.work += 2 * (arcs_.first_out[u + 1] - arcs_.first_out[u]);
            }
            bucket.clear();
        }
        return static_cast<int>(order_.size()) == n_;
    }

    // So many units of tree t, which are not on their arcs now, become the tree that was grown last; the rest is left.
    void take(int t, Units units, int height) {
        if (units < forest_.weight[t]) {
            forest_.weight[t] -= units;
            forest_.root.push_back(forest_.root[t]);
            forest_.weight.push_back(units);
            forest_.height.push_back(0);
            forest_.into.resize(forest_.into.size() + n_);
            t = trees() - 1;
            counts_.splits++;
        }
        std::copy(arc_.begin(), arc_.end(), row(t));
        forest_.height[t] = height;
        place(t, units);
    }

    bool can_split() const { return static_cast<std::int64_t>(trees() + 1) * n_ <= options_.max_cells; }

    // Every tree once in the room that the others leave.
    void settle() {
        for (int t = 0; t < trees() && !stopped(); t++) {
            const Units units = forest_.weight[t];
            place(t, -units);
            if (grow(forest_.root[t], units) && deepest() < forest_.height[t]) {
                counts_.regrown++;
                take(t, units, deepest());
            } else {
                place(t, units);
            }
            control_.progress(counts_.work, options_.max_work);
        }
        keep();
    }

    void keep() {
        if (height() >= counts_.after) return;
        counts_.after = height();
        best_ = forest_;
    }

    // Make every tree as low as the limit.
    bool search(int limit, int patience) {
        std::fill(price_.begin(), price_.end(), 0);
        double least = std::numeric_limits<double>::infinity();
        std::vector<int> turn;
        for (int stall = 0, round = 0; stall < patience && !stopped(); round++) {
            turn.resize(trees());
            std::iota(turn.begin(), turn.end(), 0);
            for (int i = trees() - 1; i > 0; i--) std::swap(turn[i], turn[draw(i + 1)]);
            for (int t : turn)
                if (forest_.height[t] > limit && !stopped()) lower(t, limit);
            for (int t : turn)
                for (int i = 0; round > 0 && i < kExchanges && forest_.height[t] > limit && !stopped(); i++)
                    if (!exchange(t, limit)) break;
            keep();
            if (height() <= limit) return true;
            for (int t : turn)
                if (forest_.height[t] <= limit && !stopped()) evade(t, limit);
            const double left = excess(limit);
            stall = left < kGain * least ? 0 : stall + 1;
            least = std::min(least, left);
            control_.progress(counts_.work, options_.max_work);
        }
        return false;
    }

    double excess(int limit) const {
        double sum = 0;
        for (int t = 0; t < trees(); t++)
            sum += std::max(0, forest_.height[t] - limit) * static_cast<double>(forest_.weight[t]);
        return sum;
    }

    // Grow a tree anew, or units of it, and raise the prices of the full arcs that it misses.
    void lower(int t, int limit) {
        for (;;) {
            const Units units = forest_.weight[t];
            place(t, -units);
            if (!grow(forest_.root[t], units) || deepest() >= forest_.height[t]) {
                place(t, units);
                read(t);
            } else {
                counts_.regrown++;
                take(t, units, deepest());
            }
            if (forest_.height[t] <= limit) return;
            find_wanted(units, limit);
            for (int a : wanted_) price_[a] = std::min(kHighest, price_[a] + 1);
            if (units == 1 || !can_split() || stopped()) return;
            place(t, -units);
            if (!grow(forest_.root[t], 1) || deepest() > limit) {
                place(t, units);
                return;
            }
            Units most = units - 1;  // the whole tree found no way
            for (int a : arc_)
                if (a >= 0) most = std::min(most, room_[a]);
            take(t, most, deepest());
            place(t, forest_.weight[t]);
        }
    }

    // Full arcs that would lift nodes with too deep ones below them, in the tree that was grown or read last.
    void find_wanted(Units units, int limit) {
        std::fill(below_.begin(), below_.end(), 0);
        for (std::size_t i = order_.size() - 1; i > 0; i--) {
            const int u = arcs_.tail[arc_[order_[i]]];
            below_[u] = std::max(below_[u], below_[order_[i]] + 1);
        }
        wanted_.clear();
        for (int x = 0; x < n_; x++)
            for (int j = arcs_.first_in[x]; depth_[x] + below_[x] > limit && j < arcs_.first_in[x + 1]; j++) {
                const int a = arcs_.in[j];
                if (depth_[arcs_.tail[a]] + 1 < depth_[x] && room_[a] < units) wanted_.push_back(a);
            }
        counts_.work += n_;
    }

    // A tree within the limit leaves dear arcs, as far as it stays within it.
    void evade(int t, int limit) {
        const auto price_of = [&](const int* into) {
            std::int64_t sum = 0;
            for (int v = 0; v < n_; v++) sum += into[v] < 0 ? 0 : price_[into[v]];
            return sum;
        };
        const std::int64_t before = price_of(row(t));
        counts_.work += n_ / 8 + 1;
        if (before == 0) return;
        const Units units = forest_.weight[t];
        place(t, -units);
        for (int scale : kScales) {
            if (!grow_cheap(forest_.root[t], units, scale)) break;
            const int high = *std::max_element(depth_.begin(), depth_.end());
            if (high > limit) continue;
            if (price_of(arc_.data()) >= before) break;
            counts_.regrown++;
            take(t, units, high);
            return;
        }
        place(t, units);
    }

    std::int64_t too_deep(int limit) const {
        std::int64_t sum = 0;
        for (int d : depth_) sum += std::max(0, d - limit);
        return sum;
    }

    // A tree that is too high takes one arc from a tree that finds another way within the limit.
    bool exchange(int t, int limit) {
        read(t);
        find_wanted(forest_.weight[t], limit);
        const std::int64_t before = too_deep(limit);
        for (int i = 0; i < kTries && !wanted_.empty() && !stopped(); i++) {
            const int a = wanted_[draw(static_cast<int>(wanted_.size()))];
            const int s = owner(a, t, limit);
            if (s >= 0 && give(a, s, t, before, limit)) {
                counts_.exchanges++;
                return true;
            }
        }
        return false;
    }

    // A tree within the limit that has the arc, or -1.
    int owner(int a, int t, int limit) {
        for (int i = 0; i < kOwners; i++) {
            const int s = draw(trees());
            counts_.work++;
            if (s != t && row(s)[arcs_.head[a]] == a && forest_.height[s] <= limit) return s;
        }
        return -1;
    }

    bool give(int a, int s, int t, std::int64_t before, int limit) {
        const Units units = std::min(forest_.weight[s], forest_.weight[t]);
        if (forest_.weight[s] != forest_.weight[t] && !can_split()) return false;
        place(t, -units);
        room_[a] += units;
        const bool gains = grow(forest_.root[t], units) && too_deep(limit) < before;
        room_[a] -= units;
        if (!gains) {
            place(t, units);
            return false;
        }
        kept_ = arc_;
        const int high = deepest();
        for (int b : kept_)
            if (b >= 0) room_[b] -= units;
        place(s, -units);
        const bool found = grow(forest_.root[s], units) && deepest() <= limit;
        if (found) take(s, units, deepest());
        for (int b : kept_)
            if (b >= 0) room_[b] += units;
        if (!found) {
            place(s, units);
            place(t, units);
            return false;
        }
        arc_ = kept_;
        take(t, units, high);
        return true;
    }
};

}  // namespace

void regrow_trees(const PackingProblem& problem, const RegrowthOptions& options, const Control& control,
                  TreePacking& packing, RegrowthCounts& counts) {
    if (packing.root.empty()) return;
    TreeRegrowth regrowth(problem, options, control, packing, counts);
    regrowth.run();
    if (counts.after < counts.before) regrowth.write(packing);
}

}  // namespace treadle
