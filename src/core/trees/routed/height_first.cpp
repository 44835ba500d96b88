// Trees of a given height routed at once, and mended as in negotiated congestion routing: McMurchie and Ebeling,
// "PathFinder" (FPGA 1995); see docs/how-it-works/optimal-trees.md.
//
// In every tree ranks join by their distance from the root. A rank hangs on one of few candidates by the path whose
// links are cheapest: (1 + 3 load / capacity) / capacity, more on overloaded links, and more for every round in which a
// link was overloaded. Then edges over overloaded links are ripped up and routed anew, round after round, while the
// price of overload rises. Incomplete: prices do not find that trees must enter a tight box just once.
#include "trees/routed/height_first.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <unordered_map>
#include <utility>

namespace treadle {
namespace {

using Node = RoutedTrees::Node;

constexpr int kSmallSwitch = 64;    // ranks at most at a switch whose ranks are all possible parents
constexpr int kSampled = 6;         // further ranks looked at
constexpr int kRoutes = 16;         // ways from switch to switch
constexpr int kSwitchHops = 4;      // links between the first switch of a path and the last one
constexpr int kStall = 8;           // rounds without gain of a tenth
constexpr double kCrowded = 3.0;    // price of a full link beside an empty one, less one
constexpr double kRise = 1.5;       // growth of the price of a unit too many, from 1, by round
constexpr double kHighest = 1e6;    // that price at most
constexpr double kHistory = 1.0;    // added in every round in which a link is overloaded
constexpr double kHopeless = 0.1;   // share of tree edges too many after which ripping up is not tried
constexpr double kNever = std::numeric_limits<double>::infinity();

class HeightFirst {
   public:
    HeightFirst(const std::vector<std::int64_t>& units, const HeightFirstOptions& options, const Control& control,
                RoutedTrees& trees, HeightFirstCounts& counts)
        : trees_(trees), net_(trees.network), options_(options), control_(control), counts_(counts),
          n_(trees.n_ranks()), random_(options.seed * 2 + 1), units_(units) {
        out_.resize(net_.n_nodes);
        in_.resize(net_.n_nodes);
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        for (int e = 0; e < static_cast<int>(net_.tail.size()); e++) {
            if (net_.capacity[e] == 0 || net_.tail[e] == net_.head[e]) continue;
            out_[net_.tail[e]].push_back(e);
            in_[net_.head[e]].push_back(e);
            least = std::min(least, net_.capacity[e]);
        }
        scale_ = static_cast<double>(least);
        history_.assign(net_.tail.size(), 0.0);
        find_groups();
    }

    Status run() {
        for (int r = 0; r < n_; r++)
            for (std::int64_t i = 0; i < units_[r]; i++) {
                if (control_.cancelled()) return Status::cancelled;
                if (!grow(r) || is_hopeless()) return Status::stuck;
            }
        return rip_up();
    }

   private:
    RoutedTrees& trees_;
    const Network& net_;
    const HeightFirstOptions& options_;
    const Control& control_;
    HeightFirstCounts& counts_;
    const int n_;
    std::uint64_t random_;
    const std::vector<std::int64_t>& units_;
    std::vector<std::vector<int>> out_, in_;       // links with capacity, by node
    std::vector<std::vector<int>> near_;           // by rank: others at its small switches
    std::vector<int> group_, member_, size_;       // by rank: smallest switch, place at it; by node: ranks there
    std::unordered_map<std::int64_t, std::vector<std::vector<int>>> routes_;  // by pair of switches
    std::vector<double> history_;
    double scale_ = 1, pressure_ = 1;  // prices are relative to the narrowest link
    std::vector<int> order_, hops_, route_, best_route_;

    std::uint64_t draw() {
        random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
        return random_;
    }

    void find_groups() {
        size_.assign(net_.n_nodes, 0);
        std::vector<std::vector<int>> ranks(net_.n_nodes);
        for (int v = 0; v < n_; v++)
            for (int e : out_[v]) {
                auto& there = ranks[net_.head[e]];
                if (there.empty() || there.back() != v) there.push_back(v);
            }
        for (int s = 0; s < net_.n_nodes; s++) size_[s] = static_cast<int>(ranks[s].size());
        group_.assign(n_, -1);
        member_.assign(n_, 0);
        near_.resize(n_);
        for (int v = 0; v < n_; v++) {
            for (int e : in_[v]) {
                const int s = net_.tail[e];
                if (s < n_) {
                    near_[v].push_back(s);
                    continue;
                }
                if (size_[s] <= kSmallSwitch) near_[v].insert(near_[v].end(), ranks[s].begin(), ranks[s].end());
                if (group_[v] < 0 || size_[s] < size_[group_[v]]) group_[v] = s;
            }
            std::sort(near_[v].begin(), near_[v].end());
            near_[v].erase(std::unique(near_[v].begin(), near_[v].end()), near_[v].end());
            near_[v].erase(std::remove(near_[v].begin(), near_[v].end(), v), near_[v].end());
            if (group_[v] < 0) group_[v] = v;
            const auto& there = ranks[group_[v]];
            member_[v] = static_cast<int>(std::lower_bound(there.begin(), there.end(), v) - there.begin());
        }
    }

    // Shortest ways between two switches through switches, a few of them; one without links if they are the same.
    const std::vector<std::vector<int>>& routes(int from, int to) {
        auto [place, is_new] = routes_.try_emplace(static_cast<std::int64_t>(from) * net_.n_nodes + to);
        auto& found = place->second;
        if (!is_new) return found;
        if (from == to) {
            found.emplace_back();
            return found;
        }
        hops_.assign(net_.n_nodes, -1);
        std::vector<int> queue{to};
        hops_[to] = 0;
        for (std::size_t i = 0; i < queue.size() && hops_[from] < 0 && hops_[queue[i]] < kSwitchHops; i++)
            for (int e : in_[queue[i]]) {
                const int s = net_.tail[e];
                counts_.work++;
                if (s < n_ || hops_[s] >= 0) continue;
                hops_[s] = hops_[queue[i]] + 1;
                queue.push_back(s);
            }
        if (hops_[from] < 0) return found;
        // Depth first from the front; where to start among a switch's links differs from pair to pair.
        std::vector<int> links;
        auto visit = [&](auto&& self, int s) -> void {
            if (s == to) {
                found.push_back(links);
                return;
            }
            const auto& next = out_[s];
            for (std::size_t i = 0; i < next.size() && static_cast<int>(found.size()) < kRoutes; i++) {
                const int e = next[(i + static_cast<std::size_t>(from) + to) % next.size()];
                counts_.work++;
                if (net_.head[e] < n_ || hops_[net_.head[e]] != hops_[s] - 1) continue;
                links.push_back(e);
                self(self, net_.head[e]);
                links.pop_back();
            }
        };
        visit(visit, from);
        return found;
    }

    double price(int e) const {
        const double capacity = static_cast<double>(net_.capacity[e]), load = static_cast<double>(trees_.load[e]);
        const double over = load + 1 - capacity;
        return scale_ * (1 + kCrowded * load / capacity) / capacity + history_[e] + (over > 0 ? pressure_ * over : 0);
    }

    // The cheapest path from u to y; `route_` are its links.
    double cheapest(int u, int y, double limit) {
        double best = limit;
        for (int first : out_[u]) {
            const int s = net_.head[first];
            const double start = price(first);
            counts_.work++;
            if (s == y && start < best) best = start, route_.assign(1, first);
            if (s < n_ || start >= best) continue;
            for (int last : in_[y]) {
                const int end = net_.tail[last];
                if (end < n_) continue;
                counts_.work++;
                const double ends = start + price(last);
                if (ends >= best) continue;
                for (const auto& between : routes(s, end)) {
                    double sum = ends;
                    for (int e : between) sum += price(e);
                    counts_.work += static_cast<std::int64_t>(between.size()) + 1;
                    if (sum >= best) continue;
                    best = sum;
                    route_.assign(1, first);
                    route_.insert(route_.end(), between.begin(), between.end());
                    route_.push_back(last);
                }
            }
        }
        return best;
    }

    // The cheapest way to hang y, with what is below it, on another rank: `best_route_`, empty if there is none.
    void choose(int t, int y, int below, bool sample) {
        const Node *parent = trees_.parents(t), *depth = trees_.depths(t);
        const int root = trees_.root[t];
        double best = kNever;
        best_route_.clear();
        auto offer = [&](int u) {
            if (u == y || (u != root && parent[u] == RoutedTrees::kNone)) return;
            if (depth[u] + 1 + below > options_.height) return;
            if (parent[y] != RoutedTrees::kNone && trees_.is_below(t, u, y)) return;
            const double found = cheapest(u, y, best);
            if (found < best) best = found, best_route_ = route_;
        };
        for (int u : near_[y]) offer(u);
        if (sample || best >= pressure_) offer(root);
        if (sample || best >= pressure_)
            for (int i = 0; i < kSampled; i++) offer(static_cast<int>(draw() % static_cast<std::uint64_t>(n_)));
    }

    // Ranks join by their distance in the network, switch by switch; who is first at a switch differs between trees.
    bool grow(int root) {
        const int t = trees_.add_tree(root, 1);
        std::vector<int> hops(net_.n_nodes, -1), queue{root};
        hops[root] = 0;
        for (std::size_t i = 0; i < queue.size(); i++)
            for (int e : out_[queue[i]])
                if (hops[net_.head[e]] < 0) hops[net_.head[e]] = hops[queue[i]] + 1, queue.push_back(net_.head[e]);
        order_.clear();
        for (int v = 0; v < n_; v++)
            if (v != root) order_.push_back(v);
        auto turn = [&](int v) { return (member_[v] + t) % std::max(1, size_[group_[v]]); };
        std::sort(order_.begin(), order_.end(), [&](int a, int b) {
            if (hops[a] != hops[b]) return hops[a] < hops[b];
            if (group_[a] != group_[b]) return group_[a] < group_[b];
            return std::make_pair(turn(a), a) < std::make_pair(turn(b), b);
        });
        for (int y : order_) {
            choose(t, y, 0, false);
            if (best_route_.empty()) return false;
            trees_.relink(t, y, trees_.path_of(best_route_));
            trees_.depths(t)[y] = static_cast<Node>(trees_.depths(t)[trees_.parents(t)[y]] + 1);
        }
        counts_.work += net_.n_nodes + static_cast<std::int64_t>(net_.tail.size());
        return true;
    }

    bool is_hopeless() {
        std::int64_t trees = 0;
        for (std::int64_t units : units_) trees += units;
        counts_.overload = overload();
        return counts_.work > options_.max_work ||
               static_cast<double>(counts_.overload) > kHopeless * static_cast<double>(trees * (n_ - 1));
    }

    std::int64_t overload() const {
        std::int64_t sum = 0;
        for (std::size_t e = 0; e < net_.tail.size(); e++)
            sum += std::max<std::int64_t>(0, trees_.load[e] - net_.capacity[e]);
        return sum;
    }

    Status rip_up() {
        std::int64_t least = overload();
        for (int stall = 0;; counts_.rounds++) {
            counts_.overload = overload();
            if (counts_.overload == 0) return Status::ok;
            if (control_.cancelled()) return Status::cancelled;
            if (counts_.rounds >= options_.rounds || counts_.work > options_.max_work) return Status::stuck;
            if (counts_.rounds > 0) stall = counts_.overload * 10 > least * 9 ? stall + 1 : 0;
            if (stall >= kStall) return Status::stuck;
            least = std::min(least, counts_.overload);
            for (std::size_t e = 0; e < net_.tail.size(); e++)
                if (trees_.load[e] > net_.capacity[e]) history_[e] += kHistory;
            pressure_ = std::min(kHighest, pressure_ * kRise);
            control_.progress(counts_.rounds, options_.rounds);
            const int first = static_cast<int>(draw() % trees_.n_trees());
            for (int i = 0; i < trees_.n_trees(); i++) {
                if (control_.cancelled()) return Status::cancelled;
                reroute((first + i) % trees_.n_trees());
            }
        }
    }

    void reroute(int t) {
        for (int y = 0; y < n_; y++) {
            const int path = trees_.paths(t)[y];
            if (path < 0) continue;
            counts_.work++;
            if (std::none_of(trees_.path_begin(path), trees_.path_end(path),
                             [&](int e) { return trees_.load[e] > net_.capacity[e]; }))
                continue;
            const std::vector<int> old(trees_.path_begin(path), trees_.path_end(path));
            for (int e : old) trees_.load[e]--;  // the edge itself is not in its own way
            const int was = trees_.depths(t)[y];
            int below = 0;
            for (int x : trees_.subtree(t, y)) below = std::max(below, trees_.depths(t)[x] - was), counts_.work++;
            choose(t, y, below, true);
            for (int e : old) trees_.load[e]++;
            if (best_route_.empty() || best_route_ == old) continue;
            trees_.relink(t, y, trees_.path_of(best_route_));
            if (trees_.depths(t)[trees_.parents(t)[y]] + 1 != was) trees_.settle_depths(t, y);
            counts_.reroutes++;
        }
    }
};

}  // namespace

Status grow_low_trees(const std::vector<std::int64_t>& units, const HeightFirstOptions& options,
                      const Control& control, RoutedTrees& trees, HeightFirstCounts& counts) {
    return HeightFirst(units, options, control, trees, counts).run();
}

}  // namespace treadle
