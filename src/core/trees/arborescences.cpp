// Distances: nodes that paths may pass, and that lengths of zero join up both ways, are one node. Rows of distances start
// at the nodes where members enter what passes; members enter and leave at any number of these.
//
// Arborescences: Edmonds' contraction, grown along a path of tight arcs (Gabow, Galil, Spencer and Tarjan 1986), needs no
// root. It ends with a laminar family of sets S, each raised by y(S) before an arc that enters it was tight; the minimum
// arborescence from v weighs the sum of y(S) over the sets without v. So one run serves all roots.
//
// Dead ends: what passes, and that one member of a group alone is joined to, leads nowhere but back to that member. The group
// does without, so that its members may be twins though each has such a place of its own.
//
// Twins: members with the same ways in and out are one row. An optimal y is alike at all of them: alone each is raised by
// the least of the distance between twins and the distance from others, and what joins one twin to others joins all.
#include "trees/arborescences.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

namespace treadle {
namespace {

constexpr std::int64_t most_row_bytes = 1 << 27;
constexpr std::int64_t most_table_bytes = 1 << 29;

template <class T>
constexpr T far = static_cast<T>(static_cast<T>(1) << (8 * sizeof(T) - 2));  // beyond all sums; twice it fits

template <class T>
struct Adjacent {
    std::vector<int> start, node;
    std::vector<T> length;
};

template <class T>
struct Arc {
    int tail, head;
    T length;
    bool operator<(const Arc& other) const {
        return std::tie(tail, head, length) < std::tie(other.tail, other.head, other.length);
    }
};

// Arcs by tail, the shortest of parallel ones.
template <class T>
Adjacent<T> by_tail(int n_nodes, std::vector<Arc<T>> arcs) {
    std::sort(arcs.begin(), arcs.end());
    Adjacent<T> found;
    found.start.assign(n_nodes + 1, 0);
    for (std::size_t i = 0; i < arcs.size(); i++) {
        if (i && arcs[i].tail == arcs[i - 1].tail && arcs[i].head == arcs[i - 1].head) continue;
        found.start[arcs[i].tail + 1]++;
        found.node.push_back(arcs[i].head);
        found.length.push_back(arcs[i].length);
    }
    for (int v = 0; v < n_nodes; v++) found.start[v + 1] += found.start[v];
    return found;
}

// Component of every node along arcs of length zero between passing nodes; others are alone. Tarjan's, without recursion.
std::vector<int> joined_at_zero(const LengthGraph& graph, int& n_components) {
    const int n = static_cast<int>(graph.passing.size());
    std::vector<Arc<int>> arcs;
    for (std::size_t e = 0; e < graph.tail.size(); e++)
        if (!graph.length[e] && graph.passing[graph.tail[e]] && graph.passing[graph.head[e]])
            arcs.push_back({graph.tail[e], graph.head[e], 0});
    const Adjacent<int> next = by_tail(n, std::move(arcs));
    std::vector<int> component(n, -1), order(n, -1), low(n), at(next.start.begin(), next.start.end() - 1), path, open;
    int seen = 0;
    n_components = 0;
    for (int first = 0; first < n; first++) {
        if (order[first] >= 0) continue;
        path.push_back(first);
        while (!path.empty()) {
            const int v = path.back();
            if (order[v] < 0) {
                order[v] = low[v] = seen++;
                open.push_back(v);
            }
            if (at[v] < next.start[v + 1]) {
                const int w = next.node[at[v]++];
                if (order[w] < 0)
                    path.push_back(w);
                else if (component[w] < 0)
                    low[v] = std::min(low[v], order[w]);
                continue;
            }
            path.pop_back();
            if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[v]);
            if (low[v] < order[v]) continue;
            for (int w = -1; w != v; open.pop_back()) {
                w = open.back();
                component[w] = n_components;
            }
            n_components++;
        }
    }
    return component;
}

template <class T>
class Groups {
   public:
    Groups(const LengthGraph& graph, const std::vector<int>& members, int size, int root)
        : members_(members), size_(size), root_(root) {
        component_ = joined_at_zero(graph, n_);
        std::vector<char> passing(n_, false);
        for (std::size_t v = 0; v < component_.size(); v++) passing[component_[v]] = graph.passing[v];
        std::vector<int> number(n_);  // what passes comes first, and rows end there
        for (int c = 0; c < n_; c++)
            if (passing[c]) number[c] = n_passing_++;
        for (int c = 0, others = n_passing_; c < n_; c++)
            if (!passing[c]) number[c] = others++;
        for (int& c : component_) c = number[c];
        std::vector<Arc<T>> within, out, in;
        for (std::size_t e = 0; e < graph.tail.size(); e++) {
            const int tail = component_[graph.tail[e]], head = component_[graph.head[e]];
            if (tail == head) continue;
            const T length = static_cast<T>(graph.length[e]);
            if (passes(tail) && passes(head)) {
                within.push_back({tail, head, length});
            } else {
                out.push_back({tail, head, length});
                in.push_back({head, tail, length});
            }
        }
        within_ = by_tail(n_, std::move(within));
        out_ = by_tail(n_, std::move(out));
        in_ = by_tail(n_, std::move(in));
        leads_on_.assign(n_passing_, false);
        for (int s = 0; s < n_passing_; s++)
            for (int a = within_.start[s]; a < within_.start[s + 1]; a++) leads_on_[s] = leads_on_[within_.node[a]] = true;
        only_.assign(n_passing_, nobody);
        kind_at_.assign(n_, -1);
        decide_cache();
    }

    Arborescences weigh(const Control& control) {
        const int n_groups = static_cast<int>(members_.size()) / size_;
        Arborescences found;
        for (int group = 0; group < n_groups; group++) {
            found.group = group;
            if (control.cancelled()) return found.status = Status::cancelled, found;
            control.progress(group, n_groups);
            gather(group);
            const std::int64_t k = static_cast<std::int64_t>(count_.size());
            if (k * k * static_cast<std::int64_t>(sizeof(T)) > most_table_bytes)
                return found.status = Status::violated, found;
            measure();
            if (!contract()) return found.status = Status::stuck, found;
            for (int place = 0; place < size_; place++)
                if (root_ < 0 || place == root_) found.weight.push_back(total_ - depth_[kind_of_[place]]);
        }
        found.group = -1;
        return found;
    }

   private:
    const std::vector<int>& members_;
    int size_, root_, n_ = 0, n_passing_ = 0;
    std::vector<int> component_;  // by node; the passing ones are numbered first
    Adjacent<T> within_, out_, in_;  // passing to passing; from and to nodes that do not pass
    std::vector<char> leads_on_;     // by what passes: something else that passes is next to it
    bool caches_ = false;
    std::vector<std::vector<T>> rows_;
    // of one group
    static constexpr int nobody = -1, several = -2;
    std::vector<int> only_, seen_;      // by what passes: the one member that is next to it; where that was written
    std::vector<int> kind_at_;          // by node that does not pass: its kind, while distances are measured
    std::vector<int> kind_of_, first_;  // by place; by kind, a member
    std::vector<std::int64_t> count_;   // by kind
    std::vector<T> cost_, self_;        // cost_[v * k + u]: from u to v; self_: between twins
    std::vector<T> depth_;
    T total_ = 0;

    bool passes(int c) const { return c < n_passing_; }
    int node(int place) const { return component_[members_[place]]; }

    template <class Visit>
    void each_entrance(int v, Visit visit) const {
        if (passes(v)) return visit(v, T(0));
        for (int a = out_.start[v]; a < out_.start[v + 1]; a++)
            if (passes(out_.node[a]) && only_[out_.node[a]] != v) visit(out_.node[a], out_.length[a]);
    }

    // Rows are kept where several members enter at the same nodes and there is room for them.
    void decide_cache() {
        std::vector<char> seen(n_passing_, false);
        std::int64_t uses = 0, rows = 0;
        for (std::size_t i = 0; i < members_.size(); i++)
            each_entrance(node(static_cast<int>(i)), [&](int s, T) {
                uses++;
                rows += !seen[s];
                seen[s] = true;
            });
        caches_ = rows < uses && rows * n_passing_ * static_cast<std::int64_t>(sizeof(T)) <= most_row_bytes;
        if (caches_) rows_.resize(n_passing_);
    }

    // Kinds of twins among the members of a group: of one component, or with the same arcs, none of which joins them to a
    // node that does not pass.
    void gather(int group) {
        find_dead_ends(group);
        kind_of_.clear(), first_.clear(), count_.clear();
        std::map<std::vector<std::pair<int, T>>, int> known;
        for (int place = 0; place < size_; place++) {
            const int v = node(group * size_ + place);
            std::vector<std::pair<int, T>> key{{passes(v) ? v : -1, 0}};
            bool alone = place == root_;
            for (const Adjacent<T>* side : {&out_, &in_}) {
                if (passes(v)) break;
                for (int a = side->start[v]; a < side->start[v + 1]; a++) {
                    const int next = side->node[a];
                    alone |= !passes(next);
                    if (!passes(next) || only_[next] != v) key.push_back({next, side->length[a]});
                }
                key.push_back({-1, 0});
            }
            if (alone) key.push_back({-2, static_cast<T>(place)});
            const auto [entry, fresh] = known.emplace(std::move(key), static_cast<int>(first_.size()));
            if (fresh) first_.push_back(v), count_.push_back(0);
            kind_of_.push_back(entry->second);
            count_[entry->second]++;
        }
    }

    void find_dead_ends(int group) {
        for (int s : seen_) only_[s] = nobody;
        seen_.clear();
        const auto meet = [&](int s, int v) {
            if (only_[s] == nobody) seen_.push_back(s);
            only_[s] = only_[s] == nobody && !leads_on_[s] && s != v ? v : only_[s] == v ? v : several;
        };
        for (int place = 0; place < size_; place++) {
            const int v = node(group * size_ + place);
            if (passes(v)) meet(v, v);
            for (const Adjacent<T>* side : {&out_, &in_})
                for (int a = side->start[v]; a < side->start[v + 1]; a++)
                    if (!passes(v) && passes(side->node[a])) meet(side->node[a], v);
        }
    }

    // Distances from some nodes, each with a head start, to all that paths may pass.
    std::vector<T> spread(const std::vector<std::pair<T, int>>& starts) const {
        std::vector<T> distance(n_passing_, far<T>);
        std::priority_queue<std::pair<T, int>, std::vector<std::pair<T, int>>, std::greater<>> open;
        for (const auto& [length, s] : starts)
            if (length < distance[s]) open.push({distance[s] = length, s});
        while (!open.empty()) {
            const auto [length, v] = open.top();
            open.pop();
            if (length > distance[v]) continue;
            for (int a = within_.start[v]; a < within_.start[v + 1]; a++) {
                const T reached = length + within_.length[a];
                if (reached < distance[within_.node[a]]) open.push({distance[within_.node[a]] = reached, within_.node[a]});
            }
        }
        return distance;
    }

    // All distances between kinds of the group at hand.
    void measure() {
        const int k = static_cast<int>(first_.size());
        cost_.assign(static_cast<std::size_t>(k) * k, far<T>);
        self_.assign(k, far<T>);
        std::vector<int> exits;
        std::vector<char> is_exit(n_passing_, false);
        for (int v = 0; v < k; v++) {
            if (!passes(first_[v])) kind_at_[first_[v]] = v;
            each_exit(first_[v], [&](int t, T) {
                if (!is_exit[t]) exits.push_back(t);
                is_exit[t] = true;
            });
        }
        std::vector<T> reach(n_passing_, far<T>);
        for (int u = 0; u < k; u++) {
            reach_from(first_[u], exits, reach);
            for (int v = 0; v < k; v++) {
                T least = far<T>;
                each_exit(first_[v], [&](int t, T length) { least = std::min(least, reach[t] + length); });
                if (u != v)
                    cost_[static_cast<std::size_t>(v) * k + u] = least;
                else if (count_[u] > 1)
                    self_[u] = passes(first_[u]) ? 0 : least;
            }
            if (passes(first_[u])) continue;
            for (int a = out_.start[first_[u]]; a < out_.start[first_[u] + 1]; a++) {
                const int v = kind_at_[out_.node[a]];
                if (v < 0) continue;
                T& cost = cost_[static_cast<std::size_t>(v) * k + u];
                cost = std::min(cost, out_.length[a]);
            }
        }
        for (int v : first_) kind_at_[v] = -1;
        for (T& cost : cost_) cost = std::min(cost, far<T>);
        // what enters the root costs nothing: then it joins up as soon as the root reaches all, at the same weight
        if (root_ >= 0)
            for (int u = 0; u < k; u++) cost_[static_cast<std::size_t>(kind_of_[root_]) * k + u] = 0;
    }

    template <class Visit>
    void each_exit(int v, Visit visit) const {
        if (passes(v)) return visit(v, T(0));
        for (int a = in_.start[v]; a < in_.start[v + 1]; a++)
            if (passes(in_.node[a]) && only_[in_.node[a]] != v) visit(in_.node[a], in_.length[a]);
    }

    // Writes the distances from a member to the exits.
    void reach_from(int v, const std::vector<int>& exits, std::vector<T>& reach) {
        if (!caches_) {
            std::vector<std::pair<T, int>> starts;
            each_entrance(v, [&](int s, T length) { starts.push_back({length, s}); });
            reach = spread(starts);
            return;
        }
        for (int t : exits) reach[t] = far<T>;
        each_entrance(v, [&](int s, T length) {
            if (rows_[s].empty()) rows_[s] = spread({{T(0), s}});
            for (int t : exits) reach[t] = std::min(reach[t], rows_[s][t] + length);
        });
    }

    // Sets total_ and depth_; false if some members are not reached from others.
    bool contract() {
        const int k = static_cast<int>(first_.size());
        std::vector<int> alive(k), path{0}, place(k, -1), set(k), above(k, -1), merged;
        std::vector<T> raised(k, 0), taken(k, 0);  // y by set; what a row's costs are lower by
        std::vector<char> split(k);                // twins that nothing has joined yet
        for (int v = 0; v < k; v++) alive[v] = set[v] = v, split[v] = count_[v] > 1;
        const auto new_set = [&](int v) {
            raised.push_back(0), above.push_back(-1);
            above[set[v]] = static_cast<int>(above.size()) - 1;
        };
        total_ = 0;
        place[0] = 0;
        while (alive.size() > 1 || split[alive[0]]) {
            const int v = path.back();
            T* row = &cost_[static_cast<std::size_t>(v) * k];
            T least = far<T>;
            int from = -1;
            for (int u : alive)
                if (u != v && row[u] < least) least = row[u], from = u;
            const bool joins = split[v] && self_[v] <= least;
            if (joins) least = self_[v];
            if (least >= far<T>) return false;
            raised[set[v]] = least - taken[v];
            total_ += raised[set[v]] * static_cast<T>(split[v] ? count_[v] : 1);
            taken[v] = least;
            if (joins) {
                split[v] = false;
                new_set(v);
                set[v] = above[set[v]];
                continue;
            }
            if (place[from] < 0) {
                place[from] = static_cast<int>(path.size());
                path.push_back(from);
                continue;
            }
            merged.assign(path.begin() + place[from], path.end());
            path.resize(place[from] + 1);
            merge(merged, alive, taken);
            new_set(from);
            const int whole = above[set[from]];
            for (int w : merged) above[set[w]] = whole, split[w] = false, place[w] = -1;
            set[from] = whole;
            place[from] = static_cast<int>(path.size()) - 1;
        }
        depth_.assign(k, 0);
        for (int s = static_cast<int>(above.size()) - 1; s >= 0; s--)
            if (above[s] >= 0) raised[s] += raised[above[s]];  // sets come after what they hold
        for (int v = 0; v < k; v++) depth_[v] = raised[v];
        return true;
    }

    // Makes the first of some rows and columns stand for all of them.
    void merge(const std::vector<int>& merged, std::vector<int>& alive, std::vector<T>& taken) {
        const std::size_t k = first_.size();
        const int whole = merged[0];
        std::vector<char> gone(k, false);
        for (std::size_t i = 1; i < merged.size(); i++) gone[merged[i]] = true;
        alive.erase(std::remove_if(alive.begin(), alive.end(), [&](int v) { return gone[v]; }), alive.end());
        T* into = &cost_[whole * k];
        for (int u : alive) {
            if (into[u] < far<T>) into[u] -= taken[whole];
            T* out = &cost_[u * k];
            for (std::size_t i = 1; i < merged.size(); i++) {
                const T cost = cost_[merged[i] * k + u];
                if (cost < far<T>) into[u] = std::min(into[u], cost - taken[merged[i]]);
                out[whole] = std::min(out[whole], out[merged[i]]);
            }
        }
        taken[whole] = 0;
    }
};

}  // namespace

Arborescences group_arborescences(const LengthGraph& graph, const std::vector<int>& members, int size, int root,
                                  const Control& control) {
    __int128 bound = 0;
    for (__int128 length : graph.length) bound += length;
    if (bound < (static_cast<__int128>(1) << 60) / size)
        return Groups<std::int64_t>(graph, members, size, root).weigh(control);
    return Groups<__int128>(graph, members, size, root).weigh(control);
}

}  // namespace treadle
