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
    Moves(const PairTables& tables, const MinimaxForms& forms, double price, std::vector<std::int32_t>& label)
        : g(tables), aim(forms), price(price), label(label), at(g.n_nodes), largest(aim.weight.size()) {
        start.assign(g.n_nodes + 1, 0);
        for (std::size_t v = 0; v < g.n_nodes; v++) start[v + 1] = start[v] + states(v);
        std::size_t place = 0;
        for (std::size_t t = 0; t < g.n_tables; t++) {
            const auto u = static_cast<std::size_t>(g.tail[t]), v = static_cast<std::size_t>(g.head[t]);
            table_start.push_back(place);
            place += states(u) * states(v);
            at[u].push_back(t);
            at[v].push_back(t);
        }
    }

    bool sweep() {
        bool changed = false;
        amounts.assign(g.n_quantities, 0.0);  // anew in each sweep: differences pile up rounding
        for (std::size_t v = 0; v < g.n_nodes; v++) add(amounts, g.unary + (start[v] + chosen(v)) * g.n_quantities);
        for (std::size_t t = 0; t < g.n_tables; t++)
            if (g.quantity[t] >= 0) amounts[static_cast<std::size_t>(g.quantity[t])] += entry(t);
        for (std::size_t v = 0; v < g.n_nodes; v++) changed = states(v) > 1 && move(v) ? true : changed;
        return changed;
    }

private:
    std::size_t states(std::size_t v) const { return static_cast<std::size_t>(g.n_states[v]); }
    std::size_t chosen(std::size_t v) const { return static_cast<std::size_t>(label[v]); }

    double entry(std::size_t t) const {
        const auto u = static_cast<std::size_t>(g.tail[t]), v = static_cast<std::size_t>(g.head[t]);
        return g.amount[table_start[t] + chosen(u) * states(v) + chosen(v)];
    }

    void add(std::vector<double>& total, const double* row) const {
        for (std::size_t q = 0; q < g.n_quantities; q++) total[q] += row[q];
    }

    // What a plan costs with a node in another state; infinite where that is forbidden.
    Merit merit_of(std::size_t v, std::int32_t state, const std::vector<double>& without) {
        label[v] = state;
        total = without;
        add(total, g.unary + (start[v] + chosen(v)) * g.n_quantities);
        for (std::size_t t : at[v]) {
            if (g.quantity[t] >= 0)
                total[static_cast<std::size_t>(g.quantity[t])] += entry(t);
            else if (entry(t) != 0.0)
                return {};
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
        const double* row = g.unary + (start[v] + chosen(v)) * g.n_quantities;
        for (std::size_t q = 0; q < g.n_quantities; q++) without[q] -= row[q];
        for (std::size_t t : at[v])
            if (g.quantity[t] >= 0) without[static_cast<std::size_t>(g.quantity[t])] -= entry(t);
        const Merit now = merit_of(v, old, without);
        Merit best = now;
        std::int32_t to = old;
        for (std::int32_t state = 0; state < g.n_states[v]; state++) {
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
    const MinimaxForms& aim;
    double price;
    std::vector<std::int32_t>& label;
    std::vector<std::vector<std::size_t>> at;
    std::vector<std::size_t> start, table_start;
    std::vector<double> amounts, total, largest;
};

}  // namespace

void improve_plan(const PairTables& tables, const MinimaxForms& forms, double price, int most_sweeps,
                  std::vector<std::int32_t>& label) {
    Moves moves(tables, forms, price, label);
    for (int sweep = 0; sweep < most_sweeps; sweep++)
        if (!moves.sweep()) return;
}

}  // namespace treadle
