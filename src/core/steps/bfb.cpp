// Breadth-first broadcast (dissertation, section 3.6, appendices A.5 and A.6; docs/how-it-works/direct-connect.md).
//
// What node u receives in step t is a problem of its own: the sources at distance t are divisible jobs, the links into u
// machines, and a job may use the links whose tail is one step nearer. The least load of the fullest link is, by the cut
// in the proof of Theorem 19, U(u,t) = max over sets P of links into u of (jobs that may use no link outside P) / (weight
// of P): by a sum over subsets on few links, by Newton's iteration on cuts on many. Capacities P U(t) in chunks, with P the
// common denominator, hold an integer flow. Jobs of a group are laid one after the other over the links' shares:
// McNaughton's wrap-around rule (1959), by which a job is cut only where a share ends inside it.
#include "steps/bfb.hpp"

#include <limits>

#include "steps/balancing.hpp"
#include "steps/bfb_rows.hpp"
#include "steps/subset_loads.hpp"

namespace treadle {
namespace {

constexpr int kMostSubsets = 20;       // largest degree for sums over subsets, whatever the caller asks for

// Newton's iteration: while the best ratio is too small for this receiver, the cut found is a larger one.
template <class Cap>
class NewtonLoads {
   public:
    void set_weights(const std::int64_t* weight, int degree) { weight_.assign(weight, weight + degree); }

    bool raise(const JobGroups& groups, Ratio<Cap>& best) {
        capacity_.resize(weight_.size());
        bool raised = false;
        if (best.numerator == 0) {
            start(groups, best);
            raised = true;
        }
        while (true) {
            for (std::size_t k = 0; k < weight_.size(); k++) capacity_[k] = best.numerator * weight_[k];
            if (balancer_.spread(groups, capacity_, best.denominator)) return raised;
            Cap jobs = 0, weight = 0;
            for (int g = 0; g < groups.size(); g++) jobs += balancer_.cut_group[g] ? groups.jobs[g] : 0;
            for (std::size_t k = 0; k < weight_.size(); k++) weight += balancer_.cut_link[k] ? weight_[k] : 0;
            best = {jobs, weight};
            raised = true;
        }
    }

   private:
    Balancer<Cap> balancer_;
    std::vector<Cap> weight_, capacity_;

    // All jobs over all links that any of them may use.
    void start(const JobGroups& groups, Ratio<Cap>& best) {
        std::vector<char> used(weight_.size(), false);
        for (int k : groups.link) used[k] = true;
        best = {0, 0};
        for (int jobs : groups.jobs) best.numerator += jobs;
        for (std::size_t k = 0; k < weight_.size(); k++) best.denominator += used[k] ? weight_[k] : 0;
    }
};

template <class Cap, class Dist, class Word>
Status loads_with(const Rows<Dist>& rows, const std::int64_t* weight, int transform_limit, const Control& control,
                  StepLoads& result) {
    std::vector<Ratio<Cap>> best(rows.steps);
    result.worst.assign(rows.steps, -1);
    ReceiverJobs<Dist, Word> jobs(rows);
    SubsetLoads<Cap> subsets;
    NewtonLoads<Cap> newton;
    for (int u = 0; u < rows.receivers(); u++) {
        if (control.cancelled()) return Status::cancelled;
        if (u % 64 == 0) control.progress(u, rows.receivers());
        jobs.load(u);
        const int degree = rows.degree(u);
        const bool by_subsets = degree <= std::min(transform_limit, kMostSubsets);
        if (by_subsets) {
            subsets.set_weights(weight + rows.offset[u], degree);
        } else {
            newton.set_weights(weight + rows.offset[u], degree);
        }
        for (int t = 1; t <= rows.steps; t++) {
            if (jobs.count(t) == 0) continue;
            jobs.group(t);
            const bool raised = by_subsets ? subsets.raise(jobs.groups, best[t - 1])
                                           : newton.raise(jobs.groups, best[t - 1]);
            if (raised) result.worst[t - 1] = u;
        }
    }
    for (const auto& ratio : best) {
        const auto numerator = static_cast<std::int64_t>(ratio.numerator);
        const auto denominator = static_cast<std::int64_t>(ratio.denominator);
        const std::int64_t divisor = std::gcd(numerator, denominator);
        result.numerator.push_back(numerator / divisor);
        result.denominator.push_back(denominator / divisor);
    }
    return Status::ok;
}

template <class Dist>
Status loads_of(const Rows<Dist>& rows, const std::int64_t* weight, int transform_limit, const Control& control,
                StepLoads& result) {
    // Products of a job count and a weight sum must fit; Python keeps the sum at a node below 2^62.
    __int128 heaviest = 0;
    for (int u = 0; u < rows.receivers(); u++) {
        __int128 sum = 0;
        for (std::int64_t e = rows.offset[u]; e < rows.offset[u + 1]; e++) sum += weight[e];
        heaviest = std::max(heaviest, sum);
    }
    const bool fits = heaviest * rows.n < (__int128{1} << 61);
    return with_word(rows.max_degree, [&](auto word) {
        using Word = decltype(word);
        return fits ? loads_with<std::int64_t, Dist, Word>(rows, weight, transform_limit, control, result)
                    : loads_with<__int128, Dist, Word>(rows, weight, transform_limit, control, result);
    });
}

// How the jobs of every (receiver, step, group) are laid over links: whole links' shares one after the other.
struct Plan {
    std::vector<std::int32_t> link;
    std::vector<std::int64_t> units;

    // Shares of whole jobs come first, so that the fewest jobs are cut. Returns the number of pieces.
    std::int64_t add(const JobGroups& groups, int g, const std::vector<std::int64_t>& flow, std::int64_t chunks) {
        std::int64_t position = 0, pieces = groups.jobs[g];
        for (bool whole : {true, false})
            for (int e = groups.offset[g]; e < groups.offset[g + 1]; e++) {
                if (flow[e] == 0 || (flow[e] % chunks == 0) != whole) continue;
                link.push_back(groups.link[e]);
                units.push_back(flow[e]);
                if (position % chunks != 0) pieces++;
                position += flow[e];
            }
        return pieces;
    }
};

struct Capacities {
    const std::int64_t* values;
    std::int64_t stride;  // 0: one value a step

    void copy(int t, std::int64_t first, int degree, std::vector<std::int64_t>& result) const {
        result.resize(degree);
        for (int k = 0; k < degree; k++) result[k] = stride ? values[(t - 1) * stride + first + k] : values[t - 1];
    }
};

template <class Dist, class Word>
class SendWriter {
   public:
    SendWriter(const Rows<Dist>& rows, const std::int32_t* link, std::int64_t chunks, const Control& control)
        : rows_(rows), link_(link), chunks_(chunks), control_(control), jobs_(rows) {}

    Status run(const Capacities& capacities, SendArrays& result) {
        result.step_offset.assign(rows_.steps + 1, 0);
        const Status status = plan(capacities, result);
        if (status != Status::ok) return status;
        for (int t = 0; t < rows_.steps; t++) result.step_offset[t + 1] += result.step_offset[t];
        result.size = result.step_offset[rows_.steps];
        for (auto* column : {&result.shard, &result.link, &result.low, &result.high})
            column->reset(new std::int32_t[result.size]);
        next_.assign(result.step_offset.begin(), result.step_offset.end() - 1);
        return write(result);
    }

   private:
    const Rows<Dist>& rows_;
    const std::int32_t* link_;
    const std::int64_t chunks_;
    const Control& control_;
    ReceiverJobs<Dist, Word> jobs_;
    Balancer<std::int64_t> balancer_;
    Plan plan_;
    std::vector<std::int64_t> next_, share_, left_;

    Status plan(const Capacities& capacities, SendArrays& result) {
        std::vector<std::int64_t> capacity;
        for (int u = 0; u < rows_.receivers(); u++) {
            if (control_.cancelled()) return Status::cancelled;
            if (u % 64 == 0) control_.progress(u, 2 * rows_.receivers());
            jobs_.load(u);
            for (int t = 1; t <= rows_.steps; t++) {
                if (jobs_.count(t) == 0) continue;
                jobs_.group(t);
                capacities.copy(t, rows_.offset[u], rows_.degree(u), capacity);
                if (!balancer_.spread(jobs_.groups, capacity, chunks_)) {
                    result.failure = {u, t};
                    return Status::stuck;
                }
                for (int g = 0; g < jobs_.groups.size(); g++)
                    result.step_offset[t] += plan_.add(jobs_.groups, g, balancer_.flow, chunks_);
            }
        }
        return Status::ok;
    }

    Status write(SendArrays& result) {
        std::int64_t share = 0;
        for (int u = 0; u < rows_.receivers(); u++) {
            if (control_.cancelled()) return Status::cancelled;
            if (u % 64 == 0) control_.progress(rows_.receivers() + u, 2 * rows_.receivers());
            jobs_.load(u);
            for (int t = 1; t <= rows_.steps; t++) {
                if (jobs_.count(t) == 0) continue;
                jobs_.group(t, true);
                share = open_shares(share);
                write_step(u, t, result);
            }
        }
        return Status::ok;
    }

    // First share of every group, and what is left of it; returns where the next step's begin.
    std::int64_t open_shares(std::int64_t share) {
        const int count = jobs_.groups.size();
        share_.resize(count);
        left_.resize(count);
        for (int g = 0; g < count; g++) {
            share_[g] = share;
            left_[g] = plan_.units[share];
            for (std::int64_t need = jobs_.groups.jobs[g] * chunks_; need > 0;) need -= plan_.units[share++];
        }
        return share;
    }

    void write_step(int u, int t, SendArrays& result) {
        const int* source = jobs_.begin(t);
        std::int64_t at = next_[t - 1];
        for (int i = 0; i < jobs_.count(t); i++) {
            const int g = jobs_.group_of_job[i];
            for (std::int64_t low = 0; low < chunks_; at++) {
                if (left_[g] == 0) left_[g] = plan_.units[++share_[g]];
                const std::int64_t piece = std::min(chunks_ - low, left_[g]);
                result.shard[at] = source[i];
                result.link[at] = link_[rows_.offset[u] + plan_.link[share_[g]]];
                result.low[at] = static_cast<std::int32_t>(low);
                low += piece;
                result.high[at] = static_cast<std::int32_t>(low);
                left_[g] -= piece;
            }
        }
        next_[t - 1] = at;
    }
};

template <class Dist>
Status sends_of(const Rows<Dist>& rows, const std::int32_t* link, const Capacities& capacities, int steps,
                std::int64_t chunks, const Control& control, SendArrays& result) {
    if (steps != rows.steps) return Status::stuck;
    return with_word(rows.max_degree, [&](auto word) {
        return SendWriter<Dist, decltype(word)>(rows, link, chunks, control).run(capacities, result);
    });
}

template <class Dist, class Word>
Status cuts_of(const Rows<Dist>& rows, int step, const __int128* capacity, __int128 units, const Control& control,
               CutJobs& result) {
    ReceiverJobs<Dist, Word> jobs(rows);
    Balancer<__int128> balancer;
    std::vector<__int128> room;
    if (step < 1 || step > rows.steps) return Status::stuck;
    for (int u = 0; u < rows.receivers(); u++) {
        if (control.cancelled()) return Status::cancelled;
        jobs.load(u);
        if (jobs.count(step) == 0) continue;
        jobs.group(step);
        room.assign(capacity + rows.offset[u], capacity + rows.offset[u + 1]);
        if (balancer.spread(jobs.groups, room, units)) continue;
        std::int64_t too_many = 0;
        for (int g = 0; g < jobs.groups.size(); g++) too_many += balancer.cut_group[g] ? jobs.groups.jobs[g] : 0;
        result.node.push_back(u);
        result.jobs.push_back(too_many);
        for (int k = 0; k < rows.degree(u); k++)
            if (balancer.cut_link[k]) result.links.push_back(static_cast<std::int32_t>(rows.offset[u] + k));
        result.offset.push_back(static_cast<std::int64_t>(result.links.size()));
    }
    return Status::ok;
}

}  // namespace

Status step_loads(const InLinks& in, const std::int64_t* weight, int transform_limit, const Control& control,
                  StepLoads& result) {
    return with_rows(in, control, result.failure, [&](const auto& rows) {
        return loads_of(rows, weight, transform_limit, control, result);
    });
}

Status step_loads(const DistanceRows& given, const std::int64_t* weight, int transform_limit, StepLoads& result) {
    return loads_of(rows_of(given), weight, transform_limit, Control{}, result);
}

Status bfb_sends(const InLinks& in, const std::int32_t* link, const StepCapacities& capacities, std::int64_t chunks,
                 const Control& control, SendArrays& result) {
    const std::int64_t stride = capacities.size == capacities.steps ? 0 : in.offset[in.n];
    return with_rows(in, control, result.failure, [&](const auto& rows) {
        return sends_of(rows, link, Capacities{capacities.values, stride}, capacities.steps, chunks, control, result);
    });
}

Status find_cuts(const InLinks& in, int step, const __int128* capacity, __int128 units, const Control& control,
                 CutJobs& result) {
    return with_rows(in, control, result.failure, [&](const auto& rows) {
        return with_word(rows.max_degree, [&](auto word) {
            using Dist = typename std::decay_t<decltype(rows)>::Distance;
            return cuts_of<Dist, decltype(word)>(rows, step, capacity, units, control, result);
        });
    });
}

}  // namespace treadle
