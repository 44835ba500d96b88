#include "vertex_matching.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <queue>
#include <tuple>

#include "tree_family.hpp"

namespace treadle {
namespace {

using Node = TreeFamily::Node;

bool distances_from(const TreeFamily& family, int root, Node* distance) {
    std::fill(distance, distance + family.n_nodes(), TreeFamily::kNone);
    std::vector<int> queue{root};
    distance[root] = 0;
    for (std::size_t i = 0; i < queue.size(); i++)
        for (int j = family.out_start[queue[i]]; j < family.out_start[queue[i] + 1]; j++) {
            int y = family.out_head[j];
            if (distance[y] != TreeFamily::kNone) continue;
            distance[y] = static_cast<Node>(distance[queue[i]] + 1);
            queue.push_back(y);
        }
    return static_cast<int>(queue.size()) == family.n_nodes();
}

// A number to break ties by.
std::uint64_t draw(std::uint64_t seed, int tree, int arc) {
    std::uint64_t x = (seed + static_cast<std::uint64_t>(tree)) * 0x9e3779b97f4a7c15ull;
    x ^= static_cast<std::uint64_t>(arc + 1) * 0xc2b2ae3d27d4eb4full;
    return (x * 0xbf58476d1ce4e5b9ull) >> 20;
}

// Every tree a tree of shortest paths; at each node the roots with fewest possible parents choose first, each tree
// the arc with the least load for its capacity.
bool start_breadth_first(TreeFamily& family, std::uint64_t seed) {
    const int n = family.n_nodes(), trees = family.n_trees();
    std::vector<int> first_tree;  // by root
    for (int t = 0; t < trees; t++) {
        if (t > 0 && family.root[t] == family.root[t - 1]) {
            std::copy(family.depths(t - 1), family.depths(t - 1) + n, family.depths(t));
            continue;
        }
        first_tree.push_back(t);
        if (!distances_from(family, family.root[t], family.depths(t))) return false;
    }
    first_tree.push_back(trees);
    const int roots = static_cast<int>(first_tree.size()) - 1;
    std::vector<std::vector<int>> by_choices;
    std::vector<int> choices;
    for (int v = 0; v < n; v++) {
        const int first = family.in_start[v], last = family.in_start[v + 1];
        by_choices.assign(last - first + 1, {});
        for (int i = 0; i < roots; i++) {
            const Node* depth = family.depths(first_tree[i]);
            int count = 0;
            for (int a = first; a < last; a++) count += depth[family.in_tail[a]] + 1 == depth[v];
            by_choices[count].push_back(i);
        }
        by_choices[0].clear();  // rooted here
        for (const auto& group : by_choices)
            for (int i : group) {
                const Node* depth = family.depths(first_tree[i]);
                choices.clear();
                for (int a = first; a < last; a++)
                    if (depth[family.in_tail[a]] + 1 == depth[v]) choices.push_back(a);
                for (int t = first_tree[i]; t < first_tree[i + 1]; t++) {
                    int best = choices[0];
                    for (int a : choices) {
                        // (load + 1) / capacity, compared without division
                        const auto mine = static_cast<__int128>(family.load[a] + 1) * family.capacity[best];
                        const auto other = static_cast<__int128>(family.load[best] + 1) * family.capacity[a];
                        if (mine < other || (mine == other && draw(seed, t, a) < draw(seed, t, best))) best = a;
                    }
                    family.load[best]++;
                    family.parents(t)[v] = static_cast<Node>(family.in_tail[best]);
                }
            }
    }
    family.count_children();
    return true;
}

// Trees grow arc by arc, one after the other, by the arc that is least loaded for its capacity, of equal ones
// the highest up. Arcs into a set that is nearly tight become dear, so that trees enter it once and spread inside.
bool start_priced(TreeFamily& family, std::uint64_t seed) {
    const int n = family.n_nodes(), trees = family.n_trees();
    using Offer = std::tuple<double, int, std::uint64_t, int, int>;  // price, depth, tie, arc, head
    std::vector<int> order(trees);
    for (int t = 0; t < trees; t++) order[t] = t;
    std::sort(order.begin(), order.end(), [&](int a, int b) {
        auto x = draw(seed, a, 0), y = draw(seed, b, 0);
        return x != y ? x < y : a < b;
    });
    for (int t : order) {
        Node *parent = family.parents(t), *depth = family.depths(t);
        std::vector<char> inside(n, 0);
        std::priority_queue<Offer, std::vector<Offer>, std::greater<Offer>> offers;
        int size = 0;
        auto join = [&](int x) {
            inside[x] = 1, size++;
            for (int j = family.out_start[x]; j < family.out_start[x + 1]; j++) {
                int y = family.out_head[j], a = inside[y] ? -1 : family.arc(x, y);
                if (a < 0) continue;
                double price = static_cast<double>(family.load[a] + 1) / static_cast<double>(family.capacity[a]);
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
            family.load[a]++;
            join(y);
        }
        if (size < n) return false;
    }
    family.count_children();
    return true;
}

struct Rehang {
    int tree, node, parent;
};

class Matcher {
   public:
    Matcher(TreeFamily& family, const MatchingOptions& options, const Control& control, Matching& result)
        : family_(family), options_(options), control_(control), result_(result), n_(family.n_nodes()) {
        inside_.assign(n_, 0);
        seen_node_.assign(n_, 0);
        step_.resize(n_);
    }

    Status run() {
        std::vector<int> pending;
        for (int v = 0; v < n_; v++) pending.push_back(v);
        limit_ = std::max(options_.first_height, family_.height());
        last_ = std::min(std::max(options_.last_height, limit_), n_ - 1);
        bool detours = false;
        for (;;) {
            std::vector<int> left;
            std::int64_t all_before = 0, all_after = 0;
            const std::int64_t total = static_cast<std::int64_t>(n_);
            for (std::size_t i = 0; i < pending.size(); i++) {
                if (control_.cancelled()) return Status::cancelled;
                control_.progress(total - static_cast<std::int64_t>(pending.size()) + static_cast<std::int64_t>(i), total);
                std::int64_t before = overload(pending[i]);
                if (before == 0) continue;
                settle(pending[i], detours);
                std::int64_t after = overload(pending[i]);
                all_before += before, all_after += after;
                if (after > 0) left.push_back(pending[i]);
            }
            pending.swap(left);
            if (pending.empty()) return Status::ok;
            if (control_.cancelled()) return Status::cancelled;
            if (exhausted()) break;
            const bool last = limit_ >= last_;
            const std::int64_t gain = all_before - all_after;
            if (!detours && 8 * gain > all_before) continue;  // worth another round at this height
            if (options_.detours && !detours) {
                detours = true;
                continue;
            }
            if (last ? gain > 0 : 8 * gain > all_before) continue;
            if (last) break;
            limit_ = std::min(last_, limit_ + std::max(1, limit_ / 8));
            detours = false;
        }
        for (int v : pending) result_.overload += overload(v);
        return Status::stuck;
    }

   private:
    TreeFamily& family_;
    const MatchingOptions& options_;
    const Control& control_;
    Matching& result_;
    const int n_;
    int limit_ = 0, last_ = 0;
    // Of the node that is being settled, by in-arc counted from 0:
    int node_ = -1, first_ = 0, degree_ = 0;
    std::vector<std::vector<int>> on_;  // trees; -1 where one has left
    std::vector<int> looked_;           // by pair of arcs: trees of the first one that cannot move to the second
    std::vector<int> slot_, queue_, from_, by_tree_;
    std::vector<char> seen_, dead_;
    // Of a detour:
    struct Step {
        int next = -1;                        // node that is to hang here
        int tree = -1, to = -1;               // the tree that makes room for it on the arc, and its new parent
    };
    std::vector<char> inside_, seen_node_;
    std::vector<Step> step_;
    std::vector<Rehang> log_;
    static constexpr int kDetourNodes = 256;

    bool exhausted() const { return family_.work > options_.max_work; }

    std::int64_t overload(int v) const {
        std::int64_t sum = 0;
        for (int a = family_.in_start[v]; a < family_.in_start[v + 1]; a++)
            sum += std::max<std::int64_t>(0, family_.load[a] - family_.capacity[a]);
        return sum;
    }

    bool has_room(int slot) const { return family_.load[first_ + slot] < family_.capacity[first_ + slot]; }

    void list_trees(int v) {
        node_ = v, first_ = family_.in_start[v], degree_ = family_.in_start[v + 1] - first_;
        slot_.assign(n_, -1);
        for (int e = 0; e < degree_; e++) slot_[family_.in_tail[first_ + e]] = e;
        on_.resize(std::max(on_.size(), static_cast<std::size_t>(degree_)));
        for (int e = 0; e < degree_; e++) on_[e].clear();
        looked_.assign(static_cast<std::size_t>(degree_) * degree_, 0);
        for (int t = 0; t < family_.n_trees(); t++)
            if (family_.root[t] != v) on_[slot_[family_.parents(t)[v]]].push_back(t);
        family_.work += family_.n_trees();
    }

    // Take trees off the overloaded arcs into v, as far as possible.
    void settle(int v, bool detours) {
        list_trees(v);
        dead_.assign(degree_, 0);
        for (int e = 0; e < degree_; e++)
            while (family_.load[first_ + e] > family_.capacity[first_ + e]) {
                if (exhausted() || control_.cancelled()) return;
                if (!dead_[e] && augment(e)) continue;
                if (!detours) break;
                if (dead_[e]) {  // detours start from a full search
                    dead_.assign(degree_, 0);
                    if (augment(e)) continue;
                }
                if (!detour(e)) break;
                result_.detours++;
                list_trees(v);
                dead_.assign(degree_, 0);
            }
    }

    // Breadth-first over the arcs into the node: e -> f if a tree on e may hang on f instead. Ends at an arc with room.
    // Arcs of a search that failed are dead: no later move into this node by augmenting touches them.
    bool augment(int e) {
        seen_.assign(degree_, 0);
        from_.assign(degree_, -1);
        by_tree_.assign(degree_, -1);
        queue_.assign(1, e);
        seen_[e] = 1;
        for (std::size_t i = 0; i < queue_.size(); i++)
            for (int f = 0; f < degree_; f++) {
                const int t = seen_[f] || dead_[f] ? -1 : movable_tree(queue_[i], f);
                if (t < 0) continue;
                seen_[f] = 1;
                from_[f] = queue_[i];
                by_tree_[f] = t;
                queue_.push_back(f);
                if (!has_room(f)) continue;
                shift_along(f);
                return true;
            }
        for (int f : queue_) dead_[f] = 1;
        return false;
    }

    // A tree on arc e that may hang on f, or -1. Those that may not never may while the node is being settled, for
    // only their own moves change them; so they are looked at once for every pair of arcs.
    int movable_tree(int e, int f) {
        int& next = looked_[static_cast<std::size_t>(e) * degree_ + f];
        for (const auto& trees = on_[e]; next < static_cast<int>(trees.size()); next++)
            if (trees[next] >= 0 && family_.can_hang(trees[next], node_, family_.in_tail[first_ + f], limit_))
                return trees[next];
        return -1;
    }

    // The trees of the augmenting path that ends at arc f move on by one; they differ, as their arcs do.
    void shift_along(int f) {
        for (; from_[f] >= 0; f = from_[f]) {
            int t = by_tree_[f];
            auto& old = on_[from_[f]];
            *std::find(old.begin(), old.end(), t) = -1;
            on_[f].push_back(t);
            family_.hang(t, node_, family_.in_tail[first_ + f]);
            result_.rehangs++;
        }
    }

    // Where every other parent of the node lies below it: re-root its subtree in one tree. Some arc that leads from
    // outside into the subtree is followed by arcs inside it up to the node; all of them have room, or get it when
    // another tree re-hangs there.
    bool detour(int e) {
        const std::vector<int> arcs = queue_, from = from_, by_tree = by_tree_;
        for (bool exchange : {false, true})
          for (int q : arcs)
            for (int t : std::vector<int>(on_[q])) {
                if (t < 0) continue;
                if (exhausted() || control_.cancelled()) return false;
                // t will leave q: what augmenting found from e to q then takes a tree off e
                std::vector<Rehang> chain;
                for (int f = q; f != e; f = from[f]) chain.push_back({by_tree[f], node_, family_.in_tail[first_ + f]});
                if (reroot(t, chain, exchange)) return true;
            }
        return false;
    }

    bool reroot(int t, const std::vector<Rehang>& chain, bool exchange) {
        const std::vector<int> below = family_.subtree(t, node_);
        if (below.size() < 2) return false;
        for (int x : below) inside_[x] = 1;
        std::vector<int> queue{node_};
        seen_node_[node_] = 1;
        step_[node_] = {};
        bool done = false;
        for (std::size_t i = 0; i < queue.size() && i < kDetourNodes && !done; i++) {
            int y = queue[i];
            for (int a = family_.in_start[y]; a < family_.in_start[y + 1] && !done; a++) {
                int z = family_.in_tail[a];
                family_.work++;
                if (seen_node_[z] || z == family_.parents(t)[y]) continue;
                Step step;
                if (!(exchange ? find_room(t, y, a, step) : family_.load[a] < family_.capacity[a])) continue;
                step.next = y;
                step_[z] = step;
                if (!inside_[z]) {
                    done = follow(t, z, chain);
                } else {
                    seen_node_[z] = 1;
                    queue.push_back(z);
                }
            }
        }
        for (int x : below) inside_[x] = 0;
        for (int x : queue) seen_node_[x] = 0;
        return done;
    }

    // Room for tree t on arc a into y: there already, or made by a tree that can leave a, perhaps for the arc of t.
    bool find_room(int t, int y, int a, Step& step) {
        if (family_.load[a] < family_.capacity[a]) return true;
        if (family_.load[a] > family_.capacity[a]) return false;
        const int z = family_.in_tail[a], left = family_.parents(t)[y];
        for (int s = 0; s < family_.n_trees(); s++) {
            if (s == t || family_.parents(s)[y] != z) continue;
            for (int b = family_.in_start[y]; b < family_.in_start[y + 1]; b++) {
                const bool freed = y != node_ && family_.in_tail[b] == left;
                if (b == a || family_.load[b] - freed >= family_.capacity[b]) continue;
                if (!family_.can_hang(s, y, family_.in_tail[b], limit_)) continue;
                step.tree = s, step.to = family_.in_tail[b];
                return true;
            }
        }
        family_.work += family_.n_trees();
        return false;
    }

    bool try_hang(int t, int v, int u) {
        if (!family_.can_hang(t, v, u, limit_)) return false;
        log_.push_back({t, v, family_.parents(t)[v]});
        family_.hang(t, v, u);
        return true;
    }

    // The path from outside to the node, then the chain: every hanging is legal by itself once those before it are
    // done, or all are taken back.
    bool follow(int t, int z, const std::vector<Rehang>& chain) {
        log_.clear();
        bool fits = true;
        for (int x = z; fits && step_[x].next >= 0; x = step_[x].next) {
            const Step& step = step_[x];
            fits = (step.tree < 0 || try_hang(step.tree, step.next, step.to)) && try_hang(t, step.next, x);
        }
        for (const Rehang& move : chain) fits = fits && try_hang(move.tree, move.node, move.parent);
        if (fits) {
            result_.rehangs += static_cast<std::int64_t>(log_.size());
            return true;
        }
        for (; !log_.empty(); log_.pop_back()) family_.hang(log_.back().tree, log_.back().node, log_.back().parent);
        return false;
    }
};

void merge_identical(TreeFamily& family, TreePacking& packing) {
    const int n = family.n_nodes();
    for (int first = 0, last = 0; first < family.n_trees(); first = last) {
        while (last < family.n_trees() && family.root[last] == family.root[first]) last++;
        std::vector<int> order;
        for (int t = first; t < last; t++) order.push_back(t);
        const auto compare = [&](int a, int b) {
            return std::memcmp(family.parents(a), family.parents(b), static_cast<std::size_t>(n) * sizeof(Node));
        };
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return compare(a, b) < 0; });
        for (std::size_t i = 0; i < order.size(); i++) {
            if (i > 0 && compare(order[i - 1], order[i]) == 0) {
                packing.multiplicity.back()++;
                continue;
            }
            packing.root.push_back(family.root[first]);
            packing.multiplicity.push_back(1);
            const Node* parent = family.parents(order[i]);
            for (int v = 0; v < n; v++) packing.parent.push_back(parent[v] == TreeFamily::kNone ? -1 : parent[v]);
        }
    }
}

}  // namespace

Status match_vertices(const PackingProblem& problem, const MatchingOptions& options, const Control& control,
                      Matching& result) {
    if (problem.n_nodes > TreeFamily::kMaxNodes) return Status::stuck;
    TreeFamily family(problem);
    const bool spans = options.start == Start::breadth_first ? start_breadth_first(family, options.seed)
                                                             : start_priced(family, options.seed);
    if (!spans) return Status::stuck;
    Status status = Matcher(family, options, control, result).run();
    result.work = family.work;
    result.height = family.height();
    if (status == Status::ok) merge_identical(family, result.packing);
    return status;
}

int hop_eccentricity(int n_nodes, const std::vector<int>& tail, const std::vector<int>& head,
                     const std::vector<char>& is_compute, const std::vector<int>& sources) {
    std::vector<int> start(n_nodes + 1, 0), heads(head.size()), distance(n_nodes);
    for (int u : tail) start[u + 1]++;
    for (int v = 0; v < n_nodes; v++) start[v + 1] += start[v];
    std::vector<int> place(start.begin(), start.end() - 1);
    for (std::size_t a = 0; a < tail.size(); a++) heads[place[tail[a]]++] = head[a];
    int most = 0;
    for (int source : sources) {
        std::fill(distance.begin(), distance.end(), -1);
        std::deque<std::pair<int, int>> queue{{0, source}};
        while (!queue.empty()) {
            auto [far, x] = queue.front();
            queue.pop_front();
            if (distance[x] >= 0) continue;
            distance[x] = far;
            for (int i = start[x]; i < start[x + 1]; i++) {
                if (distance[heads[i]] >= 0) continue;
                if (is_compute[heads[i]])
                    queue.emplace_back(far + 1, heads[i]);
                else
                    queue.emplace_front(far, heads[i]);
            }
        }
        for (int v = 0; v < n_nodes; v++) {
            if (!is_compute[v]) continue;
            if (distance[v] < 0) return -1;
            most = std::max(most, distance[v]);
        }
    }
    return most;
}

}  // namespace treadle
