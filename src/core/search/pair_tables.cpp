#include "search/pair_tables.hpp"

#include <limits>

namespace treadle {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

struct Ends {
    std::size_t tail, head, width;  // width: states of the head, of those that are left or not
};

Ends ends_of(const PairTables& tables, std::size_t edge) {
    const auto tail = static_cast<std::size_t>(tables.tail[edge]), head = static_cast<std::size_t>(tables.head[edge]);
    return {tail, head, static_cast<std::size_t>(tables.n_states[head])};
}

}  // namespace

std::vector<double> pair_energies(const PairTables& tables, const Domains& domains, const double* weight) {
    std::size_t size = 0;
    for (std::size_t e = 0; e < tables.n_edges; e++) {
        const Ends ends = ends_of(tables, e);
        size += domains.size(ends.tail) * domains.size(ends.head);
    }
    std::vector<double> found(size, 0.0);
    double* own = found.data();
    std::size_t table = 0;
    for (std::size_t e = 0; e < tables.n_edges; e++) {
        const Ends ends = ends_of(tables, e);
        const std::size_t rows = domains.size(ends.tail), columns = domains.size(ends.head);
        const std::int64_t *tails = domains.of(ends.tail), *heads = domains.of(ends.head);
        const bool is_whole = columns == ends.width;
        for (; table < tables.amount.size() && static_cast<std::size_t>(tables.edge[table]) == e; table++) {
            double factor = 0.0;
            for (std::int32_t q = tables.start[table]; q < tables.start[table + 1]; q++) factor += weight[tables.quantity[q]];
            if (factor == 0.0) continue;
            for (std::size_t i = 0; i < rows; i++) {
                const double* row = tables.amount[table] + static_cast<std::size_t>(tails[i]) * ends.width;
                double* to = own + i * columns;
                if (is_whole)
                    for (std::size_t j = 0; j < columns; j++) to[j] += factor * row[j];
                else
                    for (std::size_t j = 0; j < columns; j++) to[j] += factor * row[heads[j]];
            }
        }
        if (tables.banned[e] != nullptr)
            for (std::size_t i = 0; i < rows; i++) {
                const std::uint8_t* row = tables.banned[e] + static_cast<std::size_t>(tails[i]) * ends.width;
                for (std::size_t j = 0; j < columns; j++)
                    if (row[heads[j]]) own[i * columns + j] = infinite;
            }
        own += rows * columns;
    }
    return found;
}

std::vector<std::uint8_t> states_with_partners(const PairTables& tables, const Domains& domains) {
    std::vector<std::uint8_t> left(static_cast<std::size_t>(domains.start[tables.n_nodes]), 1);
    const auto place = [&](std::size_t node) { return left.data() + domains.start[node]; };
    std::vector<std::uint8_t> changed(tables.n_nodes, 1);
    for (bool is_done = false; !is_done;) {
        is_done = true;
        std::vector<std::uint8_t> touched(tables.n_nodes, 0);
        for (std::size_t e = 0; e < tables.n_edges; e++) {
            const Ends ends = ends_of(tables, e);
            if (tables.banned[e] == nullptr || (!changed[ends.tail] && !changed[ends.head])) continue;
            const std::int64_t *tails = domains.of(ends.tail), *heads = domains.of(ends.head);
            std::uint8_t *tail_left = place(ends.tail), *head_left = place(ends.head);
            std::vector<std::uint8_t> met(domains.size(ends.head), 0);
            for (std::size_t i = 0; i < domains.size(ends.tail); i++) {
                if (!tail_left[i]) continue;
                const std::uint8_t* row = tables.banned[e] + static_cast<std::size_t>(tails[i]) * ends.width;
                bool has_partner = false;
                for (std::size_t j = 0; j < met.size(); j++)
                    if (head_left[j] && !row[heads[j]]) has_partner = met[j] = 1;
                if (!has_partner) {
                    tail_left[i] = 0;
                    touched[ends.tail] = 1;
                }
            }
            for (std::size_t j = 0; j < met.size(); j++)
                if (head_left[j] && !met[j]) {
                    head_left[j] = 0;
                    touched[ends.head] = 1;
                }
        }
        for (std::uint8_t one : touched) is_done = is_done && !one;
        changed = touched;
    }
    return left;
}

}  // namespace treadle
