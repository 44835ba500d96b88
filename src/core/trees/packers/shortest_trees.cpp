// Forests of shortest-path trees: one exact transport problem per node (docs/how-it-works/optimal-trees.md).
//
// Let every node choose, for every unit tree of every root, a parent one hop nearer to the root. Whatever the nodes
// choose, each by itself, the result is a spanning tree: depths fall along parents. So such a forest exists iff each node
// can assign the units of all roots to its in-arcs, a root's only to arcs whose tail is nearer to it. This is breadth-
// first broadcast (dissertation, chapter 3) with trees for loads. Units of a root are numbered, and what a node divides
// becomes intervals of them: the distinct trees of a root are as many as its intervals, so roots stay whole where they
// can. If a forest fits, no cut is violated (each S is left once by every tree rooted in it), which proves optima too.
#include "trees/packers/shortest_trees.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "trees/packers/distance_layers.hpp"

namespace treadle {
namespace {

// 64 rows of 64 bits, transposed in place: blocks of half the size change places.
void transpose(Word* rows) {
    Word mask = 0x00000000ffffffffull;
    for (int half = 32; half > 0; half >>= 1, mask ^= mask << half)
        for (int i = 0; i < 64; i = (i + half + 1) & ~half) {
            const Word moved = ((rows[i] >> half) ^ rows[i + half]) & mask;
            rows[i + half] ^= moved;
            rows[i] ^= moved << half;
        }
}

struct Share {
    int root;
    std::int64_t units;
};

// The transport problem of one node: the units of all roots to its in-arcs, here counted from 0.
class InArcAssignment {
   public:
    InArcAssignment(const InArcs& arcs, const Layers& layers, const std::vector<std::int64_t>& units)
        : arcs_(arcs), layers_(layers), units_(units) {
        by_weight_.resize(units.size());
        was_divided_.assign(units.size(), false);
        for (std::size_t i = 0; i < units.size(); i++) by_weight_[i] = static_cast<int>(i);
        std::sort(by_weight_.begin(), by_weight_.end(), [&](int a, int b) {
            return units[a] != units[b] ? units[a] > units[b] : scattered(a) < scattered(b);
        });
    }

    // False: no assignment exists. `own` is the root at the node itself, -1 for none.
    bool solve(int v, int own) {
        start(v, own);
        if (own >= 0 && degree_ == 0) return units_.size() == 1;
        // First greedily, each root whole: what has least choice first.
        std::vector<int> left;
        for (int i : in_order()) {
            const int e = free_arc(i);
            e < 0 ? left.push_back(i) : put(i, e, units_[i]);
        }
        // Then whole along augmenting paths that move whole roots of equal weight, so that no room is broken up. An arc
        // from which that failed is dead to all roots of that weight: only room could revive it, and none comes.
        std::stable_sort(left.begin(), left.end(), [&](int a, int b) { return units_[a] > units_[b]; });
        std::vector<int> divided;
        for (std::size_t j = 0; j < left.size(); j++) {
            if (j > 0 && units_[left[j]] != units_[left[j - 1]]) dead_.assign(slot_words_, 0);
            if (!augment(left[j], units_[left[j]], true)) divided.push_back(left[j]);
        }
        // What is left in parts, by augmenting paths of any units: a maximum flow, so a failure proves that there is none.
        dead_.assign(slot_words_, 0);
        defer(divided);
        for (int i : divided)
            for (std::int64_t rest = units_[i]; rest > 0;) {
                const std::int64_t moved = augment(i, rest, false);
                if (moved == 0) return false;
                rest -= moved;
            }
        return true;
    }

    int degree() const { return degree_; }
    const std::vector<Share>& on(int slot) const { return on_[slot]; }

   private:
    const InArcs& arcs_;
    const Layers& layers_;
    const std::vector<std::int64_t>& units_;
    std::vector<int> by_weight_;  // roots, the heaviest first
    std::vector<char> was_divided_;
    int own_ = -1, degree_ = 0, turn_ = 0, waiting_ = 0;  // waiting: arcs that a search has not met
    std::size_t slot_words_ = 0;
    std::vector<Word> choices_;                   // (root, word): arcs that it may use
    std::vector<std::int64_t> room_;              // by arc
    std::vector<std::vector<Share>> on_;          // by arc
    std::vector<Word> roomy_, dead_, fresh_;      // arcs with room; without a way to such; not met by a search yet
    std::vector<int> queue_, from_, place_, ordered_, choice_start_, count_;
    std::vector<Word> allowed_;                   // (arc, word): roots
    static constexpr int kFew = 16;               // so many choices are compared

    // In an order unlike that of the nodes, so that neighbours in the fabric are not placed one after the other.
    static Word scattered(int i) { return (static_cast<Word>(i) + 1) * 0x9e3779b97f4a7c15ull; }

    const Word* choices(int i) const { return choices_.data() + i * slot_words_; }

    void start(int v, int own) {
        own_ = own;
        turn_ = 0;
        const int first = arcs_.start[v];
        degree_ = arcs_.start[v + 1] - first;
        slot_words_ = (degree_ + 63) / 64;
        const std::size_t words = layers_.words();
        // A root may use an arc whose tail is one hop nearer to it.
        allowed_.assign(slot_words_ * 64 * words, 0);
        for (int e = 0; e < degree_; e++) {
            Word* mine = allowed_.data() + e * words;
            for (int d = 1; d < layers_.count(); d++) {
                const Word *here = layers_.at(d, v), *there = layers_.at(d - 1, arcs_.tail[first + e]);
                for (std::size_t w = 0; w < words; w++) mine[w] |= here[w] & there[w];
            }
        }
        // Roots by arc become arcs by root.
        choices_.resize(words * 64 * slot_words_);
        Word block[64];
        for (std::size_t s = 0; s < slot_words_; s++)
            for (std::size_t w = 0; w < words; w++) {
                for (int e = 0; e < 64; e++) block[e] = allowed_[(s * 64 + e) * words + w];
                transpose(block);
                for (int i = 0; i < 64; i++) choices_[(w * 64 + i) * slot_words_ + s] = block[i];
            }
        room_.assign(arcs_.capacity.begin() + first, arcs_.capacity.begin() + first + degree_);
        if (on_.size() < static_cast<std::size_t>(degree_)) on_.resize(degree_);
        for (int e = 0; e < degree_; e++) on_[e].clear();
        roomy_.assign(slot_words_, 0);
        for (int e = 0; e < degree_; e++) roomy_[e / 64] |= Word{1} << (e % 64);
        dead_.assign(slot_words_, 0);
    }

    // Roots once divided come last among those of their weight: better many times the same one than one here, one there.
    void defer(const std::vector<int>& divided) {
        bool is_new = false;
        for (int i : divided) is_new = is_new || !was_divided_[i], was_divided_[i] = true;
        if (!is_new) return;
        std::stable_sort(by_weight_.begin(), by_weight_.end(), [&](int a, int b) {
            return units_[a] != units_[b] ? units_[a] > units_[b] : was_divided_[a] < was_divided_[b];
        });
    }

    // Those with fewest choices first, of equal ones the heaviest.
    const std::vector<int>& in_order() {
        count_.resize(units_.size());
        choice_start_.assign(degree_ + 2, 0);
        for (std::size_t i = 0; i < units_.size(); i++) {
            count_[i] = 0;
            for (std::size_t s = 0; s < slot_words_; s++) count_[i] += bits_of(choices(i)[s]);
            if (static_cast<int>(i) != own_) choice_start_[count_[i] + 1]++;
        }
        for (int c = 0; c <= degree_; c++) choice_start_[c + 1] += choice_start_[c];
        ordered_.resize(choice_start_[degree_ + 1]);
        for (int i : by_weight_)
            if (i != own_) ordered_[choice_start_[count_[i]]++] = i;
        return ordered_;
    }

    // An arc with room for the whole root, or -1: the one with most room, or of many the next in turn.
    int free_arc(int i) {
        if (count_[i] > kFew) return next_in_turn(i);
        int best = -1;
        for (std::size_t s = 0; s < slot_words_; s++)
            for (Word left = choices(i)[s]; left; left &= left - 1) {
                const int e = static_cast<int>(s) * 64 + lowest_bit(left);
                if (room_[e] >= units_[i] && (best < 0 || room_[e] > room_[best])) best = e;
            }
        return best;
    }

    int next_in_turn(int i) {
        const std::size_t begin = turn_ / 64;
        for (std::size_t step = 0; step <= slot_words_; step++) {
            const std::size_t s = (begin + step) % slot_words_;
            Word left = choices(i)[s] & roomy_[s];
            if (step == 0) left &= ~Word{0} << (turn_ % 64);
            for (; left; left &= left - 1) {
                const int e = static_cast<int>(s) * 64 + lowest_bit(left);
                if (room_[e] < units_[i]) continue;
                turn_ = e + 1 < degree_ ? e + 1 : 0;
                return e;
            }
        }
        return -1;
    }

    void put(int i, int e, std::int64_t units) {
        room_[e] -= units;
        if (room_[e] == 0) roomy_[e / 64] &= ~(Word{1} << (e % 64));
        auto share = units == units_[i] ? on_[e].end() : find(i, e);
        if (share == on_[e].end()) {
            on_[e].push_back({i, units});
        } else {
            share->units += units;
        }
    }

    std::vector<Share>::iterator find(int i, int e) {
        return std::find_if(on_[e].begin(), on_[e].end(), [&](const Share& share) { return share.root == i; });
    }

    // So many units of a root, or fewer if it is to be divided: other roots change arcs to make room. Returns how many
    // found a place. Arcs from which a search for places for whole roots failed are dead to those of equal weight.
    std::int64_t augment(int i, std::int64_t wanted, bool whole) {
        const std::int64_t least = whole ? wanted : 1;
        fresh_.resize(slot_words_);
        for (std::size_t s = 0; s < slot_words_; s++) fresh_[s] = ~dead_[s];
        waiting_ = degree_;
        for (std::size_t s = 0; s < slot_words_; s++) waiting_ -= bits_of(dead_[s]);
        queue_.clear();
        from_.resize(degree_);
        place_.resize(degree_);
        int last = visit(i, -1, -1, least);
        for (std::size_t q = 0; last < 0 && waiting_ > 0 && q < queue_.size(); q++) {
            const std::vector<Share>& shares = on_[queue_[q]];
            for (std::size_t j = 0; last < 0 && waiting_ > 0 && j < shares.size(); j++) {
                if (whole && (shares[j].units != wanted || units_[shares[j].root] != wanted)) continue;
                last = visit(shares[j].root, queue_[q], static_cast<int>(j), least);
            }
        }
        if (last < 0) {
            if (whole)
                for (int e : queue_) dead_[e / 64] |= Word{1} << (e % 64);
            return 0;
        }
        std::int64_t amount = std::min(wanted, room_[last]);
        for (int e = last; from_[e] >= 0; e = from_[e]) amount = std::min(amount, on_[from_[e]][place_[e]].units);
        shift(i, last, amount);
        return amount;
    }

    // The arcs that a root on arc `from` may move to join the queue; returns one that has so much room, or -1.
    int visit(int i, int from, int place, std::int64_t least) {
        for (bool ends : {true, false})
            for (std::size_t s = 0; s < slot_words_; s++)
                for (Word met = choices(i)[s] & fresh_[s] & (ends ? roomy_[s] : ~Word{0}); met; met &= met - 1) {
                    const int e = static_cast<int>(s) * 64 + lowest_bit(met);
                    if (ends && room_[e] < least) continue;
                    fresh_[s] &= ~(met & -met);
                    waiting_--;
                    from_[e] = from;
                    place_[e] = place;
                    if (ends) return e;
                    queue_.push_back(e);
                }
        return -1;
    }

    void shift(int i, int last, std::int64_t amount) {
        int e = last;
        for (; from_[e] >= 0; e = from_[e]) {
            const int f = from_[e];
            Share& share = on_[f][place_[e]];
            const int moved = share.root;
            share.units -= amount;
            if (share.units == 0) {
                share = on_[f].back();
                on_[f].pop_back();
            }
            room_[f] += amount;  // the next step takes it again
            roomy_[f / 64] |= Word{1} << (f % 64);
            put(moved, e, amount);
        }
        put(i, e, amount);
    }
};

// What the nodes decide, and the trees it makes.
class Forest {
   public:
    Forest(std::size_t n_nodes, std::size_t n_roots) : n_(n_nodes), parent_(n_nodes * n_roots, -1), divided_(n_roots) {}

    void note(int v, int root, int tail, std::int64_t units, std::int64_t all) {
        if (units == all) {
            parent_[root * n_ + v] = tail;
        } else {
            divided_[root].push_back({v, tail, units});
        }
    }

    bool write(const std::vector<int>& roots, const std::vector<std::int64_t>& units, std::int64_t most_trees,
               TreePacking& result) {
        for (std::size_t i = 0; i < roots.size(); i++) {
            // the pieces of a node in rising order, so that nodes are divided alike
            std::sort(divided_[i].begin(), divided_[i].end(), [](const Piece& a, const Piece& b) {
                return std::tie(a.node, a.units, a.tail) < std::tie(b.node, b.units, b.tail);
            });
            std::vector<std::pair<std::int64_t, const Piece*>> begins;
            std::int64_t at = 0;
            for (std::size_t j = 0; j < divided_[i].size(); j++) {
                const Piece& piece = divided_[i][j];
                if (j == 0 || divided_[i][j - 1].node != piece.node) at = 0;
                begins.emplace_back(at, &piece);
                at += piece.units;
            }
            std::stable_sort(begins.begin(), begins.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
            std::int64_t from = 0;
            int* parent = parent_.data() + i * n_;
            for (std::size_t j = 0; j <= begins.size(); j++) {
                const std::int64_t next = j < begins.size() ? begins[j].first : units[i];
                if (next > from) {
                    if (static_cast<std::int64_t>(result.root.size()) >= most_trees) return false;
                    result.root.push_back(roots[i]);
                    result.multiplicity.push_back(next - from);
                    result.parent.insert(result.parent.end(), parent, parent + n_);
                    from = next;
                }
                if (j < begins.size()) parent[begins[j].second->node] = begins[j].second->tail;
            }
        }
        return true;
    }

   private:
    struct Piece {
        int node, tail;
        std::int64_t units;
    };
    std::size_t n_;
    std::vector<int> parent_;  // (root, node)
    std::vector<std::vector<Piece>> divided_;
};

}  // namespace

Status shortest_trees(const PackingProblem& problem, bool wanted, std::int64_t most_cells, std::int64_t most_trees,
                      const Control& control, TreePacking& result) {
    const std::size_t n = problem.n_nodes;
    std::vector<int> roots, number(n, -1);
    std::vector<std::int64_t> units;
    for (std::size_t v = 0; v < n; v++) {
        if (problem.root[v] <= 0) continue;
        number[v] = static_cast<int>(roots.size());
        roots.push_back(static_cast<int>(v));
        units.push_back(problem.root[v]);
    }
    if (roots.empty()) return Status::ok;
    const InArcs arcs(problem);
    Layers layers(arcs, roots);
    if (!layers.build(most_cells)) return Status::stuck;
    InArcAssignment assignment(arcs, layers, units);
    Forest forest(wanted ? n : 0, roots.size());
    for (std::size_t v = 0; v < n; v++) {
        if (control.cancelled()) return Status::cancelled;
        control.progress(static_cast<std::int64_t>(v), static_cast<std::int64_t>(n));
        if (!assignment.solve(static_cast<int>(v), number[v])) return Status::stuck;
        for (int e = 0; wanted && e < assignment.degree(); e++)
            for (const Share& share : assignment.on(e))
                forest.note(static_cast<int>(v), share.root, arcs.tail[arcs.start[v] + e], share.units, units[share.root]);
    }
    if (wanted && !forest.write(roots, units, most_trees, result)) return Status::stuck;
    return Status::ok;
}

}  // namespace treadle
