#include "concurrent_flow.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "flow_certificate.hpp"
#include "worker_pool.hpp"

namespace treadle {

namespace {

constexpr int lanes = flow_lanes;
constexpr int folded = 4;      // partial sums of a link's load within a slot
constexpr int max_slots = 16;  // shares of the work; sums run over slots in order, whatever the threads did

#ifndef TREADLE_KAPPA
#define TREADLE_KAPPA 1.0
#endif

// Operands of one sweep over the sources of a block. Arrays of sources are (row, lane).
template <class T>
struct Sweep {
    const FlowLayout* layout;
    const T *length, *flow_step, *potential_step, *weight, *demand;
    T *flow, *potential;
    const T *flow_anchor, *potential_anchor;
    T keep, pull;       // weights of the reflected point and of the anchor
    T* excess;          // scratch, (n, lanes)
    T* load;            // added to, (m, folded)
    const std::int32_t* source;
    double moved = 0;   // out: squared length of the step in the method's metric
};

// One step of reflected Halpern iteration in flows and potentials.
template <class T, bool measure>
inline __attribute__((always_inline)) void sweep_body(Sweep<T>& a) {
    const FlowLayout& layout = *a.layout;
    const int n = layout.n;
    for (int i = 0; i < n * lanes; i++) a.excess[i] = 0;
    double moved = 0;
    for (int v = 0; v < n; v++) {
        const T* near = a.potential + static_cast<std::size_t>(v) * lanes;
        T in[lanes], far[lanes];
        for (int j = 0; j < lanes; j++) in[j] = 0, far[j] = 0;
        for (std::int64_t e = layout.first_in[v]; e < layout.first_in[v + 1]; e++) {
            const std::size_t tail = static_cast<std::size_t>(layout.tail[e]) * lanes;
            const T* behind = a.potential + tail;
            T* out = a.excess + tail;
            T* flow = a.flow + static_cast<std::size_t>(e) * lanes;
            const T* anchor = a.flow_anchor + static_cast<std::size_t>(e) * lanes;
            const T length = a.length[e], step = a.flow_step[e];
            const T metric = 1 / step;
            T sum[lanes];
            for (int j = 0; j < lanes; j++) {
                const T old = flow[j];
                const T aim = old - step * (length + behind[j] - near[j]);
                const T next = aim > 0 ? aim : 0;
                const T mirrored = next + next - old;
                if (measure) far[j] += metric * (next - old) * (next - old) * a.weight[j];
                in[j] += mirrored;
                out[j] -= mirrored;
                sum[j] = mirrored * a.weight[j];
                flow[j] = a.keep * mirrored + a.pull * anchor[j];
            }
            for (int j = 0; j < 8; j++) sum[j] += sum[j + 8];
            T* load = a.load + e * folded;
            for (int j = 0; j < folded; j++) load[j] += sum[j] + sum[j + folded];
        }
        T* mine = a.excess + static_cast<std::size_t>(v) * lanes;
        for (int j = 0; j < lanes; j++) mine[j] += in[j];
        if (measure)
            for (int j = 0; j < lanes; j++) moved += far[j];
    }
    for (int v = 0; v < n; v++) {
        const std::size_t row = static_cast<std::size_t>(v) * lanes;
        const T step = a.potential_step[v];
        T far[lanes];
        for (int j = 0; j < lanes; j++) {
            const T lack = a.demand[row + j] - a.excess[row + j];
            a.potential[row + j] = a.keep * (a.potential[row + j] + 2 * step * lack) + a.pull * a.potential_anchor[row + j];
            if (measure) far[j] = step * lack * lack * a.weight[j];
        }
        if (measure)
            for (int j = 0; j < lanes; j++) moved += far[j];
    }
    for (int j = 0; j < lanes; j++) {
        const std::size_t cell = static_cast<std::size_t>(a.source[j]) * lanes + j;
        if (measure) {  // potentials of sources stay 0
            const double lack = a.demand[cell] - a.excess[cell];
            moved -= a.potential_step[a.source[j]] * lack * lack * a.weight[j];
        }
        a.potential[cell] = 0;
    }
    a.moved = moved;
}

// The flows of the next primal point, max(0, f - step * reduced length), of one block.
template <class T>
inline __attribute__((always_inline)) void advance_body(const Sweep<T>& a, T* next) {
    const FlowLayout& layout = *a.layout;
    for (int e = 0; e < layout.m; e++) {
        const T* behind = a.potential + static_cast<std::size_t>(layout.tail[e]) * lanes;
        const T* near = a.potential + static_cast<std::size_t>(layout.head[e]) * lanes;
        const T* flow = a.flow + static_cast<std::size_t>(e) * lanes;
        for (int j = 0; j < lanes; j++) {
            const T aim = flow[j] - a.flow_step[e] * (a.length[e] + behind[j] - near[j]);
            next[static_cast<std::size_t>(e) * lanes + j] = aim > 0 ? aim : 0;
        }
    }
}

template <class T>
void sweep_any(Sweep<T>& a, bool measure) {
    if (measure)
        sweep_body<T, true>(a);
    else
        sweep_body<T, false>(a);
}

#if defined(__x86_64__) && defined(__GNUC__)
// Wider registers, and without fused operations the same results.
template <class T>
__attribute__((target("avx2"))) void sweep_avx2(Sweep<T>& a, bool measure) {
    if (measure)
        sweep_body<T, true>(a);
    else
        sweep_body<T, false>(a);
}
bool has_avx2() { return __builtin_cpu_supports("avx2"); }
#else
template <class T>
void sweep_avx2(Sweep<T>& a, bool measure) {
    sweep_any(a, measure);
}
bool has_avx2() { return false; }
#endif

template <class T>
class Solver {
public:
    Solver(const FlowProblem& problem, const FlowOptions& options, const Control& control, FlowResult& result)
        : options_(options),
          control_(control),
          result_(result),
          layout_(problem),
          pool_(options.threads),
          slots_(std::min(layout_.blocks, max_slots)) {}

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
        std::vector<T> load, excess;
        std::vector<double> loads, distance;
        std::vector<T> flow;  // of a block
        std::unique_ptr<FlowRepair> repair;
        double moved = 0, far = 0;
        std::int32_t failed[2] = {-1, -1};
    };

    int first_block(int slot) const { return static_cast<int>(static_cast<std::int64_t>(layout_.blocks) * slot / slots_); }
    std::size_t flow_cells() const { return static_cast<std::size_t>(layout_.m) * lanes; }
    std::size_t node_cells() const { return static_cast<std::size_t>(layout_.n) * lanes; }
    bool late() const {
        return options_.time_limit_s > 0 &&
               std::chrono::duration<double>(Clock::now() - began_).count() > options_.time_limit_s;
    }
    template <class Job>
    void each_block(const Job& job) {
        pool_.run(slots_, [&](int i) {
            for (int block = first_block(i); block < first_block(i + 1); block++) job(slot_[i], block);
        });
    }

    Status start();
    void set_steps();
    void balance();
    Status iterate();
    bool step(bool measure);
    void step_lengths(const std::vector<double>& load, bool measure);
    void set_anchor();
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
    int slots_;
    std::vector<Slot> slot_;
    Clock::time_point began_;

    std::vector<T> flow_, flow_anchor_, best_flow_, candidate_;
    std::vector<T> potential_, potential_anchor_, demand_;
    std::vector<T> flow_step_, potential_step_, length_cast_, weight_cast_;
    std::vector<double> length_, length_anchor_, length_step_, length_feasible_, certified_length_, best_length_;
    double shift_ = 0;      // multiplier of the last projection of the lengths
    double moved_ = 0;      // squared length of the last measured step
    double load_best_ = 0, bound_best_ = 0;
    std::int64_t since_restart_ = 0;
};

template <class T>
Status Solver<T>::start() {
    const int m = layout_.m;
    slot_.resize(slots_);
    for (auto& slot : slot_) {
        slot.load.resize(static_cast<std::size_t>(m) * folded);
        slot.excess.resize(node_cells());
        slot.loads.resize(m);
        slot.flow.resize(flow_cells());
        slot.repair = std::make_unique<FlowRepair>(layout_);
    }
    length_.resize(m);
    double total = 0;
    for (int e = 0; e < m; e++) {
        const double given = options_.start_length ? options_.start_length[layout_.link[e]] : 1 / layout_.capacity[e];
        length_[e] = std::max(given, 0.0);
        total += length_[e] * layout_.capacity[e];
    }
    for (auto& length : length_) length /= total;
    length_feasible_ = length_;
    for (const auto* list : {&flow_, &flow_anchor_, &best_flow_, &candidate_})
        const_cast<std::vector<T>*>(list)->resize(flow_cells() * layout_.blocks);
    for (const auto* list : {&potential_, &potential_anchor_, &demand_})
        const_cast<std::vector<T>*>(list)->resize(node_cells() * layout_.blocks);
    for (int s = 0; s < layout_.sources; s++) {
        T* cells = demand_.data() + node_cells() * (s / lanes) + s % lanes;
        for (int v = 0; v < layout_.n; v++)
            cells[static_cast<std::size_t>(v) * lanes] = static_cast<T>(layout_.demand[static_cast<std::size_t>(s) * layout_.n + v]);
    }
    for (double weight : layout_.weight) weight_cast_.push_back(static_cast<T>(weight));
    save_lengths();
    each_block([&](Slot& slot, int block) {
        block_distances(layout_, certified_length_.data(), block, slot.distance);
        const double far = block_demand_distance(layout_, block, slot.distance, slot.failed);
        if (far < 0) return;
        slot.far += far;
        T* potential = potential_.data() + node_cells() * block;
        for (std::size_t i = 0; i < node_cells(); i++)
            potential[i] = std::isinf(slot.distance[i]) ? T(0) : static_cast<T>(slot.distance[i]);
        for (int j = 0; j < layout_.lane_count(block); j++) {
            const int lane = block * lanes + j;
            if (options_.start_flow) {
                const double* given = options_.start_flow + static_cast<std::size_t>(lane) * m;
                for (int e = 0; e < m; e++) slot.repair->flow[e] = std::max(0.0, given[layout_.link[e]]);
                slot.repair->run(lane, slot.distance, certified_length_.data(), 1);
            } else {
                slot.repair->split_evenly(lane, slot.distance, certified_length_.data());
            }
            take_flow(block, *slot.repair, lane, flow_);
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
    candidate_ = flow_;
    judge(load, far);
    set_steps();
    balance();
    set_anchor();
    return Status::ok;
}

// Diagonal steps after Pock and Chambolle, with flows in units of their link's capacity.
template <class T>
void Solver<T>::set_steps() {
    const int n = layout_.n, m = layout_.m;
    std::vector<double> largest(n, 0), sum(n, 0);
    for (int e = 0; e < m; e++)
        for (int v : {layout_.tail[e], layout_.head[e]}) {
            largest[v] = std::max(largest[v], layout_.capacity[e]);
            sum[v] += layout_.capacity[e];
        }
    for (int e = 0; e < m; e++) {
        const double c = layout_.capacity[e];
        flow_step_.push_back(static_cast<T>(c * c / (TREADLE_KAPPA + c / largest[layout_.tail[e]] + c / largest[layout_.head[e]])));
        length_step_.push_back(TREADLE_KAPPA / (layout_.total_weight * c * c));
    }
    for (int v = 0; v < n; v++) potential_step_.push_back(sum[v] > 0 ? static_cast<T>(1 / (largest[v] * sum[v])) : T(0));
}

// Weighs flows against prices once and for all: adapting the weight stalls at 0.2% on generalised Kautz graphs.
template <class T>
void Solver<T>::balance() {
    double primal = 0, dual = 0;
    for (int block = 0; block < layout_.blocks; block++) {
        for (int e = 0; e < layout_.m; e++)
            for (int j = 0; j < lanes; j++) {
                const double f = flow_[flow_cells() * block + static_cast<std::size_t>(e) * lanes + j];
                primal += f * f / flow_step_[e] * layout_.weight[block * lanes + j];
            }
        for (int v = 0; v < layout_.n; v++)
            for (int j = 0; j < lanes && potential_step_[v] > 0; j++) {
                const double p = potential_[node_cells() * block + static_cast<std::size_t>(v) * lanes + j];
                dual += p * p / potential_step_[v] * layout_.weight[block * lanes + j];
            }
    }
    double omega = std::sqrt(dual / primal);
    if (const char* text = getenv("TREADLE_OMEGA")) omega *= atof(text);
    for (auto& step : flow_step_) step = static_cast<T>(step / omega);
    for (auto& step : potential_step_) step = static_cast<T>(step * omega);
    for (auto& step : length_step_) step *= omega;
}

template <class T>
void Solver<T>::take_flow(int block, const FlowRepair& repair, int lane, std::vector<T>& to) const {
    T* cells = to.data() + flow_cells() * block + lane % lanes;
    for (int e = 0; e < layout_.m; e++) cells[static_cast<std::size_t>(e) * lanes] = static_cast<T>(repair.flow[e]);
}

template <class T>
void Solver<T>::set_anchor() {
    flow_anchor_ = flow_;
    potential_anchor_ = potential_;
    length_anchor_ = length_;
    since_restart_ = 0;
}

// Lengths for a certificate: what the iteration has, and a trace more, so that nothing but a node's own is at 0.
template <class T>
void Solver<T>::save_lengths() {
    certified_length_.resize(layout_.m);
    for (int e = 0; e < layout_.m; e++)
        certified_length_[e] = (length_feasible_[e] + 1e-7 / (layout_.m * layout_.capacity[e])) / (1 + 1e-7);
}

template <class T>
bool Solver<T>::step(bool measure) {
    const T keep = static_cast<T>(since_restart_ + 1) / static_cast<T>(since_restart_ + 2);
    length_cast_.assign(length_.begin(), length_.end());
    for (auto& slot : slot_) slot.moved = 0;
    pool_.run(slots_, [&](int i) {
        Slot& slot = slot_[i];
        std::fill(slot.load.begin(), slot.load.end(), T(0));
        for (int block = first_block(i); block < first_block(i + 1); block++) {
            Sweep<T> a{};
            a.layout = &layout_;
            a.length = length_cast_.data();
            a.flow_step = flow_step_.data();
            a.potential_step = potential_step_.data();
            a.weight = weight_cast_.data() + block * lanes;
            a.demand = demand_.data() + node_cells() * block;
            a.flow = flow_.data() + flow_cells() * block;
            a.potential = potential_.data() + node_cells() * block;
            a.flow_anchor = flow_anchor_.data() + flow_cells() * block;
            a.potential_anchor = potential_anchor_.data() + node_cells() * block;
            a.keep = keep;
            a.pull = 1 - keep;
            a.excess = slot.excess.data();
            a.load = slot.load.data();
            a.source = layout_.source.data() + block * lanes;
            if (has_avx2())
                sweep_avx2(a, measure);
            else
                sweep_any(a, measure);
            slot.moved += a.moved;
        }
    });
    std::vector<double> load(layout_.m, 0);
    for (const auto& slot : slot_)
        for (int e = 0; e < layout_.m; e++)
            for (int j = 0; j < folded; j++) load[e] += slot.load[static_cast<std::size_t>(e) * folded + j];
    layout_.share_in_orbits(load);
    moved_ = 0;
    for (const auto& slot : slot_) moved_ += slot.moved;
    step_lengths(load, measure);
    since_restart_++;
    return true;
}

// Ascent along the loads, then projection to lengths >= 0 whose sum weighted by capacity is 1 (Newton on the shift).
template <class T>
void Solver<T>::step_lengths(const std::vector<double>& load, bool measure) {
    const int m = layout_.m;
    std::vector<double>& aim = length_feasible_;
    for (int e = 0; e < m; e++) aim[e] = length_[e] + length_step_[e] * load[e];
    auto residual = [&](double shift, double& slope) {
        double sum = -1;
        slope = 0;
        for (int e = 0; e < m; e++) {
            const double c = layout_.capacity[e], value = aim[e] - shift * length_step_[e] * c;
            if (value > 0) {
                sum += c * value;
                slope += length_step_[e] * c * c;
            }
        }
        return sum;
    };
    // from the left of the root the iteration rises to it without overshooting
    double slope, shift = shift_, value = residual(shift, slope);
    while (value < 0) {
        shift -= slope > 0 ? -value / slope * 1.01 + 1e-12 : 1 + std::abs(shift);
        value = residual(shift, slope);
        if (slope == 0) shift -= 1 + std::abs(shift);
    }
    for (int round = 0; round < 100 && value > 1e-15 && slope > 0; round++) {
        shift += value / slope;
        const double before = value;
        value = residual(shift, slope);
        if (value >= before) break;
    }
    shift_ = shift;
    const double keep = static_cast<double>(since_restart_ + 1) / static_cast<double>(since_restart_ + 2);
    for (int e = 0; e < m; e++) {
        const double next = std::max(0.0, aim[e] - shift * length_step_[e] * layout_.capacity[e]);
        if (measure) moved_ += (next - length_[e]) * (next - length_[e]) / length_step_[e];
        length_feasible_[e] = next;
        length_[e] = keep * (2 * next - length_[e]) + (1 - keep) * length_anchor_[e];
    }
}

template <class T>
Status Solver<T>::iterate() {
    constexpr int measured_every = 8;
    std::int64_t next_certificate = 24;
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
        const bool measure = since_restart_ == 0 || iteration % measured_every == 0;
        step(measure);
        iteration++;
        if (measure) {
            const double size = std::sqrt(moved_);
            if (since_restart_ == 1) {
                first_step = size;
            } else {
                const bool much = size <= 0.2 * first_step;
                const bool rising = size <= 0.8 * first_step && size > last_step;
                const bool long_ago = since_restart_ >= 0.36 * static_cast<double>(iteration) && iteration > 100;
                if (much || rising || long_ago) set_anchor();
            }
            last_step = size;
        }
        if (iteration >= next_certificate) {
            certify();
            next_certificate = iteration + std::max<std::int64_t>(24, iteration / 8);
            if (getenv("TREADLE_TRACE")) fprintf(stderr, "%ld gap %.3e load %.8g bound %.8g step %.3e since %ld\n", (long)iteration, 1 - bound_best_ / load_best_, load_best_, bound_best_, last_step, (long)since_restart_);
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
    length_cast_.assign(length_.begin(), length_.end());
    for (auto& slot : slot_) {
        slot.far = 0;
        std::fill(slot.loads.begin(), slot.loads.end(), 0.0);
    }
    each_block([&](Slot& slot, int block) {
        if (control_.cancelled()) return;
        Sweep<T> a{};
        a.layout = &layout_;
        a.length = length_cast_.data();
        a.flow_step = flow_step_.data();
        a.flow = flow_.data() + flow_cells() * block;
        a.potential = potential_.data() + node_cells() * block;
        advance_body(a, slot.flow.data());
        block_distances(layout_, certified_length_.data(), block, slot.distance);
        slot.far += block_demand_distance(layout_, block, slot.distance, slot.failed);
        for (int j = 0; j < layout_.lane_count(block); j++) {
            const int lane = block * lanes + j;
            for (int e = 0; e < m; e++) slot.repair->flow[e] = slot.flow[static_cast<std::size_t>(e) * lanes + j];
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
        const T* cells = best_flow_.data() + flow_cells() * block;
        for (int j = 0; j < layout_.lane_count(block); j++) {
            const int lane = block * lanes + j;
            for (int e = 0; e < m; e++) slot.repair->flow[e] = cells[static_cast<std::size_t>(e) * lanes + j];
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

double demand_distance(const FlowProblem& problem, const double* length, int threads, FlowResult& result) {
    const FlowLayout layout(problem);
    std::vector<double> by_place(layout.m);
    for (int e = 0; e < layout.m; e++) by_place[e] = length[layout.link[e]];
    WorkerPool pool(threads);
    std::vector<double> far(layout.blocks, 0);
    std::vector<std::int32_t> failed(2 * layout.blocks, -1);
    pool.run(layout.blocks, [&](int block) {
        std::vector<double> distance;
        block_distances(layout, by_place.data(), block, distance);
        far[block] = block_demand_distance(layout, block, distance, failed.data() + 2 * block);
    });
    double total = 0;
    for (int block = 0; block < layout.blocks; block++) {
        if (failed[2 * block] >= 0) {
            result.failed_source = failed[2 * block];
            result.failed_node = failed[2 * block + 1];
            return -1;
        }
        total += far[block];
    }
    return total;
}

}  // namespace treadle
