// Max-min fair sharing by progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): the resource with
// least capacity per flow fixes the rate of its flows, and so on with what is left. Rates are shared anew whenever a
// flow starts or ends; between these events all flows run at constant rates.
#include "simulate/fluid.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace treadle {
namespace {

using Index = std::int64_t;  // slice * n_flows + flow

struct Active {
    Index item;
    double left, rate;
};

class Fluid {
public:
    Fluid(const FluidGraph& graph, std::int32_t n_slices, const Control& control, FluidTimeline& timeline)
        : graph_(graph),
          total_(static_cast<Index>(graph.n_flows) * n_slices),
          control_(control),
          timeline_(timeline),
          users_(graph.n_resources, 0),
          room_(graph.n_resources, 0),
          seen_(graph.n_resources, false) {
        std::vector<std::int32_t> signals(graph.n_flows, 0);
        for (std::int64_t edge = 0; edge < graph.edge_offset[graph.n_flows]; edge++) signals[graph.edge_target[edge]]++;
        for (std::int32_t slice = 0; slice < n_slices; slice++) {
            missing_.insert(missing_.end(), signals.begin(), signals.end());
            if (slice > 0)
                for (Index item = total(slice); item < total(slice + 1); item++) missing_[item]++;
        }
        ready_.assign(total_, 0);
        timeline_.start.assign(total_, -1);
        timeline_.end.assign(total_, -1);
    }

    Status run() {
        for (Index item = 0; item < total_; item++)
            if (missing_[item] == 0) starts_.push({graph_.before[flow(item)], item});
        while (!starts_.empty() || !active_.empty()) {
            if (control_.cancelled()) return Status::cancelled;
            control_.progress(timeline_.done, total_);
            if (changed_) share();
            const double next_end = first_end();
            const double next_start = starts_.empty() ? next_end : starts_.top().first;
            advance(std::min(next_end, next_start));
            bool is_new = false;
            while (!starts_.empty() && starts_.top().first <= now_ + slack()) {
                const Index item = starts_.top().second;
                starts_.pop();
                begin(item);
                is_new = true;
            }
            changed_ = finish_done() || is_new;
        }
        return Status::ok;
    }

private:
    Index total(std::int32_t slices) const { return static_cast<Index>(graph_.n_flows) * slices; }
    std::int32_t flow(Index item) const { return static_cast<std::int32_t>(item % graph_.n_flows); }
    // Times that differ by rounding alone count as one: rates are then shared once for all flows of a moment.
    double slack() const { return 1e-12 * now_; }

    void begin(Index item) {
        timeline_.start[item] = now_;
        const std::int32_t number = flow(item);
        signal(item, true, now_);
        if (graph_.resource_offset[number] == graph_.resource_offset[number + 1] || graph_.work[number] <= 0)
            end(item);
        else
            active_.push_back({item, graph_.work[number], 0});
    }

    void end(Index item) {
        const double when = now_ + graph_.after[flow(item)];
        timeline_.end[item] = when;
        timeline_.done++;
        if (timeline_.last < 0 || when > timeline_.end[timeline_.last]) timeline_.last = item;
        signal(item, false, when);
        const Index next = item + graph_.n_flows;
        if (next < total_) receive(next, now_);
    }

    void signal(Index item, bool from_start, double when) {
        const std::int32_t number = flow(item);
        for (std::int64_t edge = graph_.edge_offset[number]; edge < graph_.edge_offset[number + 1]; edge++)
            if ((graph_.edge_from_start[edge] != 0) == from_start)
                receive(item - number + graph_.edge_target[edge], when);
    }

    void receive(Index target, double when) {
        ready_[target] = std::max(ready_[target], when);
        if (--missing_[target] == 0) starts_.push({ready_[target] + graph_.before[flow(target)], target});
    }

    double first_end() const {
        double first = std::numeric_limits<double>::infinity();
        for (const Active& one : active_) first = std::min(first, now_ + one.left / one.rate);
        return first;
    }

    void advance(double time) {
        for (Active& one : active_) one.left -= (time - now_) * one.rate;
        now_ = std::max(now_, time);
    }

    bool finish_done() {
        ended_.clear();
        std::size_t kept = 0;
        for (const Active& one : active_) {
            if (one.left <= std::max(slack(), 1e-18) * one.rate || one.left <= 1e-12 * graph_.work[flow(one.item)])
                ended_.push_back(one.item);
            else
                active_[kept++] = one;
        }
        active_.resize(kept);
        for (const Index item : ended_) end(item);
        return !ended_.empty();
    }

    // Progressive filling: the fullest resource fixes the rate of its flows, and so on with what is left.
    void share() {
        used_.clear();
        for (Active& one : active_) {
            one.rate = 0;
            each(one.item, [this](std::int32_t resource) {
                if (users_[resource]++ == 0) {
                    used_.push_back(resource);
                    room_[resource] = graph_.capacity[resource];
                }
            });
        }
        std::size_t open = active_.size();
        while (open > 0) {
            double least = std::numeric_limits<double>::infinity();
            for (const std::int32_t resource : used_)
                if (users_[resource] > 0) least = std::min(least, level(resource));
            for (const std::int32_t resource : used_)
                seen_[resource] =
                    users_[resource] > 0 && level(resource) <= least * (1 + 1e-12) ? 1 : 0;
            for (Active& one : active_) {
                if (one.rate > 0) continue;
                bool is_bound = false;
                each(one.item, [&](std::int32_t resource) { is_bound |= seen_[resource] != 0; });
                if (!is_bound) continue;
                one.rate = least;
                open--;
                each(one.item, [&](std::int32_t resource) {
                    users_[resource]--;
                    room_[resource] = std::max(0.0, room_[resource] - least);
                });
            }
        }
    }

    // What is left to each user; never nothing, which only rounding could leave.
    double level(std::int32_t resource) const {
        return std::max(room_[resource] / users_[resource], 1e-12 * graph_.capacity[resource]);
    }

    template <class Visit>
    void each(Index item, Visit visit) const {
        const std::int32_t number = flow(item);
        for (std::int64_t i = graph_.resource_offset[number]; i < graph_.resource_offset[number + 1]; i++)
            visit(graph_.resource[i]);
    }

    using Start = std::pair<double, Index>;

    const FluidGraph& graph_;
    const Index total_;
    const Control& control_;
    FluidTimeline& timeline_;
    std::vector<std::int32_t> missing_, users_;
    std::vector<double> ready_, room_;
    std::vector<char> seen_;
    std::vector<std::int32_t> used_;
    std::vector<Index> ended_;
    std::vector<Active> active_;
    std::priority_queue<Start, std::vector<Start>, std::greater<Start>> starts_;
    double now_ = 0;
    bool changed_ = false;
};

}  // namespace

Status run_flows(const FluidGraph& graph, std::int32_t n_slices, const Control& control, FluidTimeline& timeline) {
    return Fluid(graph, n_slices, control, timeline).run();
}

}  // namespace treadle
