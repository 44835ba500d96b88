// Re-rooting by alternating paths (docs/how-it-works/optimal-trees.md).
//
// A node v that may not leave its arc, because in every tree its other possible parents lie below it, can still be
// relieved: some arc leads from outside v's subtree into it, and arcs inside lead on from there to v. Reversed on this
// path, the subtree hangs by that arc instead. The path is sought backwards from v, breadth-first, over arcs that have
// room for the tree, or get it when another tree re-hangs, perhaps on the arc that this one frees.
#include "trees/packers/detours.hpp"

#include <cstddef>

namespace treadle {
namespace {

constexpr int kDetourNodes = 256;  // nodes from which a search goes on

}  // namespace

Detours::Detours(TreeFamily& family)
    : family_(family), inside_(family.n_nodes(), 0), seen_node_(family.n_nodes(), 0), step_(family.n_nodes()) {}

// Has the arc room for the tree, once `freed` units of it are free?
bool Detours::fits(int t, int arc, std::int64_t freed) const {
    return family_.load[arc] - freed + family_.weight[t] <= family_.capacity[arc];
}

int Detours::reroot(int t, int node, int limit, const std::vector<Rehang>& chain, bool exchange) {
    node_ = node, limit_ = limit;
    const std::vector<int> below = family_.subtree(t, node_);
    if (below.size() < 2) return 0;
    for (int x : below) inside_[x] = 1;
    std::vector<int> queue{node_};
    seen_node_[node_] = 1;
    step_[node_] = {};
    int done = 0;
    for (std::size_t i = 0; i < queue.size() && i < kDetourNodes && !done; i++) {
        int y = queue[i];
        for (int a = family_.in_start[y]; a < family_.in_start[y + 1] && !done; a++) {
            int z = family_.in_tail[a];
            family_.work++;
            if (seen_node_[z] || z == family_.parents(t)[y]) continue;
            Step step;
            if (!(exchange ? find_room(t, y, a, step) : fits(t, a))) continue;
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
bool Detours::find_room(int t, int y, int a, Step& step) {
    if (fits(t, a)) return true;
    if (family_.load[a] > family_.capacity[a]) return false;
    const int z = family_.in_tail[a], left = family_.parents(t)[y];
    for (int s = 0; s < family_.n_trees(); s++) {
        if (s == t || family_.parents(s)[y] != z || !fits(t, a, family_.weight[s])) continue;
        for (int b = family_.in_start[y]; b < family_.in_start[y + 1]; b++) {
            const bool freed = y != node_ && family_.in_tail[b] == left;
            if (b == a || !fits(s, b, freed ? family_.weight[t] : 0)) continue;
            if (!family_.can_hang(s, y, family_.in_tail[b], limit_)) continue;
            step.tree = s, step.to = family_.in_tail[b];
            return true;
        }
    }
    family_.work += family_.n_trees();
    return false;
}

bool Detours::try_hang(int t, int v, int u) {
    if (!family_.can_hang(t, v, u, limit_)) return false;
    log_.push_back({t, v, family_.parents(t)[v]});
    family_.hang(t, v, u);
    return true;
}

// The path from outside to the node, then the chain: every hanging is legal by itself once those before it are
// done, or all are taken back.
int Detours::follow(int t, int z, const std::vector<Rehang>& chain) {
    log_.clear();
    bool legal = true;
    for (int x = z; legal && step_[x].next >= 0; x = step_[x].next) {
        const Step& step = step_[x];
        legal = (step.tree < 0 || try_hang(step.tree, step.next, step.to)) && try_hang(t, step.next, x);
    }
    for (const Rehang& move : chain) legal = legal && try_hang(move.tree, move.node, move.parent);
    if (legal) return static_cast<int>(log_.size());
    for (; !log_.empty(); log_.pop_back()) family_.hang(log_.back().tree, log_.back().node, log_.back().parent);
    return 0;
}

}  // namespace treadle
