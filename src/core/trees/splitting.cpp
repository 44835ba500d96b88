#include "trees/splitting.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "trees/residual.hpp"

namespace treadle {
namespace {

using Cap = std::int64_t;
using Pair = std::pair<int, int>;
using Plan = std::map<Pair, Cap>;  // (u, t) -> units of u->w, w->t to be replaced by u->t

struct Segment {
    int path;
    Cap units;
};

struct Arc {
    Cap capacity = 0;
    std::vector<Segment> segments;
    std::size_t next = 0;  // segments before this one are used up
};

// A path is a link or two paths one after the other.
struct PathNode {
    int link, left, right;
};

// Units of a switch that wait for a partner: rows arrive at it, columns leave it.
struct Ports {
    std::vector<int> node;
    std::vector<Cap> units;
};

class Splitter {
   public:
    Splitter(const Fabric& fabric, const Control& control, std::int64_t mend_limit)
        : fabric_(fabric), control_(control), mend_limit_(mend_limit) {
        out_.resize(fabric.n_nodes);
        in_.resize(fabric.n_nodes);
        is_compute_.assign(fabric.n_nodes, 0);
        for (int v : fabric.compute) is_compute_[v] = 1;
        for (std::size_t e = 0; e < fabric.tail.size(); e++) {
            if (fabric.tail[e] == fabric.head[e] || fabric.capacity[e] == 0) continue;
            paths_.push_back({static_cast<int>(e), -1, -1});
            add(fabric.tail[e], fabric.head[e], {static_cast<int>(paths_.size()) - 1, fabric.capacity[e]});
        }
        order_switches();
    }

    Status run(LogicalGraph& result) {
        std::size_t at = 0;
        while (at < order_.size()) {
            std::vector<int> batch = next_batch(at);
            Status status = remove_batch(batch);
            if (status != Status::ok) return status;
            control_.progress(static_cast<Cap>(at), static_cast<Cap>(order_.size()));
        }
        write(result);
        return Status::ok;
    }

   private:
    const Fabric& fabric_;
    const Control& control_;
    const std::int64_t mend_limit_;
    std::vector<std::map<int, Arc>> out_;
    std::vector<std::set<int>> in_;
    std::vector<char> is_compute_;
    std::vector<PathNode> paths_;
    std::vector<int> order_;                   // switches, first to be removed first
    std::vector<std::pair<Cap, Cap>> rank_of_;  // sort key of every switch
    std::int64_t repairs_ = 0, exact_ = 0;

    void add(int tail, int head, Segment segment) {
        Arc& arc = out_[tail][head];
        in_[head].insert(tail);
        arc.capacity += segment.units;
        arc.segments.push_back(segment);
    }

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
            for (const auto& [t, arc] : out_[w]) adjacent |= arc.capacity > 0 && chosen.count(t);
            for (int u : in_[w]) adjacent |= chosen.count(u) > 0;
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

    Ports arriving(int w) const {
        Ports ports;
        for (int u : in_[w]) {
            Cap units = out_[u].at(w).capacity;
            if (units > 0) ports.node.push_back(u), ports.units.push_back(units);
        }
        return ports;
    }

    Ports leaving(int w) const {
        Ports ports;
        for (const auto& [t, arc] : out_[w])
            if (arc.capacity > 0) ports.node.push_back(t), ports.units.push_back(arc.capacity);
        return ports;
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

    // Pair arriving with leaving units evenly: hosts with switches first, then across neighbourhoods, then anyhow.
    // What is still left pairs a node with itself and is lost; the check of condition C judges whether it may be.
    Plan plan_switch(int w, const std::vector<int>& group, const std::set<Pair>& forbidden = {}) const {
        Plan plan;
        Ports rows = arriving(w), columns = leaving(w);
        exchange(rows, columns, [&](int v) { return is_compute_[v] ? 0 : 1; }, plan, forbidden);
        exchange(rows, columns, [&](int v) { return group[v]; }, plan, forbidden);
        exchange(rows, columns, [&](int v) { return v; }, plan, forbidden);
        for (std::size_t i = 0; i < rows.node.size(); i++)
            for (std::size_t j = 0; j < columns.node.size(); j++) {
                Cap amount = std::min(rows.units[i], columns.units[j]);
                if (amount == 0 || forbidden.count({rows.node[i], columns.node[j]})) continue;
                plan[{rows.node[i], columns.node[j]}] += amount;
                rows.units[i] -= amount;
                columns.units[j] -= amount;
            }
        return plan;
    }

    // One side of an exchange: the members of every group, their units in all, and whose turn it is.
    struct Side {
        Ports& ports;
        std::vector<std::vector<int>> members;
        std::vector<Cap> units;
        std::vector<std::size_t> turn;

        template <class NumberOf>
        Side(Ports& ports, int n_groups, NumberOf number_of)
            : ports(ports), members(n_groups), units(n_groups, 0), turn(n_groups, 0) {
            for (std::size_t i = 0; i < ports.node.size(); i++) {
                int group = number_of(ports.node[i]);
                members[group].push_back(static_cast<int>(i));
                units[group] += ports.units[i];
            }
        }
        int current(int group) const { return members[group][turn[group]]; }
        void advance(int group) { turn[group] = (turn[group] + 1) % members[group].size(); }
    };

    // Pair units of different groups as evenly as can be; what does not fit stays in the ports.
    template <class GroupOf>
    static void exchange(Ports& rows, Ports& columns, GroupOf group_of, Plan& plan, const std::set<Pair>& forbidden) {
        std::map<int, int> index;
        for (int v : rows.node) index.emplace(group_of(v), 0);
        for (int v : columns.node) index.emplace(group_of(v), 0);
        int n = 0;
        for (auto& [key, number] : index) number = n++;
        if (n < 2) return;
        auto number_of = [&](int v) { return index[group_of(v)]; };
        Side from(rows, n, number_of), to(columns, n, number_of);
        std::vector<Cap> amount = even_exchange(from.units, to.units);
        for (int d = 1; d < n; d++)
            for (int g = 0; g < n; g++) {
                int h = (g + d) % n;
                deal_out(from, g, to, h, amount[static_cast<std::size_t>(g) * n + h], plan, forbidden);
            }
    }

    // Share `left` units among the pairs of two groups, members taking turns.
    static void deal_out(Side& from, int g, Side& to, int h, Cap left, Plan& plan, const std::set<Pair>& forbidden) {
        if (left == 0) return;
        const std::size_t rows = from.members[g].size(), columns = to.members[h].size();
        const Cap chunk = std::max<Cap>(1, left / static_cast<Cap>(std::max(rows, columns)));
        std::size_t idle = 0;
        while (left > 0 && idle < rows * columns + rows + columns) {
            int i = from.current(g), j = to.current(h);
            Pair pair{from.ports.node[i], to.ports.node[j]};
            Cap units = std::min({left, chunk, from.ports.units[i], to.ports.units[j]});
            if (units == 0 || forbidden.count(pair)) {
                idle++;
                if (from.ports.units[i] == 0) {
                    from.advance(g);
                    continue;
                }
                to.advance(h);
                // all columns were forbidden or empty for this row: let the next row try
                if (to.ports.units[j] > 0 && to.turn[h] == 0) from.advance(g);
                continue;
            }
            plan[pair] += units;
            from.ports.units[i] -= units;
            to.ports.units[j] -= units;
            left -= units;
            idle = 0;
            from.advance(g);
            to.advance(h);
        }
    }

    // An integer matrix with row sums <= a, column sums <= b and zero diagonal, as even as can be: proportional
    // fitting, rounded down, then filled up along the circulant diagonals and by exchanges around the diagonal.
    static std::vector<Cap> even_exchange(std::vector<Cap> a, std::vector<Cap> b) {
        const std::size_t n = a.size();
        std::vector<Cap> amount(n * n, 0);
        std::vector<double> row(a.begin(), a.end()), column(b.begin(), b.end());
        for (int round = 0; round < 40; round++) {
            double total = std::accumulate(column.begin(), column.end(), 0.0);
            for (std::size_t g = 0; g < n; g++)
                row[g] = total - column[g] > 0 ? static_cast<double>(a[g]) / (total - column[g]) : 0;
            total = std::accumulate(row.begin(), row.end(), 0.0);
            double change = 0;
            for (std::size_t h = 0; h < n; h++) {
                double next = total - row[h] > 0 ? static_cast<double>(b[h]) / (total - row[h]) : 0;
                change = std::max(change, std::abs(next - column[h]) / (next + 1e-300));
                column[h] = next;
            }
            if (change < 1e-12) break;
        }
        for (std::size_t g = 0; g < n; g++)
            for (std::size_t h = 0; h < n; h++) {
                if (g == h) continue;
                // 1e-9: an integral product may fall just short of its value. Where fitting diverges, because one
                // side outweighs all others, the product may be beyond every integer.
                const double share = row[g] * column[h] * (1 + 1e-9);
                const Cap most = std::min(a[g], b[h]);
                const Cap units = share < static_cast<double>(most) ? static_cast<Cap>(share) : most;
                amount[g * n + h] = units;
                a[g] -= units;
                b[h] -= units;
            }
        for (bool any = true; any;) {
            any = false;
            for (std::size_t d = 1; d < n; d++)
                for (std::size_t g = 0; g < n; g++) {
                    std::size_t h = (g + d) % n;
                    if (a[g] == 0 || b[h] == 0) continue;
                    amount[g * n + h]++, a[g]--, b[h]--;
                    any = true;
                }
            // after the first even rounds, what is left may be large: give it out in bulk
            for (std::size_t g = 0; g < n; g++)
                for (std::size_t h = 0; any && h < n; h++) {
                    Cap units = g == h ? 0 : std::min(a[g], b[h]) / static_cast<Cap>(n);
                    amount[g * n + h] += units, a[g] -= units, b[h] -= units;
                }
        }
        for (std::size_t g = 0; g < n; g++)
            for (std::size_t x = 0; x < n && a[g] > 0 && b[g] > 0; x++)
                for (std::size_t y = 0; y < n && a[g] > 0 && b[g] > 0; y++) {
                    if (x == g || y == g || x == y) continue;
                    Cap units = std::min({amount[x * n + y], a[g], b[g]});
                    amount[x * n + y] -= units, amount[g * n + y] += units, amount[x * n + g] += units;
                    a[g] -= units, b[g] -= units;
                }
        return amount;
    }

    // First failing sink of the graph in which the plans have been carried out, or -1.
    int check(const std::map<int, Plan>& plans, bool whole, int first, std::vector<char>& cut) const {
        std::vector<CapacityArc<Cap>> arcs;
        for (int u = 0; u < fabric_.n_nodes; u++) {
            bool gone = whole && plans.count(u);
            for (const auto& [t, arc] : out_[u])
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

    Cap deficit(const std::map<int, Plan>& plans, bool whole, const std::vector<char>& cut) const {
        Cap need = 0;
        for (std::size_t i = 0; i < fabric_.compute.size(); i++)
            if (cut[fabric_.compute[i]]) need += fabric_.root[i];
        for (int u = 0; u < fabric_.n_nodes; u++) {
            if (!cut[u] || (whole && plans.count(u))) continue;
            for (const auto& [t, arc] : out_[u])
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
    static Cap mend(Plan& plan, const std::vector<char>& cut, Cap wanted) {
        std::vector<Pair> inside, outside;
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
                Pair p = inside[i % inside.size()], q = outside[j % outside.size()];
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
    bool mend_all(std::map<int, Plan>& plans, std::int64_t limit, Status& status) {
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
            repairs_++;
            first = failed;
        }
    }

    Status remove_batch(const std::vector<int>& batch) {
        std::map<int, Plan> plans;
        std::vector<int> group = neighbourhoods(batch.front());
        for (int w : batch) plans[w] = plan_switch(w, group);
        Status status = Status::ok;
        if (mend_all(plans, 200 + 2 * static_cast<std::int64_t>(batch.size()), status)) {
            for (int w : batch) apply(w, plans[w]);
            return Status::ok;
        }
        if (status != Status::ok) return status;
        for (int w : batch) {
            std::map<int, Plan> one;
            one[w] = plan_switch(w, group);
            if (batch.size() > 1 && mend_all(one, 50, status)) {
                apply(w, one[w]);
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
        std::set<Pair> exhausted;
        std::vector<char> cut;
        while (arriving(w).node.size() > 0) {
            if (control_.cancelled()) return Status::cancelled;
            Plan plan = plan_switch(w, group, exhausted);
            std::vector<std::pair<Pair, Cap>> steps(plan.begin(), plan.end());
            std::size_t safe = 0, unsafe = steps.size() + 1;
            while (unsafe - safe > 1) {
                std::size_t middle = unsafe == steps.size() + 1 && safe == 0 ? steps.size() : (safe + unsafe) / 2;
                std::map<int, Plan> prefix;
                prefix[w] = Plan(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(middle));
                (check(prefix, false, 0, cut) < 0 ? safe : unsafe) = middle;
            }
            apply(w, Plan(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(safe)));
            if (safe == steps.size()) {
                if (arriving(w).node.size() > 0) return Status::stuck;
                break;
            }
            auto [pair, units] = steps[safe];
            apply(w, {{pair, amount(w, pair, units)}});
            exhausted.insert(pair);
            exact_++;
        }
        return Status::ok;
    }

   public:
    // Newton on the violated cuts: splitting one unit less gains exactly one unit on each of them.
    Cap amount(int w, Pair pair, Cap units) const {
        std::vector<char> cut;
        int first = 0;
        while (units > 0) {
            std::map<int, Plan> one{{w, {{pair, units}}}};
            int failed = check(one, false, first, cut);
            if (failed < 0) break;
            first = failed;
            units = std::max<Cap>(0, units - deficit(one, false, cut));
        }
        return units;
    }

   private:
    void apply(int w, const Plan& plan) {
        for (const auto& [pair, units] : plan) {
            Arc &in = out_[pair.first][w], &out = out_[w][pair.second];
            in.capacity -= units;
            out.capacity -= units;
            for (Cap left = units; left > 0;) {
                Segment &a = in.segments[in.next], &b = out.segments[out.next];
                Cap piece = std::min({left, a.units, b.units});
                if (pair.first != pair.second) {
                    paths_.push_back({-1, a.path, b.path});
                    add(pair.first, pair.second, {static_cast<int>(paths_.size()) - 1, piece});
                }
                a.units -= piece, b.units -= piece, left -= piece;
                if (a.units == 0) in.next++;
                if (b.units == 0) out.next++;
            }
        }
    }

    // The links of a path in order; a piece that comes back to a node it has passed is left out.
    void append_links(int path, std::vector<int>& links, std::vector<int>& place) const {
        const std::size_t begin = links.size();
        std::vector<int> stack{path};
        while (!stack.empty()) {
            PathNode node = paths_[stack.back()];
            stack.pop_back();
            if (node.link < 0) {
                stack.push_back(node.right), stack.push_back(node.left);
                continue;
            }
            int head = fabric_.head[node.link];
            if (place[head] < 0) {
                links.push_back(node.link);
                place[head] = static_cast<int>(links.size() - begin);
                continue;
            }
            while (links.size() > begin + place[head]) {
                place[fabric_.head[links.back()]] = -1;
                links.pop_back();
            }
            place[head] = static_cast<int>(links.size() - begin);
        }
        for (std::size_t i = begin; i < links.size(); i++) place[fabric_.head[links[i]]] = -1;
    }

    void write(LogicalGraph& result) const {
        std::vector<int> place(fabric_.n_nodes, -1);
        for (int u = 0; u < fabric_.n_nodes; u++)
            for (const auto& [t, arc] : out_[u]) {
                if (arc.capacity == 0) continue;
                result.tail.push_back(u);
                result.head.push_back(t);
                result.capacity.push_back(arc.capacity);
                for (std::size_t i = arc.next; i < arc.segments.size(); i++) {
                    result.segment_path.push_back(static_cast<int>(result.path_offset.size()) - 1);
                    result.segment_units.push_back(arc.segments[i].units);
                    append_links(arc.segments[i].path, result.path_links, place);
                    result.path_offset.push_back(static_cast<Cap>(result.path_links.size()));
                }
                result.segment_offset.push_back(static_cast<Cap>(result.segment_path.size()));
            }
        result.repairs = repairs_;
        result.exact = exact_;
    }
};

}  // namespace

Status remove_switches(const Fabric& fabric, const Control& control, std::int64_t mend_limit, LogicalGraph& result) {
    return Splitter(fabric, control, mend_limit).run(result);
}

std::int64_t splittable_amount(const Fabric& fabric, int u, int w, int t) {
    Control none;
    Cap in = 0, out = 0;
    for (std::size_t e = 0; e < fabric.tail.size(); e++) {
        if (fabric.tail[e] == u && fabric.head[e] == w) in += fabric.capacity[e];
        if (fabric.tail[e] == w && fabric.head[e] == t) out += fabric.capacity[e];
    }
    return Splitter(fabric, none, -1).amount(w, {u, t}, std::min(in, out));
}

}  // namespace treadle
