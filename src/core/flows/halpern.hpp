// Restarted reflected Halpern iteration of the primal-dual hybrid gradient method, on the concurrent flow by source.
//
// The saddle point problem: flows f >= 0 against link lengths l >= 0 with sum of capacity times length 1, and potentials
// of every source. After Lu and Yang, "Restarted Halpern PDHG for linear programming" (2024): a point is reflected over
// its image, and averaged with an anchor by weights (k + 1) / (k + 2) and 1 / (k + 2); a restart makes the point the new
// anchor. Diagonal steps by Pock and Chambolle (2011).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flows/flow_certificate.hpp"
#include "flows/flow_sweep.hpp"
#include "worker_pool.hpp"

namespace treadle {

template <class T>
class HalpernIteration {
   public:
    HalpernIteration(const FlowLayout& layout, WorkerPool& pool);

    // The point. Arrays of sources are (block, row, lane).
    std::vector<T> flow;       // rows: links by place
    std::vector<T> potential;  // rows: nodes
    std::vector<double> length;           // by place
    std::vector<double> feasible_length;  // the last projection: >= 0, sum of capacity times length is 1

    // Steps, and the anchor, from the point as it is.
    void begin();
    // Moves the point. Returns the length of the step in the method's metric if it is measured.
    double step(bool measure);
    std::int64_t since_restart() const { return since_restart_; }
    void restart();
    // To be called before `next_flow` when the point has moved.
    void prepare_next_flow() { length_cast_.assign(length.begin(), length.end()); }
    // The flows >= 0 of a block that the next step aims at, (m, lanes).
    void next_flow(int block, T* next);

    std::size_t flow_cells() const { return static_cast<std::size_t>(layout_.m) * flow_lanes; }   // of a block
    std::size_t node_cells() const { return static_cast<std::size_t>(layout_.n) * flow_lanes; }

   private:
    struct Slot {
        std::vector<T> load, excess;
        double moved = 0;
    };

    void set_steps();
    void set_anchor();
    void weigh_prices(double factor);
    void rebalance();
    double primal_size(const std::vector<T>* origin) const;
    double dual_size(const std::vector<T>* origin) const;
    void step_lengths(const std::vector<double>& load, bool measure);

    const FlowLayout& layout_;
    WorkerPool& pool_;
    std::vector<Slot> slot_;
    std::vector<T> flow_anchor_, potential_anchor_, demand_;
    std::vector<T> flow_step_, potential_step_, length_cast_, weight_cast_;
    std::vector<double> length_anchor_, length_step_;
    double shift_ = 0;   // multiplier of the last projection of the lengths
    double change_ = 1;  // of the weight of prices since the start
    double moved_ = 0;   // squared length of the last measured step
    std::int64_t since_restart_ = 0;
};

}  // namespace treadle
