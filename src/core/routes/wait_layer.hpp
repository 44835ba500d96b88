// One layer: waits between links that close no cycle, and an order of the links that they climb. A fabric has few waits,
// one for each link and link after it, so a table says of each whether it is held or can never be.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "routes/layer_orders.hpp"

namespace treadle {

// The links before and after each, and a number for each wait.
struct WaitTable {
    explicit WaitTable(const WaitPaths& paths);
    std::size_t wait(int a, int b) const { return first[a] + slot[b]; }
    std::size_t size() const { return first[m]; }

    int m;
    const std::int32_t *tail, *head;
    std::vector<int> first_out, first_in, out, in, slot;
    std::vector<std::size_t> first;
};

class WaitLayer {
public:
    enum State : std::uint8_t { unknown, held, refused };

    explicit WaitLayer(const WaitTable& table);
    State state(std::size_t wait) const { return state_[wait]; }
    void drop(std::size_t wait) { state_[wait] = unknown; }
    void refuse(std::size_t wait) { state_[wait] = refused; }

    // Hold the wait of a for b unless it closes a cycle.
    bool insert(int a, int b);

    // Hold all waits of a path, or none of those that are new.
    bool take(const std::int32_t* link, std::int64_t hops);

    const std::vector<int>& places() const { return place_; }

    // Its links, the first first.
    void append_order(std::vector<std::int32_t>& order) const;

private:
    bool repair(int a, int b);

    const WaitTable& t_;
    std::vector<State> state_;
    std::vector<int> place_, at_, ahead_, behind_, free_;  // at_: the link at each place
    std::vector<std::uint64_t> marked_;                    // a bit for each place, none outside of `repair`
    std::vector<std::size_t> fresh_;
};

}  // namespace treadle
