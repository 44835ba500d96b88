// Discrete-event simulation of a graph of tasks on FIFO resources. A task is one message's way over one link (or one
// host's port, or a local operation, which needs no resource); a signal follows every edge when a task finishes.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "control.hpp"

namespace treadle {

// The graph is run `n_slices` times at once: slices share nothing but the resources.
struct TaskGraph {
    std::int32_t n_tasks = 0, n_resources = 0;
    const std::int32_t* resource = nullptr;     // of each task, -1: none
    const std::int64_t* duration = nullptr;     // ticks, not negative
    const std::int64_t* edge_offset = nullptr;  // edges of task i are edge_offset[i] up to edge_offset[i + 1]
    const std::int32_t* edge_target = nullptr;
    const std::int64_t* edge_shift = nullptr;  // signal = finish + shift; at least -duration of the edge's task
};

struct Timeline {
    std::int64_t finish = 0;            // of the last task, ticks
    std::int64_t done = 0;              // tasks that ran; fewer than all: deadlock
    std::int64_t last = -1;             // a task that finishes last
    bool is_beyond = false;             // given up: the last task cannot finish before the horizon
    std::vector<std::int64_t> start;    // (n_slices, n_tasks); -1: never ran
    std::vector<std::int64_t> binding;  // (n_slices, n_tasks): what each start waited for last, -1: nothing
};

// Whom a resource serves next: the task that came first (ties: the lower slice, then the lower task), or of those that
// wait the one of the lowest slice, then of the lowest number.
enum class Order : int { arrival = 0, slice = 1 };

constexpr std::int64_t NO_HORIZON = std::numeric_limits<std::int64_t>::max();

// A resource serves one task at a time. `binding` is filled if `with_binding`. With a horizon the run is given up as
// soon as it is certain that the last task finishes at the horizon or later; what finishes before it runs to its end.
// violated: times beyond 63 bits.
Status run_tasks(const TaskGraph& graph, std::int32_t n_slices, Order order, bool with_binding, std::int64_t horizon,
                 const Control& control, Timeline& timeline);

}  // namespace treadle
