// Kolmogorov, "Convergent tree-reweighted message passing for energy minimization" (PAMI 2006), with messages in the
// form of "A new look at reweighted message passing" (PAMI 2015): an amount moved from an edge's table to one end.
#include "search/tree_reweighted.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace treadle {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr std::size_t lanes = 8;  // independent minima, so that the compiler may use vectors

class Passes {
public:
    Passes(const PairEnergies& energies, std::vector<double>& message) : g(energies), message(message) {
        node_start.assign(g.n_nodes + 1, 0);
        for (std::size_t v = 0; v < g.n_nodes; v++) node_start[v + 1] = node_start[v] + states(v);
        after.resize(g.n_nodes);
        before.resize(g.n_nodes);
        std::size_t pair = 0, sent = 0;
        for (std::size_t e = 0; e < g.n_edges; e++) {
            const auto u = static_cast<std::size_t>(g.tail[e]), v = static_cast<std::size_t>(g.head[e]);
            pair_start.push_back(pair);
            to_tail.push_back(sent);
            to_head.push_back(sent + states(u));
            pair += states(u) * states(v);
            sent += states(u) + states(v);
            after[u].push_back(e);
            before[v].push_back(e);
        }
        total.resize(largest_domain());
        label.resize(g.n_nodes);
        slack.resize(node_start.back());
    }

    double forward() {
        double sum = 0.0;
        for (std::size_t v = 0; v < g.n_nodes; v++) {
            for (std::size_t e : before[v]) send_to_head(e);
            double least = receive(v);
            for (std::size_t i = 0; i < states(v); i++) slack[node_start[v] + i] = total[i] - least;
            choose(v);
            if (!after[v].empty()) {
                share_out(v, least, after[v], to_tail);
                least = receive(v);
            }
            sum += least;
        }
        return sum;
    }

    double backward() {
        double sum = 0.0;
        for (std::size_t v = g.n_nodes; v-- > 0;) {
            for (std::size_t e : after[v]) send_to_tail(e);
            double least = receive(v);
            if (!before[v].empty()) {
                share_out(v, least, before[v], to_head);
                least = receive(v);
            }
            sum += least;
        }
        return sum;
    }

    double magnitude() const {
        double sum = 0.0;
        for (std::size_t e = 0; e < g.n_edges; e++) {
            sum += most(to_tail[e], states(static_cast<std::size_t>(g.tail[e])));
            sum += most(to_head[e], states(static_cast<std::size_t>(g.head[e])));
        }
        return sum;
    }

    std::vector<std::int32_t> label;
    std::vector<double> slack;

private:
    std::size_t states(std::size_t v) const { return static_cast<std::size_t>(g.n_states[v]); }

    std::size_t largest_domain() const {
        std::size_t most_states = 0;
        for (std::size_t v = 0; v < g.n_nodes; v++) most_states = std::max(most_states, states(v));
        return most_states;
    }

    double most(std::size_t start, std::size_t n) const {
        double found = 0.0;
        for (std::size_t i = 0; i < n; i++) found = std::max(found, std::fabs(message[start + i]));
        return found;
    }

    // Over the tail's states, of the table less what its tail got.
    void send_to_head(std::size_t e) {
        const std::size_t n = states(static_cast<std::size_t>(g.head[e]));
        const std::size_t rows = states(static_cast<std::size_t>(g.tail[e]));
        double* least = &message[to_head[e]];
        std::fill(least, least + n, infinite);
        const double* row = g.pair + pair_start[e];
        for (std::size_t i = 0; i < rows; i++, row += n) {
            const double taken = message[to_tail[e] + i];
            for (std::size_t j = 0; j < n; j++) {
                const double left = row[j] - taken;
                least[j] = left < least[j] ? left : least[j];
            }
        }
    }

    void send_to_tail(std::size_t e) {
        const std::size_t n = states(static_cast<std::size_t>(g.head[e]));
        const std::size_t rows = states(static_cast<std::size_t>(g.tail[e]));
        const double* taken = &message[to_head[e]];
        const double* row = g.pair + pair_start[e];
        for (std::size_t i = 0; i < rows; i++, row += n) {
            double least[lanes];
            std::fill(least, least + lanes, infinite);
            std::size_t j = 0;
            for (; j + lanes <= n; j += lanes)
                for (std::size_t lane = 0; lane < lanes; lane++) {
                    const double left = row[j + lane] - taken[j + lane];
                    least[lane] = left < least[lane] ? left : least[lane];
                }
            for (; j < n; j++) least[0] = std::min(least[0], row[j] - taken[j]);
            message[to_tail[e] + i] = *std::min_element(least, least + lanes);
        }
    }

    // What a node's states cost with all that was moved to them; the least of it.
    double receive(std::size_t v) {
        const std::size_t n = states(v);
        std::copy(g.unary + node_start[v], g.unary + node_start[v] + n, total.begin());
        for (std::size_t e : after[v])
            for (std::size_t i = 0; i < n; i++) total[i] += message[to_tail[e] + i];
        for (std::size_t e : before[v])
            for (std::size_t i = 0; i < n; i++) total[i] += message[to_head[e] + i];
        return *std::min_element(total.begin(), total.begin() + static_cast<std::ptrdiff_t>(n));
    }

    // What a node holds above its minimum goes back to edges in equal shares; the minimum stays, so that messages do
    // not carry the bound to and fro.
    void share_out(std::size_t v, double least, const std::vector<std::size_t>& edges, const std::vector<std::size_t>& start) {
        const double n_chains = static_cast<double>(std::max(after[v].size(), before[v].size()));
        for (std::size_t i = 0; i < states(v); i++) {
            const double share = (total[i] - least) / n_chains;
            for (std::size_t e : edges) message[start[e] + i] -= share;
        }
    }

    // The state that is best given those chosen before.
    void choose(std::size_t v) {
        const std::size_t n = states(v);
        choice.assign(g.unary + node_start[v], g.unary + node_start[v] + n);
        for (std::size_t e : after[v])
            for (std::size_t i = 0; i < n; i++) choice[i] += message[to_tail[e] + i];
        for (std::size_t e : before[v]) {
            const double* row = g.pair + pair_start[e] + static_cast<std::size_t>(label[static_cast<std::size_t>(g.tail[e])]) * n;
            for (std::size_t i = 0; i < n; i++) choice[i] += row[i];
        }
        label[v] = static_cast<std::int32_t>(std::min_element(choice.begin(), choice.end()) - choice.begin());
    }

    const PairEnergies& g;
    std::vector<double>& message;
    std::vector<std::size_t> node_start, pair_start, to_tail, to_head;
    std::vector<std::vector<std::size_t>> after, before;
    std::vector<double> total, choice;
};

}  // namespace

TreePasses reweighted_trees(const PairEnergies& energies, std::vector<double> message, int most_passes, double tolerance) {
    TreePasses found;
    {
        Passes passes(energies, message);
        passes.forward();
        found.minima = -infinite;
        for (int pass = 0; pass < most_passes; pass++) {
            const double last = found.minima;
            found.minima_before = passes.backward();
            found.minima = passes.forward();
            if (found.minima - last <= tolerance * std::fabs(found.minima)) break;
        }
        found.sent = passes.magnitude();
        found.label = std::move(passes.label);
        found.slack = std::move(passes.slack);
    }
    found.message = std::move(message);
    return found;
}

}  // namespace treadle
