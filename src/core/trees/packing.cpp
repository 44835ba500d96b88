// Spanning-tree packing with certainty: Algorithm 4 and Theorems 29-32 of the dissertation (B.5.3; Berczi and Frank).
//
// Condition C on the capacities left guarantees that the remaining trees exist (Theorem 30, from Edmonds's and Tarjan's
// packing theorem), however the trees so far were chosen. So whole trees are grown greedily and a batch is kept if one
// check of condition C passes. A batch that fails teaches the cuts it violated; later trees spare their slack. A root
// whose single greedy tree fails is grown exactly, arc by arc, each as often as one flow allows (Theorem 32).
// Departure: where no arc takes the whole multiplicity, the partial tree is lowered as a whole and the rest goes back to
// the root, instead of splitting off a copy; docs/proofs/forestcoll.md proves that this keeps condition (B.2).
#include "trees/packing.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "trees/cuts.hpp"
#include "trees/residual.hpp"

namespace treadle {
namespace {

using Cap = std::int64_t;

struct GrownTree {
    int root = -1;
    Cap multiplicity = 0;
    std::vector<int> parent, arc;  // arc from the parent, by node
};

struct Candidate {
    Cap spare;
    int tail, arc;
};

// A node set S that a batch of greedy trees once overwhelmed. Every tree rooted in S has to leave it once; `slack`
// is how many exits are left beyond that.
struct LearnedCut {
    std::vector<char> inside;  // S
    Cap slack = 0;
};

class Packer {
   public:
    Packer(const PackingProblem& problem, const Control& control, PackingCounts& counts)
        : problem_(problem), control_(control), counts_(counts), n_(problem.n_nodes), spare_(problem.capacity), root_(problem.root) {
        start_.assign(n_ + 1, 0);
        for (int u : problem.tail) start_[u + 1]++;
        for (int v = 0; v < n_; v++) start_[v + 1] += start_[v];
        out_.resize(problem.tail.size());
        leaving_.resize(n_);
        entering_.resize(n_);
        auto place = start_;
        for (std::size_t a = 0; a < problem.tail.size(); a++) out_[place[problem.tail[a]]++] = static_cast<int>(a);
        units_ = std::accumulate(root_.begin(), root_.end(), Cap{0});
        for (int v = 0; v < n_; v++)
            if (root_[v] > 0) pending_.push_back(v);
    }

    // Whole trees are grown greedily in batches, at first all of them. A batch after which condition C fails teaches
    // the cuts it overwhelmed and is grown again with care for them, or cut to a quarter; one that passes doubles
    // the next. A root whose single greedy tree fails is grown exactly, and after several of those in a row the
    // greedy attempts pause.
    Status run(bool speculate, TreePacking& result) {
        std::size_t batch = static_cast<std::size_t>(units_), pause = 0, next_pause = 1;
        int retries = 0;
        Cap done = 0;
        while (!pending_.empty()) {
            if (control_.cancelled()) return Status::cancelled;
            control_.progress(done, units_);
            if (speculate && pause == 0) {
                std::vector<GrownTree> trees = grow_batch(batch);
                learned_ = false;
                if (!trees.empty() && batch_safe(trees)) {
                    for (auto& tree : trees) done += tree.multiplicity, counts_.speculative += tree.multiplicity;
                    for (auto& tree : trees) keep(std::move(tree), result);
                    batch = std::min(2 * batch, static_cast<std::size_t>(units_)), next_pause = 1, retries = 0;
                    continue;
                }
                if (learned_ && retries++ < kRetries) continue;
                retries = 0;
                if (trees.size() > 1) {
                    batch = std::max<std::size_t>(1, trees.size() / 4);
                    continue;
                }
                // A single greedy tree failed: exact ones for a while, twice as many each time until a batch passes.
                batch = 1;
                pause = next_pause;
                next_pause = std::min<std::size_t>(2 * next_pause, 256);
            }
            if (pause > 0) pause--;
            GrownTree tree;
            Status status = grow_exactly(pending_.back(), tree);
            if (status != Status::ok) return status;
            done += tree.multiplicity, counts_.exact += tree.multiplicity;
            account(tree, tree.multiplicity);
            keep(std::move(tree), result);
        }
        return Status::ok;
    }

   private:
    const PackingProblem& problem_;
    const Control& control_;
    PackingCounts& counts_;
    const int n_;
    std::vector<int> start_, out_;
    std::vector<Cap> spare_, root_;  // capacities and multiplicities not yet used up
    std::vector<int> pending_;       // roots with trees to grow; the last is next
    Cap units_ = 0;
    static constexpr std::size_t kMaxCuts = 4096, kCutsPerCheck = 4;  // learned in all; sought after one failure
    static constexpr int kRetries = 8;      // of a batch with newly learned cuts, before it is cut
    bool learned_ = false;  // the last failed check taught a new cut
    std::vector<LearnedCut> cuts_;
    std::vector<std::vector<int>> leaving_, entering_;  // cuts stored by S, by its complement, at each member
    std::vector<Cap> rooted_in_;                        // r(S) of each learned cut
    std::vector<Cap> exits_, best_;
    // The exact stage keeps its flow between trees; greedy trees make it stale.
    std::vector<ResidualNetwork<Cap>> network_;
    std::vector<int> network_arc_;
    int sink_ = -1;

    void keep(GrownTree&& tree, TreePacking& result) {
        result.root.push_back(tree.root);
        result.multiplicity.push_back(tree.multiplicity);
        result.parent.insert(result.parent.end(), tree.parent.begin(), tree.parent.end());
        while (!pending_.empty() && root_[pending_.back()] == 0) pending_.pop_back();
    }

    // Breadth-first: every new node takes the arc with most spare capacity from the previous layer. Learned cuts are
    // left as seldom as their slack allows; a tree that cannot go on otherwise may use up the slack.
    bool grow_greedily(int root, Cap multiplicity, GrownTree& tree) {
        tree.root = root;
        tree.multiplicity = multiplicity;
        tree.parent.assign(n_, -1);
        tree.arc.assign(n_, -1);
        exits_.assign(cuts_.size(), 0);
        std::vector<char> inside(n_, false);
        std::vector<int> layer{root}, members{root}, next;
        inside[root] = true;
        for (bool frugal = true; static_cast<int>(members.size()) < n_;) {
            next.clear();
            while (grow_layer(layer, inside, frugal, tree, next)) {
            }
            if (next.empty()) {
                if (!frugal || cuts_.empty()) return false;
                frugal = false;
                layer = members;
                continue;
            }
            members.insert(members.end(), next.begin(), next.end());
            layer.swap(next);
        }
        return true;
    }

    // One sweep over the arcs that leave the layer; true if it should be repeated because accepted arcs used up
    // exits that other nodes had counted on.
    bool grow_layer(const std::vector<int>& layer, std::vector<char>& inside, bool frugal, GrownTree& tree,
                    std::vector<int>& next) {
        best_.assign(n_, 0);
        std::vector<int> found;
        for (int x : layer)
            for (int i = start_[x]; i < start_[x + 1]; i++) {
                int a = out_[i], y = problem_.head[a];
                if (inside[y] || spare_[a] < tree.multiplicity || spare_[a] <= best_[y]) continue;
                if (!may_cross(x, y, frugal, tree)) continue;
                if (best_[y] == 0) found.push_back(y);
                best_[y] = spare_[a];
                tree.arc[y] = a;
                tree.parent[y] = x;
            }
        bool refused = false;
        for (int y : found) {
            int x = tree.parent[y];
            if (!may_cross(x, y, frugal, tree)) {
                tree.arc[y] = tree.parent[y] = -1;
                refused = true;
                continue;
            }
            for_crossed(x, y, [&](int cut) { exits_[cut]++; });
            inside[y] = true;
            next.push_back(y);
        }
        return refused;
    }

    template <class Visit>
    void for_crossed(int x, int y, Visit visit) const {
        for (int cut : leaving_[x])
            if (!cuts_[cut].inside[y]) visit(cut);
        for (int cut : entering_[y])
            if (cuts_[cut].inside[x]) visit(cut);
    }

    bool may_cross(int x, int y, bool frugal, const GrownTree& tree) const {
        bool may = true;
        for_crossed(x, y, [&](int cut) {
            bool rooted = cuts_[cut].inside[tree.root];
            Cap extra = cuts_[cut].slack / tree.multiplicity;
            if (frugal) extra = rooted ? cuts_[cut].slack / std::max<Cap>(1, rooted_in_[cut]) : 0;
            may &= exits_[cut] < extra + (rooted ? 1 : 0);
        });
        return may;
    }

    // Remember a violated cut, with its slack as it was before the batch.
    bool learn(const std::vector<char>& inside) {
        if (cuts_.size() >= kMaxCuts) return false;
        LearnedCut cut;
        cut.inside = inside;
        int id = static_cast<int>(cuts_.size());
        Cap rooted = 0;
        int size = 0;
        for (int v = 0; v < n_; v++) {
            size += inside[v];
            if (inside[v]) rooted += root_[v];
        }
        for (std::size_t a = 0; a < spare_.size(); a++)
            if (inside[problem_.tail[a]] && !inside[problem_.head[a]]) cut.slack += spare_[a];
        cut.slack -= rooted;
        // Stored at the members of the smaller side, so that looking up the cuts an arc crosses stays short.
        for (int v = 0; v < n_; v++) {
            if (2 * size <= n_ && inside[v]) leaving_[v].push_back(id);
            if (2 * size > n_ && !inside[v]) entering_[v].push_back(id);
        }
        cuts_.push_back(std::move(cut));
        rooted_in_.push_back(rooted);
        return true;
    }

    void consume(const GrownTree& tree, Cap sign) {
        for (int a : tree.arc)
            if (a >= 0) spare_[a] -= sign * tree.multiplicity;
        root_[tree.root] -= sign * tree.multiplicity;
        account(tree, sign * tree.multiplicity);
    }

    // Slack and roots of the learned cuts after `units` of the tree have been taken (negative: given back).
    void account(const GrownTree& tree, Cap units) {
        if (cuts_.empty()) return;
        exits_.assign(cuts_.size(), 0);
        for (int y = 0; y < n_; y++)
            if (tree.parent[y] >= 0) for_crossed(tree.parent[y], y, [&](int cut) { exits_[cut]++; });
        for (std::size_t cut = 0; cut < cuts_.size(); cut++) {
            Cap rooted = cuts_[cut].inside[tree.root] ? 1 : 0;
            cuts_[cut].slack -= units * (exits_[cut] - rooted);
            rooted_in_[cut] -= units * rooted;
        }
    }

    std::vector<GrownTree> grow_batch(std::size_t size) {
        std::vector<GrownTree> trees;
        for (std::size_t i = pending_.size(); i-- > 0 && trees.size() < size;) {
            int root = pending_[i];
            while (root_[root] > 0 && trees.size() < size && !control_.cancelled()) {
                GrownTree tree;
                Cap multiplicity = root_[root];
                bool grown = false;
                while (multiplicity > 0 && !(grown = grow_greedily(root, multiplicity, tree))) multiplicity /= 2;
                if (!grown) {
                    if (trees.empty()) return trees;
                    i = 0;
                    break;
                }
                consume(tree, 1);
                trees.push_back(std::move(tree));
            }
        }
        return trees;
    }

    // The trees' capacity has been taken; give it back if condition C does not survive.
    bool batch_safe(const std::vector<GrownTree>& trees) {
        std::vector<CapacityArc<Cap>> arcs;
        arcs.reserve(spare_.size());
        for (std::size_t a = 0; a < spare_.size(); a++)
            if (spare_[a] > 0) arcs.push_back({problem_.tail[a], problem_.head[a], spare_[a]});
        std::vector<int> nodes(n_);
        std::iota(nodes.begin(), nodes.end(), 0);
        std::vector<char> cut;
        std::vector<std::vector<char>> violated;
        for (int first = 0; violated.size() < kCutsPerCheck;) {
            first = find_violated(n_, arcs, nodes, root_, first, cut);
            if (first < 0) break;
            violated.push_back(cut);
            while (first < n_ && !cut[first]) first++;
            if (first >= n_) break;
        }
        if (violated.empty()) {
            network_.clear();
            return true;
        }
        for (const auto& tree : trees) consume(tree, -1);
        learned_ = false;
        for (const auto& set : violated) learned_ |= learn(set);
        return false;
    }

    void open_network() {
        std::vector<CapacityArc<Cap>> arcs;
        for (std::size_t a = 0; a < spare_.size(); a++) arcs.push_back({problem_.tail[a], problem_.head[a], spare_[a]});
        for (int v = 0; v < n_; v++)
            if (problem_.root[v] > 0) arcs.push_back({n_, v, root_[v]});
        network_.emplace_back(n_ + 1, std::move(arcs));
        network_arc_.resize(spare_.size());
        for (std::size_t a = 0; a < spare_.size(); a++)
            network_arc_[a] = network_[0].find(problem_.tail[a], problem_.head[a]);
        sink_ = n_;
    }

    bool move_sink(int y, Cap total) {
        if (sink_ == y) return true;
        if (network_[0].push(sink_, y, total) < total) return false;
        sink_ = y;
        return true;
    }

    // Change how many units the source sends to `root`, keeping the flow saturated.
    bool change_source(int root, Cap amount) {
        auto& network = network_[0];
        int arc = network.find(n_, root), back = network.find(root, n_);
        if (amount < 0) {
            if (sink_ == n_) {
                network.add_capacity(arc, amount);
                return true;
            }
            if (sink_ != root && network.push(sink_, root, -amount) < -amount) return false;
            network.add_capacity(back, amount);
            return true;
        }
        if (sink_ == n_) {
            network.add_capacity(arc, amount);
            return true;
        }
        network.add_capacity(back, amount);
        return sink_ == root || network.push(root, sink_, amount) == amount;
    }

    // Algorithm 4 with Theorem 32: an edge is added as often as condition (B.2) allows. Where that is less than the
    // tree's multiplicity for every edge, the whole partial tree is lowered to the best edge and the rest of its
    // multiplicity goes back to the root, which keeps (B.2): capacity returned covers every set that gains demand.
    Status grow_exactly(int root, GrownTree& tree) {
        if (network_.empty()) open_network();
        auto& network = network_[0];
        tree.root = root;
        tree.multiplicity = root_[root];
        tree.parent.assign(n_, -1);
        tree.arc.assign(n_, -1);
        // The growing tree is taken out of the source: with the sink at y, the residual of (x, y) plus what can be
        // re-routed around it is then mu of Theorem 32.
        Cap others = std::accumulate(root_.begin(), root_.end(), Cap{0}) - tree.multiplicity;
        root_[root] = 0;
        if (!change_source(root, -tree.multiplicity)) return Status::stuck;
        std::vector<char> inside(n_, false);
        std::vector<int> layer{root}, members{root};
        inside[root] = true;
        while (static_cast<int>(members.size()) < n_) {
            if (control_.cancelled()) return Status::cancelled;
            std::vector<int> next;
            Candidate partial{0, -1, -1};
            if (!extend_layer(layer, inside, others, tree, next, partial)) return Status::stuck;
            if (next.empty()) {
                // Nothing takes the whole multiplicity any more: look at every arc that leaves the tree.
                partial = {0, -1, -1};
                if (!extend_layer(members, inside, others, tree, next, partial)) return Status::stuck;
                if (control_.cancelled()) return Status::cancelled;
                if (next.empty()) {
                    if (partial.spare == 0) return Status::stuck;
                    Cap back = tree.multiplicity - partial.spare;
                    for (int a : tree.arc)
                        if (a >= 0) spare_[a] += back, network.add_capacity(network_arc_[a], back);
                    tree.multiplicity = partial.spare;
                    root_[root] += back;
                    others += back;
                    if (!change_source(root, back)) return Status::stuck;
                    next = members;  // rejected edges may be possible again
                }
            }
            for (int y : next)
                if (!inside[y]) inside[y] = true, members.push_back(y);
            layer.swap(next);
        }
        return Status::ok;
    }

    bool extend_layer(const std::vector<int>& layer, const std::vector<char>& inside, Cap others, GrownTree& tree,
                      std::vector<int>& next, Candidate& partial) {
        auto& network = network_[0];
        std::vector<Candidate> candidates;
        for (int x : layer)
            for (int i = start_[x]; i < start_[x + 1]; i++) {
                int a = out_[i];
                if (!inside[problem_.head[a]] && spare_[a] > 0) candidates.push_back({spare_[a], x, a});
            }
        std::stable_sort(candidates.begin(), candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.spare > b.spare; });
        for (const Candidate& candidate : candidates) {
            int y = problem_.head[candidate.arc];
            if (tree.arc[y] >= 0) continue;
            if (control_.cancelled()) return true;  // the caller looks again before it uses what was found
            Cap wanted = std::min(tree.multiplicity, spare_[candidate.arc]);
            if (wanted <= partial.spare && wanted < tree.multiplicity) continue;
            if (!move_sink(y, others)) return false;
            int arc = network_arc_[candidate.arc];
            Cap room = network.make_room(arc, candidate.tail, wanted);
            if (room < tree.multiplicity) {
                if (room > partial.spare) partial = {room, candidate.tail, candidate.arc};
                continue;
            }
            network.add_capacity(arc, -room);
            spare_[candidate.arc] -= room;
            tree.arc[y] = candidate.arc;
            tree.parent[y] = candidate.tail;
            next.push_back(y);
        }
        return true;
    }
};

}  // namespace

Status pack_trees(const PackingProblem& problem, const Control& control, bool speculate, TreePacking& result,
                  PackingCounts& counts) {
    return Packer(problem, control, counts).run(speculate, result);
}

}  // namespace treadle
