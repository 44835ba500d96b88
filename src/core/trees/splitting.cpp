// Switch removal by edge splitting: Algorithm 3 and Theorems 26-28 of the dissertation (B.5.2), in bulk.
//
// Replacing a units of u -> w and w -> t by u -> t lowers d+(S) by a exactly for those S that hold u and t but not w, or
// w but neither u nor t. The paper splits pair by pair, each by as much as one flow per rank allows. Here all switches
// of a level are split at once by a plan that is even (switch_plan.cpp), condition C is checked once for all, and a cut
// that is violated is mended by exchanging partners across it; docs/proofs/forestcoll.md proves that this can mend
// any one cut. Where mending does not end (mending one cut may hurt another), amounts come from Theorem 28.
// That some pair can always be split while w has capacity is Mader's theorem in the form of Bang-Jensen, Frank and
// Jackson (1995), which needs balance at the switches only.
#include "trees/splitting.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "trees/cuts.hpp"
#include "trees/split_arcs.hpp"
#include "trees/switch_plan.hpp"

namespace treadle {
namespace {

using Cap = std::int64_t;
using Plans = std::map<int, SwitchPlan>;  // by switch

constexpr std::int64_t kMendsPerLevel = 200, kMendsPerSwitch = 2;  // so many cuts, and so many more for each switch
constexpr std::int64_t kMendsAlone = 50;                           // of one switch of a level that could not be mended

class Splitter {
   public:
    Splitter(const Fabric& fabric, const Control& control, std::int64_t mend_limit, SplitCounts& counts)
        : fabric_(fabric), control_(control), mend_limit_(mend_limit), counts_(counts), arcs_(fabric) {
        is_compute_.assign(fabric.n_nodes, false);
        for (int v : fabric.compute) is_compute_[v] = true;
        order_switches();
    }

    Status run(LogicalGraph& result) {
        std::size_t at = 0;
        while (at < order_.size()) {
            const std::vector<int> batch = next_batch(at);
            const Status status = remove_batch(batch);
            if (status != Status::ok) return status;
            control_.progress(static_cast<Cap>(at), static_cast<Cap>(order_.size()));
        }
        arcs_.write(result);
        return Status::ok;
    }

    // Newton on the violated cuts: splitting one unit less gains exactly one unit on each of them.
    Cap amount(int w, NodePair pair, Cap units) const {
        std::vector<char> cut;
        int first = 0;
        while (units > 0) {
            Plans one{{w, {{pair, units}}}};
            int failed = check(one, false, first, cut);
            if (failed < 0) break;
            first = failed;
            units = std::max<Cap>(0, units - deficit(one, false, cut));
        }
        return units;
    }

   private:
    const Fabric& fabric_;
    const Control& control_;
    const std::int64_t mend_limit_;
    SplitCounts& counts_;
    SplitArcs arcs_;
    std::vector<char> is_compute_;
    std::vector<int> order_;                    // switches, first to be removed first
    std::vector<std::pair<Cap, Cap>> rank_of_;  // sort key of every switch

    // Leaf level first: by how many compute nodes a switch serves at its least distance, then strongest ports first.
    void order_switches() {
        std::vector<std::vector<int>> neighbours(fabric_.n_nodes);
        std::vector<Cap> port(fabric_.n_nodes, 0);
        for (std::size_t e = 0; e < fabric_.tail.size(); e++) {
            if (fabric_.capacity[e] == 0) continue;
            neighbours[fabric_.tail[e]].push_back(fabric_.head[e]);
            port[fabric_.tail[e]] = std::max(port[fabric_.tail[e]], fabric_.capacity[e]);
        }
        rank_of_.assign(fabric_.n_nodes, {0, 0});
        std::vector<int> seen(fabric_.n_nodes, -1);
        for (int w = 0; w < fabric_.n_nodes; w++) {
            if (is_compute_[w]) continue;
            std::vector<int> frontier{w};
            Cap served = 0;
            seen[w] = w;
            while (!frontier.empty() && served == 0) {
                std::vector<int> next;
                for (int u : frontier)
                    for (int v : neighbours[u]) {
                        if (seen[v] == w) continue;
                        seen[v] = w;
                        served += is_compute_[v];
                        next.push_back(v);
                    }
                frontier.swap(next);
            }
            rank_of_[w] = {served, -port[w]};
            order_.push_back(w);
        }
        std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return rank_of_[a] < rank_of_[b]; });
    }

    // Switches of one level, no two of them adjacent; those left over come first in the next batch.
    std::vector<int> next_batch(std::size_t& at) {
        std::vector<int> batch, later;
        std::set<int> chosen;
        std::size_t end = at;
        while (end < order_.size() && rank_of_[order_[end]] == rank_of_[order_[at]]) end++;
        for (std::size_t i = at; i < end; i++) {
            int w = order_[i];
            bool adjacent = false;
            for (const auto& [t, arc] : arcs_.out(w)) adjacent |= arc.capacity > 0 && chosen.count(t);
            for (int u : arcs_.in(w)) adjacent |= chosen.count(u) > 0;
            if (adjacent)
                later.push_back(w);
            else {
                chosen.insert(w);
                batch.push_back(w);
            }
        }
        std::copy(later.begin(), later.end(), order_.begin() + static_cast<std::ptrdiff_t>(end - later.size()));
        at = end - later.size();
        return batch;
    }

    // Components of the physical fabric without the switches that are not removed before w: boxes, then pods.
    std::vector<int> neighbourhoods(int w) const {
        std::vector<int> parent(fabric_.n_nodes);
        std::iota(parent.begin(), parent.end(), 0);
        std::function<int(int)> root = [&](int v) {
            while (parent[v] != v) v = parent[v] = parent[parent[v]];
            return v;
        };
        auto stays = [&](int v) { return is_compute_[v] || rank_of_[v] < rank_of_[w]; };
        for (std::size_t e = 0; e < fabric_.tail.size(); e++)
            if (fabric_.capacity[e] > 0 && stays(fabric_.tail[e]) && stays(fabric_.head[e]))
                parent[root(fabric_.tail[e])] = root(fabric_.head[e]);
        std::vector<int> group(fabric_.n_nodes);
        for (int v = 0; v < fabric_.n_nodes; v++) group[v] = root(v);
        return group;
    }

    SwitchPlan planned(int w, const std::vector<int>& group, const std::set<NodePair>& forbidden = {}) const {
        return plan_switch(arcs_.arriving(w), arcs_.leaving(w), is_compute_, group, forbidden);
    }

    // First failing sink of the graph in which the plans have been carried out, or -1.
    int check(const Plans& plans, bool whole, int first, std::vector<char>& cut) const {
        std::vector<CapacityArc<Cap>> arcs;
        for (int u = 0; u < fabric_.n_nodes; u++) {
            bool gone = whole && plans.count(u);
            for (const auto& [t, arc] : arcs_.out(u))
                if (arc.capacity > 0 && !gone && !(whole && plans.count(t))) arcs.push_back({u, t, arc.capacity});
        }
        for (const auto& [w, plan] : plans)
            for (const auto& [pair, units] : plan) {
                if (units == 0) continue;
                if (pair.first != pair.second) arcs.push_back({pair.first, pair.second, units});
                if (!whole) {
                    arcs.push_back({pair.first, w, -units});
                    arcs.push_back({w, pair.second, -units});
                }
            }
        return find_violated(fabric_.n_nodes, std::move(arcs), fabric_.compute, fabric_.root, first, cut);
    }

    Cap deficit(const Plans& plans, bool whole, const std::vector<char>& cut) const {
        Cap need = 0;
        for (std::size_t i = 0; i < fabric_.compute.size(); i++)
            if (cut[fabric_.compute[i]]) need += fabric_.root[i];
        for (int u = 0; u < fabric_.n_nodes; u++) {
            if (!cut[u] || (whole && plans.count(u))) continue;
            for (const auto& [t, arc] : arcs_.out(u))
                if (!cut[t] && !(whole && plans.count(t))) need -= arc.capacity;
        }
        for (const auto& [w, plan] : plans)
            for (const auto& [pair, units] : plan) {
                bool from = cut[pair.first], to = cut[pair.second];
                need -= (from && !to) ? units : 0;
                if (!whole) need += (from && !cut[w] ? units : 0) + (cut[w] && !to ? units : 0);
            }
        return need;
    }

    // Exchange partners of pairs inside the cut with pairs outside it, evenly: u1->t1, u2->t2 become u1->t2, u2->t1.
    static Cap mend(SwitchPlan& plan, const std::vector<char>& cut, Cap wanted) {
        std::vector<NodePair> inside, outside;
        for (const auto& [pair, units] : plan) {
            if (units == 0) continue;
            if (cut[pair.first] && cut[pair.second]) inside.push_back(pair);
            if (!cut[pair.first] && !cut[pair.second]) outside.push_back(pair);
        }
        if (inside.empty() || outside.empty()) return 0;
        Cap gained = 0;
        Cap share = std::max<Cap>(1, wanted / static_cast<Cap>(std::max(inside.size(), outside.size())));
        for (bool any = true; any && gained < wanted;) {
            any = false;
            for (std::size_t i = 0, j = 0, tries = 0; tries < inside.size() + outside.size() && gained < wanted; tries++) {
                const NodePair p = inside[i % inside.size()], q = outside[j % outside.size()];
                Cap units = std::min({plan[p], plan[q], share, wanted - gained});
                if (units > 0) {
                    plan[p] -= units, plan[q] -= units;
                    plan[{p.first, q.second}] += units, plan[{q.first, p.second}] += units;
                    gained += units, any = true;
                }
                if (units == 0 && plan[p] == 0)
                    i++;
                else if (units == 0)
                    j++;
                else
                    i++, j++;
            }
        }
        return gained;
    }

    // Mend violated cuts until condition C holds; false if that does not come to an end.
    bool mend_all(Plans& plans, std::int64_t limit, Status& status) {
        if (mend_limit_ >= 0) limit = mend_limit_;
        int first = 0;
        std::vector<char> cut;
        for (std::int64_t mended = 0;;) {
            if (control_.cancelled()) {
                status = Status::cancelled;
                return false;
            }
            int failed = check(plans, true, first, cut);
            if (failed < 0) {
                if (first == 0) return true;
                first = 0;  // the exchanges may have hurt sinks that had passed
                continue;
            }
            if (++mended > limit) return false;
            Cap wanted = deficit(plans, true, cut);
            for (auto& [w, plan] : plans) {
                if (wanted <= 0) break;
                wanted -= mend(plan, cut, wanted);
            }
            if (wanted > 0) return false;
            counts_.mended++;
            first = failed;
        }
    }

    Status remove_batch(const std::vector<int>& batch) {
        Plans plans;
        std::vector<int> group = neighbourhoods(batch.front());
        for (int w : batch) plans[w] = planned(w, group);
        Status status = Status::ok;
        if (mend_all(plans, kMendsPerLevel + kMendsPerSwitch * static_cast<std::int64_t>(batch.size()), status)) {
            for (int w : batch) arcs_.apply(w, plans[w]);
            return Status::ok;
        }
        if (status != Status::ok) return status;
        for (int w : batch) {
            Plans one;
            one[w] = planned(w, group);
            if (batch.size() > 1 && mend_all(one, kMendsAlone, status)) {
                arcs_.apply(w, one[w]);
                continue;
            }
            if (status != Status::ok) return status;
            status = split_exactly(w, group);
            if (status != Status::ok) return status;
        }
        return Status::ok;
    }

    // Theorems 26-28: bulk prefixes of a plan as far as they are safe, the exact amount for the pair that stops
    // them, then a new plan without that pair. Some pair can always be split while the switch has capacity.
    Status split_exactly(int w, const std::vector<int>& group) {
        std::set<NodePair> exhausted;
        std::vector<char> cut;
        while (arcs_.arriving(w).node.size() > 0) {
            if (control_.cancelled()) return Status::cancelled;
            const SwitchPlan plan = planned(w, group, exhausted);
            std::vector<std::pair<NodePair, Cap>> steps(plan.begin(), plan.end());
            std::size_t safe = 0, unsafe = steps.size() + 1;
            while (unsafe - safe > 1) {
                std::size_t middle = unsafe == steps.size() + 1 && safe == 0 ? steps.size() : (safe + unsafe) / 2;
                Plans prefix;
                prefix[w] = SwitchPlan(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(middle));
                (check(prefix, false, 0, cut) < 0 ? safe : unsafe) = middle;
            }
            arcs_.apply(w, SwitchPlan(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(safe)));
            if (safe == steps.size()) {
                if (arcs_.arriving(w).node.size() > 0) return Status::stuck;
                break;
            }
            auto [pair, units] = steps[safe];
            arcs_.apply(w, {{pair, amount(w, pair, units)}});
            exhausted.insert(pair);
            counts_.exact++;
        }
        return Status::ok;
    }
};

}  // namespace

Status remove_switches(const Fabric& fabric, const Control& control, std::int64_t mend_limit, LogicalGraph& result,
                       SplitCounts& counts) {
    return Splitter(fabric, control, mend_limit, counts).run(result);
}

std::int64_t splittable_amount(const Fabric& fabric, int u, int w, int t) {
    const Control none;
    SplitCounts counts;
    Cap in = 0, out = 0;
    for (std::size_t e = 0; e < fabric.tail.size(); e++) {
        if (fabric.tail[e] == u && fabric.head[e] == w) in += fabric.capacity[e];
        if (fabric.tail[e] == w && fabric.head[e] == t) out += fabric.capacity[e];
    }
    return Splitter(fabric, none, -1, counts).amount(w, {u, t}, std::min(in, out));
}

}  // namespace treadle
