#include "search/plan_moves.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace treadle {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
// Relative gain of a move worth making: less may be rounding, and go round in circles.
constexpr double least_gain = 1e-9;

struct Merit {
    double value = infinite;
    double excess = infinite;
};

class Moves {
public:
    Moves(const PairTables& tables, const Domains& left, const MinimaxForms& forms, double price,
          std::vector<std::int32_t>& label)
        : g(tables), domains(left), aim(forms), price(price), label(label), at(g.n_nodes), largest(aim.weight.size()) {
        start.assign(g.n_nodes + 1, 0);
        for (std::size_t v = 0; v < g.n_nodes; v++) start[v + 1] = start[v] + static_cast<std::size_t>(g.n_states[v]);
        first.assign(g.n_edges + 1, 0);
        for (std::size_t t = 0; t < g.amount.size(); t++) first[static_cast<std::size_t>(g.edge[t]) + 1] = t + 1;
        for (std::size_t e = 0; e < g.n_edges; e++) {
            first[e + 1] = std::max(first[e + 1], first[e]);
            at[static_cast<std::size_t>(g.tail[e])].push_back(e);
            at[static_cast<std::size_t>(g.head[e])].push_back(e);
        }
    }

    bool sweep() {
        bool changed = false;
        amounts.assign(g.n_quantities, 0.0);  // anew in each sweep: differences pile up rounding
        for (std::size_t v = 0; v < g.n_nodes; v++) add_node(amounts, v);
        for (std::size_t e = 0; e < g.n_edges; e++) add_edge(amounts, e, 1.0);
        for (std::size_t v = 0; v < g.n_nodes; v++) changed = states(v) > 1 && move(v) ? true : changed;
        return changed;
    }

private:
    std::size_t states(std::size_t v) const { return domains.size(v); }
    std::size_t chosen(std::size_t v) const { return static_cast<std::size_t>(domains.of(v)[label[v]]); }

    // Of the states of both ends in an edge's tables.
    std::size_t entry(std::size_t e) const {
        const auto u = static_cast<std::size_t>(g.tail[e]), v = static_cast<std::size_t>(g.head[e]);
        return chosen(u) * static_cast<std::size_t>(g.n_states[v]) + chosen(v);
    }

    void add_node(std::vector<double>& total, std::size_t v, double times = 1.0) const {
        const double* row = g.unary + (start[v] + chosen(v)) * g.n_quantities;
        for (std::size_t q = 0; q < g.n_quantities; q++) total[q] += times * row[q];
    }

    void add_edge(std::vector<double>& total, std::size_t e, double times) const {
        const std::size_t place = entry(e);
        for (std::size_t t = first[e]; t < first[e + 1]; t++) {
            const double amount = times * g.amount[t][place];
            for (std::int32_t q = g.start[t]; q < g.start[t + 1]; q++)
                total[static_cast<std::size_t>(g.quantity[q])] += amount;
        }
    }

    // What a plan costs with a node in another state; infinite where that is forbidden.
    Merit merit_of(std::size_t v, std::int32_t state, const std::vector<double>& without) {
        label[v] = state;
        total = without;
        add_node(total, v);
        for (std::size_t e : at[v]) {
            if (g.banned[e] != nullptr && g.banned[e][entry(e)]) return {};
            add_edge(total, e, 1.0);
        }
        Merit found{0.0, 0.0};
        std::fill(largest.begin(), largest.end(), -infinite);
        for (std::size_t f = 0; f < aim.n_forms; f++) {
            const bool is_limited = aim.limited[f] && aim.limit < infinite;
            if (aim.group[f] < 0 && !is_limited) continue;
            double amount = 0.0;
            for (auto i = aim.start[f]; i < aim.start[f + 1]; i++)
                amount += aim.coefficient[i] * total[static_cast<std::size_t>(aim.quantity[i])];
            if (is_limited) found.excess = std::max(found.excess, amount - aim.limit);
            if (aim.group[f] >= 0) {
                double& most = largest[static_cast<std::size_t>(aim.group[f])];
                most = std::max(most, amount);
            }
        }
        for (std::size_t i = 0; i < largest.size(); i++) found.value += aim.weight[i] * largest[i];
        return found;
    }

    bool is_better(const Merit& one, const Merit& other) const {
        if (std::isfinite(price)) return one.value + price * one.excess < other.value + price * other.excess;
        return one.excess < other.excess || (one.excess == other.excess && one.value < other.value);
    }

    bool is_worth(const Merit& best, const Merit& old) const {
        if (std::isfinite(price)) return best.value + price * best.excess < (old.value + price * old.excess) * (1 - least_gain);
        if (best.excess < old.excess * (1 - least_gain)) return true;
        return best.excess <= old.excess && best.value < old.value * (1 - least_gain);
    }

    bool move(std::size_t v) {
        const std::int32_t old = label[v];
        std::vector<double> without = amounts;
        add_node(without, v, -1.0);
        for (std::size_t e : at[v]) add_edge(without, e, -1.0);
        const Merit now = merit_of(v, old, without);
        Merit best = now;
        std::int32_t to = old;
        for (std::int32_t state = 0; state < static_cast<std::int32_t>(states(v)); state++) {
            const Merit found = merit_of(v, state, without);
            if (is_better(found, best)) {
                best = found;
                to = state;
            }
        }
        if (to == old || !is_worth(best, now)) {
            label[v] = old;
            return false;
        }
        merit_of(v, to, without);  // leaves the label and the amounts
        amounts = total;
        return true;
    }

    const PairTables& g;
    const Domains& domains;
    const MinimaxForms& aim;
    double price;
    std::vector<std::int32_t>& label;
    std::vector<std::vector<std::size_t>> at;
    std::vector<std::size_t> start, first;  // states by node, tables by edge
    std::vector<double> amounts, total, largest;
};

}  // namespace

void improve_plan(const PairTables& tables, const Domains& domains, const MinimaxForms& forms, double price,
                  int most_sweeps, std::vector<std::int32_t>& label) {
    Moves moves(tables, domains, forms, price, label);
    for (int sweep = 0; sweep < most_sweeps; sweep++)
        if (!moves.sweep()) return;
}

}  // namespace treadle
