#include "flows/halpern.hpp"

#include <algorithm>
#include <cmath>

namespace treadle {
namespace {

// Weight of prices against flows, times what the start suggests. Measured on generalised Kautz and random regular
// graphs of 100 to 1000 nodes: 1 to 4 are alike, others need more iterations.
constexpr double price_weight = 2;

// That weight stays unless one side moved so much farther than the other between restarts: adapting it always stalls
// near 0.2% on generalised Kautz graphs of 1000 nodes, never adapting it at 5% and more on skewed demands.
constexpr double lopsided = 10, damping = 0.8, most_change = 1e6;

}  // namespace

template <class T>
HalpernIteration<T>::HalpernIteration(const FlowLayout& layout, WorkerPool& pool)
    : layout_(layout), pool_(pool), slot_(layout.slots()) {
    flow.resize(flow_cells() * layout.blocks);
    potential.resize(node_cells() * layout.blocks);
    demand_.resize(node_cells() * layout.blocks);
    for (auto& slot : slot_) {
        slot.load.resize(static_cast<std::size_t>(layout.m) * Wide<T>::width);
        slot.excess.resize(node_cells());
    }
    for (int s = 0; s < layout.sources; s++) {
        T* cells = demand_.data() + node_cells() * (s / flow_lanes) + s % flow_lanes;
        const double* demand = layout.demand + static_cast<std::size_t>(s) * layout.n;
        for (int v = 0; v < layout.n; v++) cells[static_cast<std::size_t>(v) * flow_lanes] = static_cast<T>(demand[v]);
    }
    for (double weight : layout.weight) weight_cast_.push_back(static_cast<T>(weight));
}

template <class T>
void HalpernIteration<T>::begin() {
    set_steps();
    weigh_prices(price_weight * std::sqrt(dual_size(nullptr) / primal_size(nullptr)));
    set_anchor();
}

template <class T>
void HalpernIteration<T>::restart() {
    rebalance();
    set_anchor();
}

// Diagonal steps after Pock and Chambolle, with flows in units of their link's capacity.
template <class T>
void HalpernIteration<T>::set_steps() {
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
double HalpernIteration<T>::primal_size(const std::vector<T>* origin) const {
    double sum = 0;
    for (int block = 0; block < layout_.blocks; block++)
        for (int e = 0; e < layout_.m; e++)
            for (int j = 0; j < flow_lanes; j++) {
                const std::size_t cell = flow_cells() * block + static_cast<std::size_t>(e) * flow_lanes + j;
                const double f = flow[cell] - (origin ? (*origin)[cell] : T(0));
                sum += f * f / flow_step_[e] * layout_.weight[block * flow_lanes + j];
            }
    return sum;
}

template <class T>
double HalpernIteration<T>::dual_size(const std::vector<T>* origin) const {
    double sum = 0;
    for (int block = 0; block < layout_.blocks; block++)
        for (int v = 0; v < layout_.n; v++)
            for (int j = 0; j < flow_lanes && potential_step_[v] > 0; j++) {
                const std::size_t cell = node_cells() * block + static_cast<std::size_t>(v) * flow_lanes + j;
                const double p = potential[cell] - (origin ? (*origin)[cell] : T(0));
                sum += p * p / potential_step_[v] * layout_.weight[block * flow_lanes + j];
            }
    return sum;
}

template <class T>
void HalpernIteration<T>::weigh_prices(double factor) {
    for (auto& step : flow_step_) step = static_cast<T>(step / factor);
    for (auto& step : potential_step_) step = static_cast<T>(step * factor);
    for (auto& step : length_step_) step *= factor;
    shift_ = 0;
}

template <class T>
void HalpernIteration<T>::rebalance() {
    double dual = dual_size(&potential_anchor_);
    for (int e = 0; e < layout_.m; e++)
        dual += (length[e] - length_anchor_[e]) * (length[e] - length_anchor_[e]) / length_step_[e];
    const double ratio = std::sqrt(dual / primal_size(&flow_anchor_));
    if (!std::isfinite(ratio) || (ratio < lopsided && ratio * lopsided > 1)) return;
    const double factor = std::pow(std::clamp(ratio, 1 / most_change, most_change), damping);
    const double total = std::clamp(change_ * factor, 1 / most_change, most_change);
    weigh_prices(total / change_);
    change_ = total;
}

template <class T>
void HalpernIteration<T>::set_anchor() {
    flow_anchor_ = flow;
    potential_anchor_ = potential;
    length_anchor_ = length;
    since_restart_ = 0;
}

template <class T>
double HalpernIteration<T>::step(bool measure) {
    const T keep = static_cast<T>(since_restart_ + 1) / static_cast<T>(since_restart_ + 2);
    length_cast_.assign(length.begin(), length.end());
    for (auto& slot : slot_) slot.moved = 0;
    pool_.run(layout_.slots(), [&](int i) {
        Slot& slot = slot_[i];
        std::fill(slot.load.begin(), slot.load.end(), T(0));
        for (int block = layout_.first_block(i); block < layout_.first_block(i + 1); block++) {
            Sweep<T> a{};
            a.layout = &layout_;
            a.length = length_cast_.data();
            a.flow_step = flow_step_.data();
            a.potential_step = potential_step_.data();
            a.weight = weight_cast_.data() + block * flow_lanes;
            a.demand = demand_.data() + node_cells() * block;
            a.flow = flow.data() + flow_cells() * block;
            a.potential = potential.data() + node_cells() * block;
            a.flow_anchor = flow_anchor_.data() + flow_cells() * block;
            a.potential_anchor = potential_anchor_.data() + node_cells() * block;
            a.keep = keep;
            a.pull = 1 - keep;
            a.excess = slot.excess.data();
            a.load = slot.load.data();
            a.source = layout_.source.data() + block * flow_lanes;
            sweep_block(a, measure);
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
    return std::sqrt(std::max(0.0, moved_));
}

// Ascent along the loads, then projection to lengths >= 0 whose sum weighted by capacity is 1 (Newton on the shift).
template <class T>
void HalpernIteration<T>::step_lengths(const std::vector<double>& load, bool measure) {
    const int m = layout_.m;
    std::vector<double>& aim = feasible_length;
    for (int e = 0; e < m; e++) aim[e] = length[e] + length_step_[e] * load[e];
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
        if (measure) moved_ += (next - length[e]) * (next - length[e]) / length_step_[e];
        feasible_length[e] = next;
        length[e] = keep * (2 * next - length[e]) + (1 - keep) * length_anchor_[e];
    }
}

template <class T>
void HalpernIteration<T>::next_flow(int block, T* next) {
    Sweep<T> a{};
    a.layout = &layout_;
    a.length = length_cast_.data();
    a.flow_step = flow_step_.data();
    a.flow = flow.data() + flow_cells() * block;
    a.potential = potential.data() + node_cells() * block;
    next_flows(a, next);
}

template class HalpernIteration<float>;
template class HalpernIteration<double>;

}  // namespace treadle
