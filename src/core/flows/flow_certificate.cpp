// Certificates of concurrent flows, in doubles whatever the iteration uses.
//
// Primal: any flow f >= 0 becomes one that delivers the demands. Nodes are treated from the farthest to the nearest; a
// node that lacks fetches along its shortest path, which only makes nearer nodes lack; one with too much cuts its
// links from nearer nodes. One pass therefore suffices for what lacks. Dual: distances under the lengths, by
// Bellman's and Ford's rounds over all links for 16 sources side by side, exact for shortest paths of any hops.
#include "flows/flow_certificate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace treadle {

FlowLayout::FlowLayout(const FlowProblem& problem)
    : n(problem.n_nodes),
      m(problem.n_links),
      sources(problem.n_sources),
      blocks((problem.n_sources + flow_lanes - 1) / flow_lanes),
      first_in(n + 1, 0),
      link(m),
      orbit_size(m ? *std::max_element(problem.orbit, problem.orbit + m) + 1 : 0, 0),
      source(blocks * flow_lanes, 0),
      weight(blocks * flow_lanes, 0),
      demand(problem.demand) {
    std::iota(link.begin(), link.end(), 0);
    std::stable_sort(link.begin(), link.end(), [&](int a, int b) { return problem.head[a] < problem.head[b]; });
    for (int e : link) {
        tail.push_back(problem.tail[e]);
        head.push_back(problem.head[e]);
        capacity.push_back(problem.capacity[e]);
        orbit.push_back(problem.orbit[e]);
        orbit_size[problem.orbit[e]] += 1;
        first_in[problem.head[e] + 1]++;
    }
    for (int v = 0; v < n; v++) first_in[v + 1] += first_in[v];
    for (int s = 0; s < sources; s++) {
        source[s] = problem.source[s];
        weight[s] = problem.weight[s];
        total_weight += weight[s];
    }
}

void FlowLayout::share_in_orbits(std::vector<double>& load) const {
    if (static_cast<int>(orbit_size.size()) == m) return;
    std::vector<double> total(orbit_size.size(), 0);
    for (int e = 0; e < m; e++) total[orbit[e]] += load[e];
    for (int e = 0; e < m; e++) load[e] = total[orbit[e]] / orbit_size[orbit[e]];
}

double FlowLayout::fullest(const std::vector<double>& load) const {
    double worst = 0;
    for (int e = 0; e < m; e++) worst = std::max(worst, load[e] / capacity[e]);
    return worst;
}

namespace {

// One round over all nodes in place; whether any distance fell.
inline __attribute__((always_inline)) bool relax_body(const FlowLayout& layout, const double* length,
                                                      double* distance) {
    double fell = 0;
    for (int v = 0; v < layout.n; v++) {
        double* mine = distance + static_cast<std::size_t>(v) * flow_lanes;
        double nearest[flow_lanes];
        for (int j = 0; j < flow_lanes; j++) nearest[j] = mine[j];
        for (std::int64_t e = layout.first_in[v]; e < layout.first_in[v + 1]; e++) {
            const double* other = distance + static_cast<std::size_t>(layout.tail[e]) * flow_lanes;
            const double step = length[e];
            for (int j = 0; j < flow_lanes; j++) {
                const double reach = other[j] + step;
                nearest[j] = reach < nearest[j] ? reach : nearest[j];
            }
        }
        double change[flow_lanes];
        for (int j = 0; j < flow_lanes; j++) {
            change[j] = nearest[j] < mine[j] ? 1.0 : 0.0;
            mine[j] = nearest[j];
        }
        for (int j = 1; j < flow_lanes; j++) change[0] += change[j];
        fell += change[0];
    }
    return fell > 0;
}

bool relax_any(const FlowLayout& layout, const double* length, double* distance) {
    return relax_body(layout, length, distance);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) bool relax_avx2(const FlowLayout& layout, const double* length, double* distance) {
    return relax_body(layout, length, distance);
}
bool relax(const FlowLayout& layout, const double* length, double* distance) {
    return __builtin_cpu_supports("avx2") ? relax_avx2(layout, length, distance)
                                          : relax_any(layout, length, distance);
}
#else
bool relax(const FlowLayout& layout, const double* length, double* distance) {
    return relax_any(layout, length, distance);
}
#endif

}  // namespace

void block_distances(const FlowLayout& layout, const double* length, int block, std::vector<double>& distance) {
    distance.assign(static_cast<std::size_t>(layout.n) * flow_lanes, std::numeric_limits<double>::infinity());
    for (int j = 0; j < flow_lanes; j++)
        distance[static_cast<std::size_t>(layout.source[block * flow_lanes + j]) * flow_lanes + j] = 0;
    while (relax(layout, length, distance.data())) {
    }
}

double block_demand_distance(const FlowLayout& layout, int block, const std::vector<double>& distance,
                             std::int32_t failed[2]) {
    double total = 0;
    for (int j = 0; j < layout.lane_count(block); j++) {
        const int s = block * flow_lanes + j;
        const double* demand = layout.demand + static_cast<std::size_t>(s) * layout.n;
        double sum = 0;
        for (int v = 0; v < layout.n; v++) {
            if (demand[v] <= 0) continue;
            const double far = distance[static_cast<std::size_t>(v) * flow_lanes + j];
            if (std::isinf(far)) {
                failed[0] = s;
                failed[1] = v;
                return -1;
            }
            sum += demand[v] * far;
        }
        total += layout.weight[s] * sum;
    }
    return total;
}

FlowRepair::FlowRepair(const FlowLayout& layout)
    : flow(layout.m), layout_(layout), lack_(layout.n), far_(layout.n), order_(layout.n) {}

void FlowRepair::rank_nodes(int lane, const std::vector<double>& distance) {
    const int j = lane % flow_lanes;
    ranked_.clear();
    for (int v = 0; v < layout_.n; v++) {
        far_[v] = distance[static_cast<std::size_t>(v) * flow_lanes + j];
        if (!std::isinf(far_[v])) ranked_.push_back({-far_[v], v});
    }
    std::sort(ranked_.begin(), ranked_.end());
    order_.clear();
    for (const auto& entry : ranked_) order_.push_back(entry.second);
}

void FlowRepair::run(int lane, const std::vector<double>& distance, const double* length, int rounds) {
    rank_nodes(lane, distance);
    const int root = layout_.source[lane];
    const double* demand = layout_.demand + static_cast<std::size_t>(lane) * layout_.n;
    for (std::int64_t e = layout_.first_in[root]; e < layout_.first_in[root + 1]; e++) flow[e] = 0;
    std::copy(demand, demand + layout_.n, lack_.begin());
    for (int v = 0; v < layout_.n; v++)
        for (std::int64_t e = layout_.first_in[v]; e < layout_.first_in[v + 1]; e++) {
            const bool unreachable = std::isinf(far_[v]) || std::isinf(far_[layout_.tail[e]]);
            if (unreachable) flow[e] = 0;
            lack_[v] -= flow[e];
            lack_[layout_.tail[e]] += flow[e];
        }
    for (int round = 0; round < rounds; round++) {
        double surplus = 0, total = 0;
        for (int v : order_) {
            if (v == root) continue;
            const std::int64_t low = layout_.first_in[v], high = layout_.first_in[v + 1];
            if (lack_[v] > 0) {
                std::int64_t best = low;
                for (std::int64_t e = low + 1; e < high; e++)
                    if (far_[layout_.tail[e]] + length[e] < far_[layout_.tail[best]] + length[best]) best = e;
                flow[best] += lack_[v];
                lack_[layout_.tail[best]] += lack_[v];
                lack_[v] = 0;
            } else if (lack_[v] < 0) {
                double nearer = 0;
                for (std::int64_t e = low; e < high; e++)
                    if (round > 0 || far_[layout_.tail[e]] < far_[v]) nearer += flow[e];
                if (nearer > 0) {
                    const double share = std::min(1.0, -lack_[v] / nearer);
                    for (std::int64_t e = low; e < high; e++) {
                        if (round == 0 && far_[layout_.tail[e]] >= far_[v]) continue;
                        const double cut = share * flow[e];
                        flow[e] -= cut;
                        lack_[layout_.tail[e]] -= cut;
                        lack_[v] += cut;
                    }
                }
            }
            surplus -= std::min(0.0, lack_[v]);
            total += demand[v];
        }
        if (surplus <= 1e-13 * total) break;
    }
}

void FlowRepair::split_evenly(int lane, const std::vector<double>& distance, const double* length) {
    rank_nodes(lane, distance);
    const int root = layout_.source[lane];
    std::copy_n(layout_.demand + static_cast<std::size_t>(lane) * layout_.n, layout_.n, lack_.begin());
    std::fill(flow.begin(), flow.end(), 0.0);
    for (int v : order_) {
        if (v == root || lack_[v] <= 0) continue;
        const std::int64_t low = layout_.first_in[v], high = layout_.first_in[v + 1];
        const double reach = far_[v] * (1 + 1e-9);
        double capacity = 0;
        for (std::int64_t e = low; e < high; e++)
            if (far_[layout_.tail[e]] < far_[v] && far_[layout_.tail[e]] + length[e] <= reach)
                capacity += layout_.capacity[e];
        for (std::int64_t e = low; e < high; e++) {
            if (!(far_[layout_.tail[e]] < far_[v] && far_[layout_.tail[e]] + length[e] <= reach)) continue;
            flow[e] = lack_[v] * layout_.capacity[e] / capacity;
            lack_[layout_.tail[e]] += flow[e];
        }
    }
}

}  // namespace treadle
