// Discrete-event simulation (docs/how-to/simulation.md): one queue of events by time, ties by slice and task, so that results
// are deterministic. Times are integers; a sum beyond 63 bits ends the run. A task's start waits for its signals and for
// its resource. Under slice order a resource's choice is an event of its own, behind all arrivals of that moment.
#include "simulate/simulate.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "simulate/horizon.hpp"

namespace treadle {
namespace {

using Index = std::int64_t;  // slice * n_tasks + task: rises with (slice, task), so it breaks ties as promised

struct Event {
    std::int64_t time;
    Index item;
};

bool before(const Event& one, const Event& other) {
    return one.time != other.time ? one.time < other.time : one.item < other.item;
}

// Four children a node: half the levels of a binary heap, and the children share a cache line.
class EventQueue {
public:
    bool empty() const { return heap_.empty(); }

    void push(Event event) {
        std::size_t place = heap_.size();
        heap_.push_back(event);
        while (place > 0) {
            const std::size_t parent = (place - 1) / 4;
            if (!before(event, heap_[parent])) break;
            heap_[place] = heap_[parent];
            place = parent;
        }
        heap_[place] = event;
    }

    Event pop() {
        const Event top = heap_.front(), last = heap_.back();
        heap_.pop_back();
        const std::size_t size = heap_.size();
        std::size_t place = 0;
        while (size > 0) {
            const std::size_t first = 4 * place + 1, past = std::min(first + 4, size);
            if (first >= size) break;
            std::size_t least = first;
            for (std::size_t child = first + 1; child < past; child++)
                if (before(heap_[child], heap_[least])) least = child;
            if (!before(heap_[least], last)) break;
            heap_[place] = heap_[least];
            place = least;
        }
        if (size > 0) heap_[place] = last;
        return top;
    }

private:
    std::vector<Event> heap_;
};

class Simulation {
public:
    Simulation(const TaskGraph& graph, std::int32_t n_slices, Order order, bool with_binding, std::int64_t horizon,
               const Control& control, Timeline& timeline)
        : graph_(graph),
          total_(static_cast<Index>(graph.n_tasks) * n_slices),
          order_(order),
          with_binding_(with_binding),
          horizon_(horizon),
          control_(control),
          timeline_(timeline),
          indegree_(graph.n_tasks, 0),
          free_(graph.n_resources, 0),
          last_on_(with_binding ? graph.n_resources : 0, -1),
          waiting_(order == Order::slice ? graph.n_resources : 0),
          armed_(order == Order::slice ? graph.n_resources : 0, false) {
        for (std::int64_t edge = 0; edge < graph.edge_offset[graph.n_tasks]; edge++) indegree_[graph.edge_target[edge]]++;
        missing_.reserve(total_);
        for (std::int32_t slice = 0; slice < n_slices; slice++)
            missing_.insert(missing_.end(), indegree_.begin(), indegree_.end());
        ready_.assign(total_, 0);
        timeline_.start.assign(total_, -1);
        timeline_.binding.assign(with_binding ? total_ : 0, -1);
    }

    Status run() {
        if (horizon_ != NO_HORIZON) {
            rest_ = Rest(graph_, static_cast<std::int32_t>(total_ / std::max(1, graph_.n_tasks)));
            timeline_.is_beyond = rest_.least() >= horizon_;
        }
        for (Index item = 0; item < total_ && !timeline_.is_beyond; item++) {
            if (indegree_[task(item)] > 0) continue;
            local_.push_back(item);
            drain();
        }
        std::int64_t pops = 0;
        while (!queue_.empty() && !overflow_ && !timeline_.is_beyond) {
            const Event event = queue_.pop();
            if (event.item >= total_)
                choose(static_cast<std::int32_t>(event.item - total_), event.time);
            else if (order_ == Order::slice)
                wait(event);
            else
                serve(event.item, event.time);
            if ((++pops & 0xffff) == 0) {
                if (control_.cancelled()) return Status::cancelled;
                control_.progress(timeline_.done, total_);
            }
        }
        return overflow_ ? Status::violated : Status::ok;
    }

private:
    std::int32_t task(Index item) const { return static_cast<std::int32_t>(item % graph_.n_tasks); }

    std::int64_t sum(std::int64_t one, std::int64_t other) {
        std::int64_t result;
        if (__builtin_add_overflow(one, other, &result)) overflow_ = true;
        return overflow_ ? 0 : result;
    }

    // What has become ready: tasks with a resource queue up; the others run at once, and so may those they set off.
    void drain() {
        while (!local_.empty()) {
            const Index item = local_.back();
            local_.pop_back();
            if (graph_.resource[task(item)] >= 0)
                queue_.push({ready_[item], item});
            else
                execute(item, ready_[item]);
        }
    }

    void serve(Index item, std::int64_t now) {
        const std::int32_t resource = graph_.resource[task(item)];
        const std::int64_t start = std::max(now, free_[resource]);
        if (with_binding_) {
            if (start > ready_[item]) timeline_.binding[item] = last_on_[resource];
            last_on_[resource] = item;
        }
        free_[resource] = sum(start, graph_.duration[task(item)]);
        if (rest_.is_known() && rest_.serve(task(item), start) >= horizon_) timeline_.is_beyond = true;
        execute(item, start);
        drain();
    }

    // A resource chooses when it is free, after everything that comes at that very time has come: choices are events
    // of their own, numbered after all items.
    void wait(const Event& event) {
        const std::int32_t resource = graph_.resource[task(event.item)];
        auto& line = waiting_[resource];
        line.push_back(event.item);
        std::push_heap(line.begin(), line.end(), std::greater<Index>());
        if (armed_[resource]) return;
        armed_[resource] = true;
        queue_.push({event.time, total_ + resource});
    }

    void choose(std::int32_t resource, std::int64_t now) {
        auto& line = waiting_[resource];
        if (line.empty()) {
            armed_[resource] = false;
            return;
        }
        std::pop_heap(line.begin(), line.end(), std::greater<Index>());
        const Index item = line.back();
        line.pop_back();
        serve(item, now);
        queue_.push({free_[resource], total_ + resource});
    }

    // Leaves the items that have become ready in local_.
    void execute(Index item, std::int64_t start) {
        const std::int32_t number = task(item);
        const Index slice_base = item - number;
        const std::int64_t finish = sum(start, graph_.duration[number]);
        timeline_.start[item] = start;
        timeline_.done++;
        if (finish > timeline_.finish || timeline_.last < 0) {
            timeline_.finish = finish;
            timeline_.last = item;
        }
        for (std::int64_t edge = graph_.edge_offset[number]; edge < graph_.edge_offset[number + 1]; edge++) {
            const Index target = slice_base + graph_.edge_target[edge];
            const std::int64_t signal = sum(finish, graph_.edge_shift[edge]);
            if (signal >= ready_[target]) {
                if (rest_.is_known() && rest_.after(graph_.edge_target[edge], signal) >= horizon_)
                    timeline_.is_beyond = true;
                ready_[target] = signal;
                if (with_binding_) timeline_.binding[target] = item;
            }
            if (--missing_[target] == 0) local_.push_back(target);
        }
    }

    const TaskGraph& graph_;
    const Index total_;
    const Order order_;
    const bool with_binding_;
    const std::int64_t horizon_;
    Rest rest_;  // known under a horizon
    const Control& control_;
    Timeline& timeline_;
    std::vector<std::int32_t> indegree_, missing_;
    std::vector<std::int64_t> ready_, free_;
    std::vector<Index> last_on_, local_;
    std::vector<std::vector<Index>> waiting_;  // heaps, the lowest item on top
    std::vector<char> armed_;                  // whether an event is under way that lets the resource choose
    EventQueue queue_;
    bool overflow_ = false;
};

}  // namespace

Status run_tasks(const TaskGraph& graph, std::int32_t n_slices, Order order, bool with_binding, std::int64_t horizon,
                 const Control& control, Timeline& timeline) {
    return Simulation(graph, n_slices, order, with_binding, horizon, control, timeline).run();
}

}  // namespace treadle
