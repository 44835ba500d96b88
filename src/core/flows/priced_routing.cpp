#include "flows/priced_routing.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "worker_pool.hpp"

namespace treadle {
namespace {

constexpr double most_weight = 1e280;  // of a node's paths: many more than doubles hold may be shortest
constexpr double least_exponent = -20;
constexpr int parts = 16;  // each sums its own loads: the result does not depend on the number of threads

struct OutLinks {
    std::vector<std::int32_t> first, link;

    explicit OutLinks(const FlowProblem& problem) : first(problem.n_nodes + 1, 0), link(problem.n_links) {
        for (int e = 0; e < problem.n_links; e++) first[problem.tail[e] + 1]++;
        for (int v = 0; v < problem.n_nodes; v++) first[v + 1] += first[v];
        std::vector<std::int32_t> next(first.begin(), first.end() - 1);
        for (int e = 0; e < problem.n_links; e++) link[next[problem.tail[e]]++] = e;
    }
};

class Router {
public:
    Router(const FlowProblem& problem, const OutLinks& out, const double* length, double spread)
        : problem_(problem), out_(out), length_(length), spread_(spread), far_(problem.n_nodes),
          weight_(problem.n_nodes), sum_(problem.n_nodes), through_(problem.n_nodes), rank_(problem.n_nodes),
          share_(problem.n_links) {}

    // Adds scale times the flow of one source to `flow`; false if a demand is out of reach, which is `failed_node`.
    bool add(int row, double scale, double* flow, double& distance) {
        const int source = problem_.source[row];
        const double* demand = problem_.demand + static_cast<std::size_t>(row) * problem_.n_nodes;
        search(source);
        for (int v = 0; v < problem_.n_nodes; v++)
            if (demand[v] > 0 && rank_[v] < 0) {
                failed_node = v;
                return false;
            }
        weigh(source);
        for (std::size_t i = order_.size(); i-- > 0;) {
            const int u = order_[i];
            double amount = demand[u];
            distance += scale * amount * far_[u];
            for (int k = out_.first[u]; k < out_.first[u + 1]; k++) {
                const int e = out_.link[k];
                if (share_[e] == 0) continue;
                const double part = through_[problem_.head[e]] * (share_[e] / sum_[problem_.head[e]]);
                flow[e] += scale * part;
                amount += part;
            }
            through_[u] = amount;
        }
        return true;
    }

    std::int32_t failed_node = -1;

private:
    // Dijkstra's search; nodes in the order in which they are settled.
    void search(int source) {
        std::fill(far_.begin(), far_.end(), std::numeric_limits<double>::infinity());
        std::fill(rank_.begin(), rank_.end(), -1);
        order_.clear();
        heap_.assign(1, {0.0, source});
        far_[source] = 0;
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
            const int u = heap_.back().second;
            heap_.pop_back();
            if (rank_[u] >= 0) continue;
            rank_[u] = static_cast<std::int32_t>(order_.size());
            order_.push_back(u);
            for (int k = out_.first[u]; k < out_.first[u + 1]; k++) {
                const int e = out_.link[k], v = problem_.head[e];
                const double reach = far_[u] + length_[e];
                if (reach < far_[v]) {
                    far_[v] = reach;
                    heap_.push_back({reach, v});
                    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
                }
            }
        }
    }

    // What the paths to each node weigh together, and what those weigh that end with each link.
    void weigh(int source) {
        std::fill(sum_.begin(), sum_.end(), 0.0);
        sum_[source] = 1;
        for (int u : order_) {
            // the link by which a node was found has an excess of 0, so that no sum falls to 0
            weight_[u] = std::min(sum_[u], most_weight);
            for (int k = out_.first[u]; k < out_.first[u + 1]; k++) {
                const int e = out_.link[k], v = problem_.head[e];
                share_[e] = 0;
                if (rank_[v] <= rank_[u]) continue;
                const double exponent = (far_[v] - far_[u] - length_[e]) / spread_;
                if (exponent >= least_exponent) sum_[v] += share_[e] = weight_[u] * std::exp(exponent);
            }
        }
    }

    const FlowProblem& problem_;
    const OutLinks& out_;
    const double* length_;
    double spread_;
    std::vector<double> far_, weight_, sum_, through_;
    std::vector<std::int32_t> rank_, order_;
    std::vector<double> share_;
    std::vector<std::pair<double, int>> heap_;
};

}  // namespace

Status route_by_lengths(const FlowProblem& problem, const double* length, double spread, bool by_source, int threads,
                        const Control& control, PricedRouting& found) {
    const std::size_t m = problem.n_links, rows = problem.n_sources;
    const OutLinks out(problem);
    found.flow.assign(by_source ? rows * m : parts * m, 0.0);
    std::vector<double> distance(parts, 0.0);
    std::vector<std::int32_t> failed(2 * parts, -1);
    std::atomic<std::int64_t> done{0};
    WorkerPool pool(std::max(1, std::min(threads, parts)));
    pool.run(parts, [&](int part) {
        Router router(problem, out, length, spread);
        for (std::size_t row = rows * part / parts; row < rows * (part + 1) / parts; row++) {
            if (control.cancelled()) return;
            double* flow = found.flow.data() + (by_source ? row : part) * m;
            double scaled = 0;
            if (!router.add(static_cast<int>(row), by_source ? 1 : problem.weight[row], flow, scaled)) {
                failed[2 * part] = static_cast<std::int32_t>(row);
                failed[2 * part + 1] = router.failed_node;
                return;
            }
            distance[part] += by_source ? problem.weight[row] * scaled : scaled;
            control.progress(++done, static_cast<std::int64_t>(rows));
        }
    });
    if (control.cancelled()) return Status::cancelled;
    for (int part = 0; part < parts; part++) {
        if (failed[2 * part] >= 0) {
            found.failed_source = failed[2 * part];
            found.failed_node = failed[2 * part + 1];
            return Status::violated;
        }
        found.distance += distance[part];
        if (!by_source && part > 0)
            for (std::size_t e = 0; e < m; e++) found.flow[e] += found.flow[part * m + e];
    }
    if (!by_source) found.flow.resize(m);
    return Status::ok;
}

}  // namespace treadle
