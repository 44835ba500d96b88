#include "flows/concurrent_flow.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>

#include "flows/flow_certificate.hpp"
#include "worker_pool.hpp"

namespace treadle {

namespace {

constexpr int lanes = flow_lanes;
constexpr int max_slots = 16;  // shares of the work; sums run over slots in order, whatever the threads did

// Weight of prices against flows, times what the start suggests. Measured on generalised Kautz and random regular
// graphs of 100 to 1000 nodes: 1 to 4 are alike, others need more iterations.
constexpr double price_weight = 2;

// That weight stays unless one side moved so much farther than the other between restarts: adapting it always stalls
// near 0.2% on generalised Kautz graphs of 1000 nodes, never adapting it at 5% and more on skewed demands.
constexpr double lopsided = 10, damping = 0.8, most_change = 1e6;

// Restarts after Lu and Yang: the step has shrunk much, or somewhat and grows again, or long ago.
constexpr double much_shorter = 0.2, shorter = 0.8, share_of_all = 0.36;
constexpr int measured_every = 8;

// Lanes side by side in one register; compilers lower it where registers are narrower.
template <class T>
struct Wide {
    typedef T type __attribute__((vector_size(32)));
    static constexpr int width = 32 / sizeof(T);
    static constexpr int parts = lanes / width;
};

// Operands of one sweep over the sources of a block. Arrays of sources are (row, lane).
template <class T>
struct Sweep {
    const FlowLayout* layout;
    const T *length, *flow_step, *potential_step, *weight, *demand;
    T *flow, *potential;
    const T *flow_anchor, *potential_anchor;
    T keep, pull;       // weights of the reflected point and of the anchor
    T* excess;          // scratch, (n, lanes)
    T* load;            // added to, (m, Wide<T>::width)
    const std::int32_t* source;
    double moved = 0;   // out: squared length of the step in the method's metric
};

template <class T>
struct LoadOf {  // unaligned access
    using V = typename Wide<T>::type;
    static inline __attribute__((always_inline)) void get(V& to, const T* from) { std::memcpy(&to, from, sizeof to); }
    static inline __attribute__((always_inline)) void put(T* to, const V& from) { std::memcpy(to, &from, sizeof from); }
};

// One step of reflected Halpern iteration in flows and potentials.
template <class T, bool measure>
inline __attribute__((always_inline)) void sweep_body(Sweep<T>& a) {
    using V = typename Wide<T>::type;
    using At = LoadOf<T>;
    constexpr int width = Wide<T>::width, parts = Wide<T>::parts;
    const FlowLayout& layout = *a.layout;
    const int n = layout.n;
    const T keep = a.keep, pull = a.pull;
    std::memset(a.excess, 0, sizeof(T) * n * lanes);
    V weight[parts], moved[parts];
    for (int p = 0; p < parts; p++) {
        At::get(weight[p], a.weight + p * width);
        moved[p] = V{};
    }
    const V zero = V{};
    for (int v = 0; v < n; v++) {
        const std::size_t row = static_cast<std::size_t>(v) * lanes;
        V near[parts], in[parts];
        for (int p = 0; p < parts; p++) {
            At::get(near[p], a.potential + row + p * width);
            in[p] = V{};
        }
        for (std::int64_t e = layout.first_in[v]; e < layout.first_in[v + 1]; e++) {
            const std::size_t tail = static_cast<std::size_t>(layout.tail[e]) * lanes;
            const std::size_t cell = static_cast<std::size_t>(e) * lanes;
            const T length = a.length[e], step = a.flow_step[e];
            V sum = V{};
            for (int p = 0; p < parts; p++) {
                V old, behind, anchor, out;
                At::get(old, a.flow + cell + p * width);
                At::get(behind, a.potential + tail + p * width);
                At::get(anchor, a.flow_anchor + cell + p * width);
                At::get(out, a.excess + tail + p * width);
                const V aim = old - step * (length + behind - near[p]);
                const V next = aim > zero ? aim : zero;
                const V mirrored = next + next - old;
                if (measure) moved[p] += (next - old) * (next - old) * weight[p] / step;
                in[p] += mirrored;
                At::put(a.excess + tail + p * width, out - mirrored);
                sum += mirrored * weight[p];
                At::put(a.flow + cell + p * width, keep * mirrored + pull * anchor);
            }
            V load;
            At::get(load, a.load + e * width);
            At::put(a.load + e * width, load + sum);
        }
        for (int p = 0; p < parts; p++) {
            V mine;
            At::get(mine, a.excess + row + p * width);
            At::put(a.excess + row + p * width, mine + in[p]);
        }
    }
    for (int j = 0; j < lanes; j++) {  // potentials of sources stay 0
        const std::size_t cell = static_cast<std::size_t>(a.source[j]) * lanes + j;
        a.excess[cell] = a.demand[cell];
    }
    for (int v = 0; v < n; v++) {
        const std::size_t row = static_cast<std::size_t>(v) * lanes;
        const T step = a.potential_step[v];
        for (int p = 0; p < parts; p++) {
            V demand, excess, potential, anchor;
            At::get(demand, a.demand + row + p * width);
            At::get(excess, a.excess + row + p * width);
            At::get(potential, a.potential + row + p * width);
            At::get(anchor, a.potential_anchor + row + p * width);
            const V lack = demand - excess;
            if (measure) moved[p] += step * lack * lack * weight[p];
            At::put(a.potential + row + p * width, keep * (potential + 2 * step * lack) + pull * anchor);
        }
    }
    a.moved = 0;
    for (int p = 0; p < parts; p++)
        for (int j = 0; j < width; j++) a.moved += moved[p][j];
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
    void step(bool measure);
    void step_lengths(const std::vector<double>& load, bool measure);
    double primal_size(const std::vector<T>* origin) const;
    double dual_size(const std::vector<T>* origin) const;
    void weigh_prices(double factor);
    void rebalance();
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
    double change_ = 1;     // of the weight of prices since the start
    double moved_ = 0;      // squared length of the last measured step
    double load_best_ = 0, bound_best_ = 0;
    std::int64_t since_restart_ = 0;
};

template <class T>
Status Solver<T>::start() {
    const int m = layout_.m;
    slot_.resize(slots_);
    for (auto& slot : slot_) {
        slot.load.resize(static_cast<std::size_t>(m) * Wide<T>::width);
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
        flow_step_.push_back(static_cast<T>(c * c / (1 + c / largest[layout_.tail[e]] + c / largest[layout_.head[e]])));
        length_step_.push_back(1 / (layout_.total_weight * c * c));
    }
    for (int v = 0; v < n; v++) potential_step_.push_back(sum[v] > 0 ? static_cast<T>(1 / (largest[v] * sum[v])) : T(0));
}

// Squared distance of the flows from `origin` (or 0) in the metric of their steps.
template <class T>
double Solver<T>::primal_size(const std::vector<T>* origin) const {
    double sum = 0;
    for (int block = 0; block < layout_.blocks; block++)
        for (int e = 0; e < layout_.m; e++)
            for (int j = 0; j < lanes; j++) {
                const std::size_t cell = flow_cells() * block + static_cast<std::size_t>(e) * lanes + j;
                const double f = flow_[cell] - (origin ? (*origin)[cell] : T(0));
                sum += f * f / flow_step_[e] * layout_.weight[block * lanes + j];
            }
    return sum;
}

template <class T>
double Solver<T>::dual_size(const std::vector<T>* origin) const {
    double sum = 0;
    for (int block = 0; block < layout_.blocks; block++)
        for (int v = 0; v < layout_.n; v++)
            for (int j = 0; j < lanes && potential_step_[v] > 0; j++) {
                const std::size_t cell = node_cells() * block + static_cast<std::size_t>(v) * lanes + j;
                const double p = potential_[cell] - (origin ? (*origin)[cell] : T(0));
                sum += p * p / potential_step_[v] * layout_.weight[block * lanes + j];
            }
    return sum;
}

template <class T>
void Solver<T>::weigh_prices(double factor) {
    for (auto& step : flow_step_) step = static_cast<T>(step / factor);
    for (auto& step : potential_step_) step = static_cast<T>(step * factor);
    for (auto& step : length_step_) step *= factor;
    shift_ = 0;
}

template <class T>
void Solver<T>::balance() {
    weigh_prices(price_weight * std::sqrt(dual_size(nullptr) / primal_size(nullptr)));
}

template <class T>
void Solver<T>::rebalance() {
    double dual = dual_size(&potential_anchor_);
    for (int e = 0; e < layout_.m; e++)
        dual += (length_[e] - length_anchor_[e]) * (length_[e] - length_anchor_[e]) / length_step_[e];
    const double ratio = std::sqrt(dual / primal_size(&flow_anchor_));
    if (!std::isfinite(ratio) || (ratio < lopsided && ratio * lopsided > 1)) return;
    const double factor = std::pow(std::clamp(ratio, 1 / most_change, most_change), damping);
    const double total = std::clamp(change_ * factor, 1 / most_change, most_change);
    weigh_prices(total / change_);
    change_ = total;
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
void Solver<T>::step(bool measure) {
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
            for (int j = 0; j < Wide<T>::width; j++) load[e] += slot.load[static_cast<std::size_t>(e) * Wide<T>::width + j];
    layout_.share_in_orbits(load);
    moved_ = 0;
    for (const auto& slot : slot_) moved_ += slot.moved;
    step_lengths(load, measure);
    since_restart_++;
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
            const double size = std::sqrt(std::max(0.0,moved_));
            if (since_restart_ == 1) {
                first_step = size;
            } else {
                const bool much = size <= much_shorter * first_step;
                const bool rising = size <= shorter * first_step && size > last_step;
                const bool long_ago = since_restart_ >= share_of_all * static_cast<double>(iteration) && iteration > 100;
                if (much || rising || long_ago) {
                    rebalance();
                    set_anchor();
                }
            }
            last_step = size;
        }
        if (iteration >= next_certificate) {
            certify();
            next_certificate = iteration + std::max<std::int64_t>(24, iteration / 8);
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

}  // namespace treadle
