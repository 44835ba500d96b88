// Packing by matching trees to in-arcs, node by node (docs/how-it-works/optimal-trees.md).
//
// At a node v every tree not rooted there uses one arc into v, and what trees do at v changes no load elsewhere. So the
// trees are to be matched to the arcs into v, each arc to as many as its capacity; a tree may hang v on u if u is not
// below v and no node sinks below the height limit. From an overloaded arc augmenting paths are sought breadth-first, as
// for bipartite b-matchings: e -> f if some tree on e may hang on f. The trees on a path are different ones, as they are
// on different arcs, so each move stays legal. Trees of a root begin as one of that weight and are split on demand.
// Unlike a plain matching the nodes depend on each other, by what is below: incomplete, a failure says nothing.
#include "trees/packers/vertex_matching.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "trees/packers/detours.hpp"
#include "trees/packers/matching_starts.hpp"
#include "trees/packers/tree_family.hpp"

namespace treadle {
namespace {

using Node = TreeFamily::Node;

class Matcher {
   public:
    Matcher(TreeFamily& family, const MatchingOptions& options, const Control& control, Matching& result)
        : family_(family), options_(options), control_(control), result_(result), n_(family.n_nodes()),
          detours_(family) {
        for (int v = 0; v < n_; v++) most_in_ = std::max<std::int64_t>(most_in_, family.in_start[v + 1] - family.in_start[v]);
        sort_by_weight();
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
            bool hopeless = false;  // the first nodes gain little: this height is too low
            const std::int64_t total = static_cast<std::int64_t>(n_);  // the start was the first half
            for (std::size_t i = 0; i < pending.size() && !hopeless; i++) {
                if (control_.cancelled()) return Status::cancelled;
                control_.progress(2 * total - static_cast<std::int64_t>(pending.size()) + static_cast<std::int64_t>(i), 2 * total);
                std::int64_t before = overload(pending[i]);
                if (before == 0) continue;
                settle(pending[i], detours);
                std::int64_t after = overload(pending[i]);
                all_before += before, all_after += after;
                if (after > 0) left.push_back(pending[i]);
                if (limit_ < last_ && large() && 16 * (i + 1) >= pending.size() && 2 * all_after > all_before) hopeless = true;
            }
            if (hopeless) {
                raise_limit();
                detours = false;
                continue;
            }
            pending.swap(left);
            if (pending.empty()) return Status::ok;
            if (control_.cancelled()) return Status::cancelled;
            if (exhausted()) break;
            // A round that took off an eighth is worth another at this height; else detours; else a greater height.
            const bool last = limit_ >= last_;
            const std::int64_t gain = all_before - all_after;
            if (!detours && 8 * gain > all_before) continue;  // worth another round at this height
            if (options_.detours && !detours) {
                detours = true;
                continue;
            }
            if (last ? gain > 0 : 8 * gain > all_before) continue;
            if (last) break;
            raise_limit();
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
    std::vector<std::int64_t> classes_;  // weights of trees, the greatest first
    std::vector<int> class_;             // by tree
    bool mixed_ = false;                 // too many weights for tables of each: all trees are in one, and move by splits
    std::int64_t most_in_ = 0;           // arcs into a node
    static constexpr std::int64_t kMostTable = 1 << 22;
    // Of the node that is being settled, by in-arc counted from 0; tables of a class are together:
    int node_ = -1, first_ = 0, degree_ = 0;
    std::vector<std::vector<int>> on_;  // (class, arc): trees; -1 where one has left
    std::vector<int> looked_;           // (class, arc, arc): trees of the first that cannot move to the second
    std::vector<char> dead_;            // (class, arc): no arc with room can be reached from here
    std::vector<int> slot_, queue_, from_, place_, by_room_;
    std::vector<char> seen_, dead_to_all_;
    Detours detours_;
    static constexpr std::int64_t kLargeCells = 1 << 20;  // trees times nodes from which failing at a height is dear

    bool exhausted() const { return family_.work > options_.max_work; }

    bool large() const { return static_cast<std::int64_t>(family_.n_trees()) * n_ >= kLargeCells; }

    void raise_limit() { limit_ = std::min(last_, limit_ + std::max(1, limit_ / 8)); }

    std::int64_t overload(int v) const {
        std::int64_t sum = 0;
        for (int a = family_.in_start[v]; a < family_.in_start[v + 1]; a++)
            sum += std::max<std::int64_t>(0, family_.load[a] - family_.capacity[a]);
        return sum;
    }

    std::int64_t room(int slot) const { return family_.capacity[first_ + slot] - family_.load[first_ + slot]; }

    int n_classes() const { return mixed_ ? 1 : static_cast<int>(classes_.size()); }
    std::vector<int>& trees_on(int c, int slot) { return on_[static_cast<std::size_t>(c) * degree_ + slot]; }
    char& dead(int c, int slot) { return dead_[static_cast<std::size_t>(c) * degree_ + slot]; }

    void sort_by_weight() {
        classes_ = weights_of(family_);
        const std::int64_t most = std::max<std::int64_t>(1, kMostTable / (most_in_ * most_in_ + 1));
        mixed_ = mixed_ || static_cast<std::int64_t>(classes_.size()) > most;
        class_.assign(mixed_ ? family_.weight.size() : 0, 0);
        for (std::int64_t weight : mixed_ ? std::vector<std::int64_t>{} : family_.weight)
            class_.push_back(static_cast<int>(std::lower_bound(classes_.begin(), classes_.end(), weight, std::greater<>()) -
                                              classes_.begin()));
    }

    void list_trees(int v) {
        node_ = v, first_ = family_.in_start[v], degree_ = family_.in_start[v + 1] - first_;
        slot_.assign(n_, -1);
        for (int e = 0; e < degree_; e++) slot_[family_.in_tail[first_ + e]] = e;
        const std::size_t lists = static_cast<std::size_t>(n_classes()) * degree_;
        on_.resize(std::max(on_.size(), lists));
        for (std::size_t i = 0; i < lists; i++) on_[i].clear();
        looked_.assign(lists * degree_, 0);
        dead_.assign(lists, false);
        dead_to_all_.assign(degree_, false);
        for (int t = 0; t < family_.n_trees(); t++)
            if (family_.root[t] != v) trees_on(class_[t], slot_[family_.parents(t)[v]]).push_back(t);
        family_.work += family_.n_trees() + static_cast<std::int64_t>(looked_.size() / 16);
    }

    // Take trees off the overloaded arcs into v, as far as possible.
    void settle(int v, bool detours) {
        list_trees(v);
        bool moved = true;  // a heavy tree may overload an arc that was done
        while (moved) {
            moved = false;
            for (int e = 0; e < degree_; e++)
                while (room(e) < 0) {
                    if (exhausted() || control_.cancelled()) return;
                    if (!relieve(e) && !relieve_by_split(e) && !(detours && relieve_by_detour(e))) break;
                    moved = classes_.size() > 1;
                }
        }
    }

    // Heavy trees first, where they fit; then where the overload becomes less all the same.
    bool relieve(int e) {
        if (mixed_) return false;
        for (int c = 0; c < n_classes(); c++)
            if (classes_[c] <= -room(e) && augment(e, c, classes_[c])) return true;
        for (int c = 0; n_classes() > 1 && c < n_classes(); c++)
            if (augment(e, c, 1 + std::max<std::int64_t>(0, classes_[c] + room(e)))) return true;
        return false;
    }

    // As by augmenting, but the trees of the path may be of any weight, and only as much of each moves as helps.
    bool relieve_by_split(int e) {
        if (dead_to_all_[e] || family_.n_trees() >= options_.most_trees) return false;
        const std::int64_t excess = -room(e);
        std::vector<int> order;  // the lightest that is enough first, then the heaviest
        for (int c = n_classes() - 1; c >= 0; c--)
            if (mixed_ || classes_[c] >= excess) order.push_back(c);
        for (int c = 0; c < n_classes(); c++)
            if (!mixed_ && classes_[c] < excess) order.push_back(c);
        seen_.assign(degree_, false);
        from_.assign(degree_, -1);
        place_.assign(degree_, -1);
        queue_.assign(1, e);
        seen_[e] = true;
        list_by_room(1);
        for (std::size_t i = 0; i < queue_.size(); i++)
            for (int f : by_room_) {
                if (seen_[f] || dead_to_all_[f]) continue;
                int t = -1;
                for (std::size_t j = 0; t < 0 && j < order.size(); j++) {
                    const int place = movable_tree(order[j], queue_[i], f);
                    if (place >= 0) t = trees_on(order[j], queue_[i])[place];
                }
                if (t < 0) continue;
                seen_[f] = true;
                from_[f] = queue_[i];
                place_[f] = t;
                queue_.push_back(f);
                if (room(f) <= 0) continue;
                split_along(e, f);
                return true;
            }
        for (int f : queue_) dead_to_all_[f] = true;
        return false;
    }

    // Here `place_` holds trees.
    void split_along(int e, int last) {
        std::int64_t units = std::min(-room(e), room(last));
        for (int f = last; f != e; f = from_[f]) units = std::min(units, family_.weight[place_[f]]);
        bool whole = true;
        for (int f = last; f != e; f = from_[f]) {
            int t = place_[f];
            if (family_.weight[t] > units) {
                t = family_.split(t, units);
                result_.splits++;
                whole = false;
            }
            family_.hang(t, node_, family_.in_tail[first_ + f]);
            result_.rehangs++;
        }
        if (!whole) sort_by_weight();
        const std::vector<char> dead = dead_to_all_;  // remains so: trees of dead arcs do not move
        list_trees(node_);
        dead_to_all_ = dead;
    }

    bool relieve_by_detour(int e) {
        for (int c = mixed_ ? -1 : n_classes() - 1; c >= 0; c--) {
            dead_.assign(dead_.size(), false);  // detours start from a full search
            if (augment(e, c, 1 + std::max<std::int64_t>(0, classes_[c] + room(e)))) return true;
            if (!detour(e, c)) continue;
            result_.detours++;
            list_trees(node_);
            return true;
        }
        return false;
    }

    // Breadth-first over the arcs into the node: e -> f if a tree of the class on e may hang on f instead. Ends at an
    // arc with so much room.
    bool augment(int e, int c, std::int64_t wanted) {
        if (dead(c, e)) return false;
        seen_.assign(degree_, false);
        from_.assign(degree_, -1);
        place_.assign(degree_, -1);
        queue_.assign(1, e);
        seen_[e] = true;
        list_by_room(wanted);
        for (std::size_t i = 0; i < queue_.size(); i++)
            for (int f : by_room_) {
                const int place = seen_[f] || dead(c, f) ? -1 : movable_tree(c, queue_[i], f);
                if (place < 0) continue;
                seen_[f] = true;
                from_[f] = queue_[i];
                place_[f] = place;
                queue_.push_back(f);
                if (room(f) < wanted) continue;
                if (classes_[c] > -room(e)) {  // e gets room
                    dead_.assign(dead_.size(), false);
                    dead_to_all_.assign(degree_, false);
                }
                shift_along(c, f);
                return true;
            }
        // Room comes only where the rule above sees it, and trees of dead arcs do not move.
        if (wanted == 1)
            for (int f : queue_) dead(c, f) = 1;
        return false;
    }

    // The arcs with so much room first: where a search ends.
    void list_by_room(std::int64_t wanted) {
        by_room_.clear();
        for (bool enough : {true, false})
            for (int f = 0; f < degree_; f++)
                if ((room(f) >= wanted) == enough) by_room_.push_back(f);
    }

    // The place on arc e of a tree that may hang on f, or -1. Those that may not never may while the node is being
    // settled, for only their own moves change them; so they are looked at once for every pair of arcs.
    int movable_tree(int c, int e, int f) {
        int& next = looked_[(static_cast<std::size_t>(c) * degree_ + e) * degree_ + f];
        for (const auto& trees = trees_on(c, e); next < static_cast<int>(trees.size()); next++)
            if (trees[next] >= 0 && family_.can_hang(trees[next], node_, family_.in_tail[first_ + f], limit_)) return next;
        return -1;
    }

    // The trees of the augmenting path that ends at arc f move on by one; they differ, as their arcs do.
    void shift_along(int c, int f) {
        for (; from_[f] >= 0; f = from_[f]) {
            int& place = trees_on(c, from_[f])[place_[f]];
            const int t = place;
            place = -1;
            trees_on(c, f).push_back(t);
            family_.hang(t, node_, family_.in_tail[first_ + f]);
            result_.rehangs++;
        }
    }

    // Where every other parent of the node lies below it: a tree on an arc that was reached from e is re-rooted, so that
    // what augmenting found from e to there then takes a tree off e.
    bool detour(int e, int c) {
        const std::vector<int> arcs = queue_, from = from_, place = place_;
        for (bool exchange : {false, true})
            for (int q : arcs)
                for (int t : std::vector<int>(trees_on(c, q))) {
                    if (t < 0) continue;
                    if (exhausted() || control_.cancelled()) return false;
                    std::vector<Rehang> chain;
                    for (int f = q; f != e; f = from[f])
                        chain.push_back({trees_on(c, from[f])[place[f]], node_, family_.in_tail[first_ + f]});
                    if (const int moves = detours_.reroot(t, node_, limit_, chain, exchange)) {
                        result_.rehangs += moves;
                        return true;
                    }
                }
        return false;
    }
};

void merge_identical(TreeFamily& family, TreePacking& packing) {
    const int n = family.n_nodes();
    const auto compare = [&](int a, int b) {
        if (family.root[a] != family.root[b]) return family.root[a] < family.root[b] ? -1 : 1;
        return std::memcmp(family.parents(a), family.parents(b), static_cast<std::size_t>(n) * sizeof(Node));
    };
    std::vector<int> order(family.n_trees());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return compare(a, b) < 0; });
    std::vector<int> kept;
    for (int t : order) {
        if (!kept.empty() && compare(kept.back(), t) == 0) {
            packing.multiplicity.back() += family.weight[t];
            continue;
        }
        kept.push_back(t);
        packing.root.push_back(family.root[t]);
        packing.multiplicity.push_back(family.weight[t]);
    }
    packing.parent.reserve(kept.size() * n);
    for (int t : kept)
        for (int v = 0; v < n; v++) {
            const Node above = family.parents(t)[v];
            packing.parent.push_back(above == TreeFamily::kNone ? -1 : above);
        }
}

}  // namespace

Status match_vertices(const PackingProblem& problem, std::vector<int> tree_root, std::vector<std::int64_t> tree_weight,
                      const MatchingOptions& options, const Control& control, Matching& result) {
    if (problem.n_nodes > TreeFamily::kMaxNodes) return Status::stuck;
    TreeFamily family(problem, std::move(tree_root), std::move(tree_weight));
    const bool spans = options.start == Start::breadth_first ? start_breadth_first(family, options.seed, control)
                                                             : start_priced(family, options.seed, control);
    if (!spans) return control.cancelled() ? Status::cancelled : Status::stuck;
    Status status = Matcher(family, options, control, result).run();
    result.work = family.work;
    result.height = family.height();
    if (status == Status::ok) merge_identical(family, result.packing);
    return status;
}

}  // namespace treadle
