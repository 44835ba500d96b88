// What is left to do at least while tasks run: by the longest path behind each of them and by what each resource has
// still to serve. It tells early that a run cannot end before a horizon.
#pragma once
#include <cstdint>
#include <vector>

#include "simulate/simulate.hpp"

namespace treadle {

class Rest {
public:
    Rest() = default;

    // Unknown where tasks wait for one another in a circle.
    Rest(const TaskGraph& graph, std::int32_t n_slices);

    bool is_known() const { return graph_ != nullptr; }

    // No run ends earlier.
    std::int64_t least() const { return least_; }

    // Time before which no run ends in which a task starts no earlier than `start`.
    std::int64_t after(std::int32_t task, std::int64_t start) const { return start + tail_[task]; }

    // The same of a task that starts at `start` and leaves the others of its resource to follow.
    std::int64_t serve(std::int32_t task, std::int64_t start) {
        const std::int32_t resource = graph_->resource[task];
        const std::int64_t busy = start + left_[resource] + last_[resource];
        left_[resource] -= graph_->duration[task];
        return busy > after(task, start) ? busy : after(task, start);
    }

private:
    bool order();

    const TaskGraph* graph_ = nullptr;
    std::int64_t least_ = 0;
    std::vector<std::int32_t> order_;  // of tasks, each behind those that it waits for
    std::vector<std::int64_t> tail_;   // of a task: from its start to the end of the longest path behind it
    std::vector<std::int64_t> left_;   // of a resource: durations of what it has not begun, all slices
    std::vector<std::int64_t> last_;   // of a resource: least way from the end of a task on it to the end of all
};

}  // namespace treadle
