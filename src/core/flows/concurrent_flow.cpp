// Maximum concurrent flow with a certificate: the iteration of halpern.hpp, and what is proved about its points.
//
// Rates come from neither the iteration's residuals nor tolerances. Now and then its flows are repaired in doubles until
// they deliver every demand: their fullest link is a rate that is reached. Its lengths, all made positive, give the
// distances of the demands: sum of demand times distance over sum of capacity times length is a rate that cannot be
// exceeded (linear programming duality; Shahrokhi and Matula, 1990). The best of each is kept, and the search ends on
// the gap between the two. It starts from shortest paths split evenly, optimal already on tori and hypercubes.
#include "flows/concurrent_flow.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "flows/flow_certificate.hpp"
#include "flows/halpern.hpp"
#include "worker_pool.hpp"

namespace treadle {

namespace {

// Restarts after Lu and Yang: the step has shrunk much, or somewhat and grows again, or long ago.
constexpr double much_shorter = 0.2, shorter = 0.8, share_of_all = 0.36;
constexpr int measured_every = 8;

// Iterations before the first certificate, and at least between two. Later an eighth of all so far: certificates take a
// bounded share of the time, and the last one comes at most an eighth too late.
constexpr std::int64_t first_certificate = 24;

template <class T>
class Solver {
public:
    Solver(const FlowProblem& problem, const FlowOptions& options, const Control& control, FlowResult& result)
        : options_(options),
          control_(control),
          result_(result),
          layout_(problem),
          pool_(options.threads),
          iteration_(layout_, pool_) {}

    Status run() {
        began_ = Clock::now();
        Status status = start();
        if (status != Status::ok) return status;
        status = iterate();
        if (status != Status::cancelled) finish();
        return status;
    }

private:
    using Clock = std::chrono::steady_clock;
    struct Slot {
        std::vector<double> loads, distance;
        std::vector<T> flow;  // of a block
        std::unique_ptr<FlowRepair> repair;
        double far = 0;
        std::int32_t failed[2] = {-1, -1};
    };

    bool late() const {
        return options_.time_limit_s > 0 &&
               std::chrono::duration<double>(Clock::now() - began_).count() > options_.time_limit_s;
    }
    template <class Job>
    void each_block(const Job& job) {
        pool_.run(layout_.slots(), [&](int i) {
            for (int block = layout_.first_block(i); block < layout_.first_block(i + 1); block++) job(slot_[i], block);
        });
    }

    Status start();
    Status iterate();
    void take_flow(int block, const FlowRepair& repair, int lane, std::vector<T>& to) const;
    void certify();
    void judge(std::vector<double>& load, double far);
    void finish();
    void save_lengths();

    const FlowOptions& options_;
    const Control& control_;
    FlowResult& result_;
    FlowLayout layout_;
    WorkerPool pool_;
    HalpernIteration<T> iteration_;
    std::vector<Slot> slot_;
    Clock::time_point began_;
    std::vector<T> best_flow_, candidate_;
    std::vector<double> certified_length_, best_length_;
    double load_best_ = 0, bound_best_ = 0;
};

template <class T>
Status Solver<T>::start() {
    const int m = layout_.m;
    slot_.resize(layout_.slots());
    for (auto& slot : slot_) {
        slot.loads.resize(m);
        slot.flow.resize(iteration_.flow_cells());
        slot.repair = std::make_unique<FlowRepair>(layout_);
    }
    iteration_.length.resize(m);
    double total = 0;
    for (int e = 0; e < m; e++) {
        const double given = options_.start_length ? options_.start_length[layout_.link[e]] : 1 / layout_.capacity[e];
        iteration_.length[e] = std::max(given, 0.0);
        total += iteration_.length[e] * layout_.capacity[e];
    }
    for (auto& length : iteration_.length) length /= total;
    iteration_.feasible_length = iteration_.length;
    best_flow_.resize(iteration_.flow.size());
    save_lengths();
    each_block([&](Slot& slot, int block) {
        block_distances(layout_, certified_length_.data(), block, slot.distance);
        const double far = block_demand_distance(layout_, block, slot.distance, slot.failed);
        if (far < 0) return;
        slot.far += far;
        T* potential = iteration_.potential.data() + iteration_.node_cells() * block;
        for (std::size_t i = 0; i < iteration_.node_cells(); i++)
            potential[i] = std::isinf(slot.distance[i]) ? T(0) : static_cast<T>(slot.distance[i]);
        for (int j = 0; j < layout_.lane_count(block); j++) {
            const int lane = block * flow_lanes + j;
            if (options_.start_flow) {
                const double* given = options_.start_flow + static_cast<std::size_t>(lane) * m;
                for (int e = 0; e < m; e++) slot.repair->flow[e] = std::max(0.0, given[layout_.link[e]]);
                slot.repair->run(lane, slot.distance, certified_length_.data(), 1);
            } else {
                slot.repair->split_evenly(lane, slot.distance, certified_length_.data());
            }
            take_flow(block, *slot.repair, lane, iteration_.flow);
            for (int e = 0; e < m; e++) slot.loads[e] += layout_.weight[lane] * slot.repair->flow[e];
        }
    });
    double far = 0;
    std::vector<double> load(m, 0);
    for (const auto& slot : slot_) {
        if (slot.failed[0] >= 0) {
            result_.failed_source = slot.failed[0];
            result_.failed_node = slot.failed[1];
            return Status::violated;
        }
        far += slot.far;
        for (int e = 0; e < m; e++) load[e] += slot.loads[e];
    }
    candidate_ = iteration_.flow;
    judge(load, far);
    iteration_.begin();
    return Status::ok;
}

template <class T>
void Solver<T>::take_flow(int block, const FlowRepair& repair, int lane, std::vector<T>& to) const {
    T* cells = to.data() + iteration_.flow_cells() * block + lane % flow_lanes;
    for (int e = 0; e < layout_.m; e++) cells[static_cast<std::size_t>(e) * flow_lanes] = static_cast<T>(repair.flow[e]);
}

// Lengths for a certificate: what the iteration has, and a trace more, so that nothing but a node's own is at 0.
template <class T>
void Solver<T>::save_lengths() {
    certified_length_.resize(layout_.m);
    for (int e = 0; e < layout_.m; e++)
        certified_length_[e] = (iteration_.feasible_length[e] + 1e-7 / (layout_.m * layout_.capacity[e])) / (1 + 1e-7);
}

template <class T>
Status Solver<T>::iterate() {
    std::int64_t next_certificate = first_certificate;
    double first_step = 0, last_step = 0;
    std::int64_t iteration = 0;
    Status status = Status::ok;
    while (1 - bound_best_ / load_best_ > options_.gap) {
        if (control_.cancelled()) {
            status = Status::cancelled;
            break;
        }
        if (iteration >= options_.max_iterations || late()) {
            status = Status::stuck;
            break;
        }
        const bool measure = iteration_.since_restart() == 0 || iteration % measured_every == 0;
        const double size = iteration_.step(measure);
        iteration++;
        if (measure) {
            if (iteration_.since_restart() == 1) {
                first_step = size;
            } else {
                const bool much = size <= much_shorter * first_step;
                const bool rising = size <= shorter * first_step && size > last_step;
                const bool long_ago =
                    iteration_.since_restart() >= share_of_all * static_cast<double>(iteration) && iteration > 100;
                if (much || rising || long_ago) iteration_.restart();
            }
            last_step = size;
        }
        if (iteration >= next_certificate) {
            certify();
            next_certificate = iteration + std::max<std::int64_t>(first_certificate, iteration / 8);
        }
    }
    result_.iterations = iteration;
    return status;
}

// Both sides at the point that the iteration has reached: its next flows, repaired, and its last lengths.
template <class T>
void Solver<T>::certify() {
    const int m = layout_.m;
    save_lengths();
    iteration_.prepare_next_flow();
    for (auto& slot : slot_) {
        slot.far = 0;
        std::fill(slot.loads.begin(), slot.loads.end(), 0.0);
    }
    each_block([&](Slot& slot, int block) {
        if (control_.cancelled()) return;
        iteration_.next_flow(block, slot.flow.data());
        block_distances(layout_, certified_length_.data(), block, slot.distance);
        slot.far += block_demand_distance(layout_, block, slot.distance, slot.failed);
        for (int j = 0; j < layout_.lane_count(block); j++) {
            const int lane = block * flow_lanes + j;
            for (int e = 0; e < m; e++) slot.repair->flow[e] = slot.flow[static_cast<std::size_t>(e) * flow_lanes + j];
            slot.repair->run(lane, slot.distance, certified_length_.data(), 1);
            take_flow(block, *slot.repair, lane, candidate_);
            for (int e = 0; e < m; e++) slot.loads[e] += layout_.weight[lane] * slot.repair->flow[e];
        }
    });
    std::vector<double> load(m, 0);
    double far = 0;
    for (const auto& slot : slot_) {
        far += slot.far;
        for (int e = 0; e < m; e++) load[e] += slot.loads[e];
    }
    if (!control_.cancelled()) judge(load, far);
}

template <class T>
void Solver<T>::judge(std::vector<double>& load, double far) {
    layout_.share_in_orbits(load);
    const double fullest = layout_.fullest(load);
    if (result_.certificates == 0 || fullest < load_best_) {
        load_best_ = fullest;
        std::swap(best_flow_, candidate_);
    }
    if (result_.certificates == 0 || far > bound_best_) {
        bound_best_ = far;
        best_length_ = certified_length_;
    }
    result_.certificates++;
    // progress in thousandths of the way to the gap, on a logarithmic scale
    const double gap = std::max(1 - bound_best_ / load_best_, 1e-16);
    const double share = std::log(std::min(1.0, gap)) / std::log(std::min(0.5, std::max(options_.gap, 1e-16)));
    control_.progress(static_cast<std::int64_t>(1000 * std::min(1.0, share)), 1000);
}

// The best flow again in doubles, without what single precision lost or delivers twice.
template <class T>
void Solver<T>::finish() {
    const int m = layout_.m;
    result_.flow.resize(static_cast<std::size_t>(layout_.sources) * m);
    for (auto& slot : slot_) std::fill(slot.loads.begin(), slot.loads.end(), 0.0);
    each_block([&](Slot& slot, int block) {
        block_distances(layout_, best_length_.data(), block, slot.distance);
        const T* cells = best_flow_.data() + iteration_.flow_cells() * block;
        for (int j = 0; j < layout_.lane_count(block); j++) {
            const int lane = block * flow_lanes + j;
            for (int e = 0; e < m; e++) slot.repair->flow[e] = cells[static_cast<std::size_t>(e) * flow_lanes + j];
            slot.repair->run(lane, slot.distance, best_length_.data(), 50);
            double* out = result_.flow.data() + static_cast<std::size_t>(lane) * m;
            for (int e = 0; e < m; e++) {
                out[layout_.link[e]] = slot.repair->flow[e];
                slot.loads[e] += layout_.weight[lane] * slot.repair->flow[e];
            }
        }
    });
    std::vector<double> load(m, 0);
    for (const auto& slot : slot_)
        for (int e = 0; e < m; e++) load[e] += slot.loads[e];
    layout_.share_in_orbits(load);
    result_.load = layout_.fullest(load);
    result_.bound = bound_best_;
    result_.length.resize(m);
    for (int e = 0; e < m; e++) result_.length[layout_.link[e]] = best_length_[e];
}

}  // namespace

Status maximise_concurrent_flow(const FlowProblem& problem, const FlowOptions& options, const Control& control,
                                FlowResult& result) {
    if (options.wide) return Solver<double>(problem, options, control, result).run();
    return Solver<float>(problem, options, control, result).run();
}

}  // namespace treadle
