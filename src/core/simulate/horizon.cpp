// Longest paths before and behind every task, without regard to who waits in line; and, for each resource, the one
// machine bound of Jackson (1955): nothing on it begins before the least way to it, it serves one at a time, and its
// last task has the least way behind it to go.
#include "simulate/horizon.hpp"

#include <algorithm>

namespace treadle {

Rest::Rest(const TaskGraph& graph, std::int32_t n_slices) : graph_(&graph) {
    if (!order()) {
        graph_ = nullptr;
        return;
    }
    std::vector<std::int64_t> head(graph.n_tasks, 0);
    tail_.assign(graph.n_tasks, 0);
    for (const std::int32_t task : order_)
        for (std::int64_t edge = graph.edge_offset[task]; edge < graph.edge_offset[task + 1]; edge++) {
            std::int64_t& there = head[graph.edge_target[edge]];
            there = std::max(there, head[task] + graph.duration[task] + graph.edge_shift[edge]);
        }
    for (auto place = order_.rbegin(); place != order_.rend(); ++place) {
        const std::int32_t task = *place;
        std::int64_t behind = 0;
        for (std::int64_t edge = graph.edge_offset[task]; edge < graph.edge_offset[task + 1]; edge++)
            behind = std::max(behind, graph.edge_shift[edge] + tail_[graph.edge_target[edge]]);
        tail_[task] = graph.duration[task] + behind;
        least_ = std::max(least_, head[task] + tail_[task]);
    }
    constexpr std::int64_t never = NO_HORIZON;
    std::vector<std::int64_t> first(graph.n_resources, never);
    left_.assign(graph.n_resources, 0);
    last_.assign(graph.n_resources, never);
    for (std::int32_t task = 0; task < graph.n_tasks; task++) {
        const std::int32_t resource = graph.resource[task];
        if (resource < 0) continue;
        first[resource] = std::min(first[resource], head[task]);
        left_[resource] += n_slices * graph.duration[task];
        last_[resource] = std::min(last_[resource], tail_[task] - graph.duration[task]);
    }
    for (std::int32_t resource = 0; resource < graph.n_resources; resource++)
        if (first[resource] != never)
            least_ = std::max(least_, first[resource] + left_[resource] + last_[resource]);
}

bool Rest::order() {
    const TaskGraph& graph = *graph_;
    std::vector<std::int32_t> missing(graph.n_tasks, 0);
    for (std::int64_t edge = 0; edge < graph.edge_offset[graph.n_tasks]; edge++) missing[graph.edge_target[edge]]++;
    order_.reserve(graph.n_tasks);
    for (std::int32_t task = 0; task < graph.n_tasks; task++)
        if (missing[task] == 0) order_.push_back(task);
    for (std::size_t place = 0; place < order_.size(); place++) {
        const std::int32_t task = order_[place];
        for (std::int64_t edge = graph.edge_offset[task]; edge < graph.edge_offset[task + 1]; edge++)
            if (--missing[graph.edge_target[edge]] == 0) order_.push_back(graph.edge_target[edge]);
    }
    return static_cast<std::int32_t>(order_.size()) == graph.n_tasks;
}

}  // namespace treadle
