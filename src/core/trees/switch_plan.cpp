// Step 2 of the removal of switches (docs/proofs/forestcoll.md): which units that arrive at a switch go on as which
// that leave it. Any pairing keeps all loads; one that spreads the units of every origin evenly over all destinations
// seldom violates a cut, since the switch itself could have sent them anywhere. So units are exchanged between groups of
// nodes, from the coarsest grouping to the finest, each time in proportion to what both groups have: the matrix of
// amounts between groups comes by iterative proportional fitting (Deming and Stephan, 1940; Sinkhorn, 1967) with a zero
// diagonal, then rounding. The plan is only a guess: the splitter checks condition C and mends what it violates.
#include "trees/switch_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace treadle {
namespace {

using Cap = std::int64_t;

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

// An integer matrix with row sums <= a, column sums <= b and zero diagonal, as even as can be: proportional
// fitting, rounded down, then filled up along the circulant diagonals and by exchanges around the diagonal.
std::vector<Cap> even_exchange(std::vector<Cap> a, std::vector<Cap> b) {
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

// Share `left` units among the pairs of two groups, members taking turns.
void assign_units(Side& from, int g, Side& to, int h, Cap left, SwitchPlan& plan, const std::set<NodePair>& forbidden) {
    if (left == 0) return;
    const std::size_t rows = from.members[g].size(), columns = to.members[h].size();
    const Cap chunk = std::max<Cap>(1, left / static_cast<Cap>(std::max(rows, columns)));
    std::size_t idle = 0;
    while (left > 0 && idle < rows * columns + rows + columns) {
        int i = from.current(g), j = to.current(h);
        const NodePair pair{from.ports.node[i], to.ports.node[j]};
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

// Pair units of different groups as evenly as can be; what does not fit stays in the ports.
template <class GroupOf>
void exchange(Ports& rows, Ports& columns, GroupOf group_of, SwitchPlan& plan, const std::set<NodePair>& forbidden) {
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
            assign_units(from, g, to, h, amount[static_cast<std::size_t>(g) * n + h], plan, forbidden);
        }
}

}  // namespace

// What is still left in the end pairs a node with itself and is lost; the check of condition C judges whether it may be.
SwitchPlan plan_switch(Ports arriving, Ports leaving, const std::vector<char>& is_compute,
                       const std::vector<int>& group, const std::set<NodePair>& forbidden) {
    SwitchPlan plan;
    exchange(arriving, leaving, [&](int v) { return is_compute[v] ? 0 : 1; }, plan, forbidden);  // hosts, switches
    exchange(arriving, leaving, [&](int v) { return group[v]; }, plan, forbidden);               // boxes, pods
    exchange(arriving, leaving, [](int v) { return v; }, plan, forbidden);
    for (std::size_t i = 0; i < arriving.node.size(); i++)
        for (std::size_t j = 0; j < leaving.node.size(); j++) {
            const Cap amount = std::min(arriving.units[i], leaving.units[j]);
            if (amount == 0 || forbidden.count({arriving.node[i], leaving.node[j]})) continue;
            plan[{arriving.node[i], leaving.node[j]}] += amount;
            arriving.units[i] -= amount;
            leaving.units[j] -= amount;
        }
    return plan;
}

}  // namespace treadle
