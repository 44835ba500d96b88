// Dijkstra from every member gives what edges between members cost. Edmonds' contraction, grown along a path of tight
// arcs (Gabow, Galil, Spencer and Tarjan 1986), needs no root: it ends with a laminar family of sets, each with the arc by
// which it is entered. The arborescence from v takes those arcs but for the sets that hold v, and within every other set
// but for those that hold the head of the arc that enters it. So one contraction serves all roots.
#include "trees/cheapest_trees.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace treadle {
namespace {

constexpr std::int64_t far = static_cast<std::int64_t>(1) << 61;

class Group {
   public:
    Group(const PricedGraph& graph, const std::vector<int>& members)
        : graph_(graph), members_(members), k_(static_cast<int>(members.size())) {
        place_.assign(graph.n_nodes, -1);
        for (int v = 0; v < k_; v++) place_[members[v]] = v;
        first_.assign(graph.n_nodes + 1, 0);
        for (int tail : graph.tail) first_[tail + 1]++;
        for (int v = 0; v < graph.n_nodes; v++) first_[v + 1] += first_[v];
        by_tail_.resize(graph.tail.size());
        std::vector<int> next(first_.begin(), first_.end() - 1);
        for (std::size_t e = 0; e < graph.tail.size(); e++) by_tail_[next[graph.tail[e]]++] = static_cast<int>(e);
    }

    CheapestTrees trees(const std::vector<int>& roots, bool is_centre, const Control& control) {
        CheapestTrees found;
        const std::size_t cells = static_cast<std::size_t>(k_) * k_;
        cost_.assign(cells, far);
        back_.assign(k_, far);
        last_.resize(static_cast<std::size_t>(k_) * graph_.n_nodes);
        for (int u = 0; u < k_; u++) {
            if (control.cancelled()) return found.status = Status::cancelled, found;
            measure(u);
        }
        arc_cost_ = cost_;
        if (is_centre)  // then it joins up as soon as it reaches all
            for (int u = 0; u < k_; u++) arc_cost_[static_cast<std::size_t>(roots[0]) * k_ + u] = 0;
        if (!contract()) return found.status = Status::stuck, found;
        for (int root : roots) {
            if (control.cancelled()) return found.status = Status::cancelled, found;
            expand(root);
            write(found);
        }
        nearest();
        write(found);
        found.start.push_back(static_cast<std::int64_t>(found.arc.size()));
        return found;
    }

   private:
    const PricedGraph& graph_;
    const std::vector<int>& members_;
    int k_;
    std::vector<int> place_;             // of a node among the members, or -1
    std::vector<int> first_, by_tail_;   // arcs by tail
    std::vector<std::int64_t> cost_;     // cost_[v * k + u]: from u to v
    std::vector<std::int64_t> back_;     // from a member to itself
    std::vector<int> last_;              // last_[u * n + w]: the arc by which the shortest path from u enters w
    std::vector<std::int64_t> arc_cost_; // as cost_, while rows and columns of sets become one
    std::vector<std::pair<int, int>> entry_;  // by set: tail and head of the arc that enters it
    std::vector<int> above_;                  // by set: the set made of it and others, or -1
    std::vector<std::vector<int>> within_;    // by set: the sets that it was made of
    std::vector<int> parent_;

    // Shortest paths from a member; they end at others.
    void measure(int u) {
        std::vector<std::int64_t> distance(graph_.n_nodes, far);
        int* last = &last_[static_cast<std::size_t>(u) * graph_.n_nodes];
        std::fill(last, last + graph_.n_nodes, -1);
        using Entry = std::pair<std::int64_t, int>;
        std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
        distance[members_[u]] = 0;
        open.push({0, members_[u]});
        while (!open.empty()) {
            const auto [length, w] = open.top();
            open.pop();
            if (length > distance[w]) continue;
            if (place_[w] >= 0 && place_[w] != u) {
                cost_[static_cast<std::size_t>(place_[w]) * k_ + u] = length;
                continue;
            }
            for (int i = first_[w]; i < first_[w + 1]; i++) {
                const int e = by_tail_[i], head = graph_.head[e];
                const std::int64_t reached = length + graph_.length[e];
                if (head == members_[u] && w != head && reached < back_[u]) back_[u] = reached, last[head] = e;
                if (reached >= distance[head]) continue;
                distance[head] = reached;
                last[head] = e;
                open.push({reached, head});
            }
        }
    }

    // Sets entry_, above_ and within_; false if some members are not reached from others.
    bool contract() {
        std::vector<int> alive(k_), path{0}, at(k_, -1), set(k_), merged;
        std::vector<std::int64_t> taken(k_, 0);  // what a row's costs are lower by
        std::vector<std::pair<int, int>> ends(static_cast<std::size_t>(k_) * k_);
        above_.assign(k_, -1);
        entry_.assign(k_, {-1, -1});
        within_.assign(k_, {});
        for (int v = 0; v < k_; v++) {
            alive[v] = set[v] = v;
            for (int u = 0; u < k_; u++) ends[static_cast<std::size_t>(v) * k_ + u] = {u, v};
        }
        at[0] = 0;
        while (alive.size() > 1) {
            const int v = path.back();
            const std::int64_t* row = &arc_cost_[static_cast<std::size_t>(v) * k_];
            std::int64_t least = far;
            int from = -1;
            for (int u : alive)
                if (u != v && row[u] < least) least = row[u], from = u;
            if (from < 0) return false;
            entry_[set[v]] = ends[static_cast<std::size_t>(v) * k_ + from];
            taken[v] = least;
            if (at[from] < 0) {
                at[from] = static_cast<int>(path.size());
                path.push_back(from);
                continue;
            }
            merged.assign(path.begin() + at[from], path.end());
            path.resize(at[from] + 1);
            const int whole = static_cast<int>(above_.size());
            above_.push_back(-1);
            entry_.push_back({-1, -1});
            within_.push_back({});
            for (int w : merged) above_[set[w]] = whole, within_[whole].push_back(set[w]), at[w] = -1;
            merge(merged, alive, taken, ends);
            set[from] = whole;
            at[from] = static_cast<int>(path.size()) - 1;
        }
        return true;
    }

    // Makes the first of some rows and columns stand for all of them.
    void merge(const std::vector<int>& merged, std::vector<int>& alive, std::vector<std::int64_t>& taken,
               std::vector<std::pair<int, int>>& ends) {
        const std::size_t k = k_;
        const int whole = merged[0];
        std::vector<char> gone(k, false);
        for (std::size_t i = 1; i < merged.size(); i++) gone[merged[i]] = true;
        alive.erase(std::remove_if(alive.begin(), alive.end(), [&](int v) { return gone[v]; }), alive.end());
        for (int u : alive) {
            const std::size_t into = whole * k + u, out = u * k + whole;
            if (arc_cost_[into] < far) arc_cost_[into] -= taken[whole];
            for (std::size_t i = 1; i < merged.size(); i++) {
                const std::size_t row = merged[i] * k + u, column = u * k + merged[i];
                if (arc_cost_[row] < far && arc_cost_[row] - taken[merged[i]] < arc_cost_[into])
                    arc_cost_[into] = arc_cost_[row] - taken[merged[i]], ends[into] = ends[row];
                if (arc_cost_[column] < arc_cost_[out]) arc_cost_[out] = arc_cost_[column], ends[out] = ends[column];
            }
        }
        taken[whole] = 0;
    }

    // The tree from a root: opens the sets that hold it, then each other set where it is entered.
    void expand(int root) {
        parent_.assign(k_, -1);
        std::vector<std::pair<int, int>> open{{root, static_cast<int>(above_.size()) - 1}};
        while (!open.empty()) {
            const auto [member, top] = open.back();
            open.pop_back();
            for (int inner = member; inner != top; inner = above_[inner])
                for (int other : within_[above_[inner]]) {
                    if (other == inner) continue;
                    const auto [tail, head] = entry_[other];
                    parent_[head] = tail;
                    open.push_back({head, other});
                }
        }
    }

    void nearest() {
        for (int v = 0; v < k_; v++) {
            std::int64_t least = back_[v];
            parent_[v] = least < far ? v : -1;
            for (int u = 0; u < k_; u++) {
                const std::int64_t cost = cost_[static_cast<std::size_t>(v) * k_ + u];
                if (cost < least) least = cost, parent_[v] = u;
            }
        }
    }

    void write(CheapestTrees& found) const {
        for (int v = 0; v < k_; v++) {
            const int u = parent_[v];
            found.parent.push_back(u);
            found.start.push_back(static_cast<std::int64_t>(found.arc.size()));
            if (u < 0) continue;
            const int* last = &last_[static_cast<std::size_t>(u) * graph_.n_nodes];
            const std::size_t begin = found.arc.size();
            int w = members_[v];
            do {
                found.arc.push_back(last[w]);
                w = graph_.tail[last[w]];
            } while (w != members_[u]);
            std::reverse(found.arc.begin() + begin, found.arc.end());
        }
    }
};

}  // namespace

CheapestTrees cheapest_trees(const PricedGraph& graph, const std::vector<int>& members, const std::vector<int>& roots,
                             bool is_centre, const Control& control) {
    return Group(graph, members).trees(roots, is_centre, control);
}

}  // namespace treadle
