// Only a wait that is neither held nor refused costs a search (Pearce and Kelly, ACM JEA 11, 2006: an order repaired
// where it must be).
#include "routes/wait_layer.hpp"

#include <algorithm>
#include <numeric>

namespace treadle {

WaitTable::WaitTable(const WaitPaths& paths)
    : m(paths.n_links), tail(paths.tail), head(paths.head), first_out(paths.n_nodes + 1, 0), first_in(paths.n_nodes + 1, 0),
      slot(m), first(m + 1, 0) {
    for (int e = 0; e < m; e++) {
        first_out[tail[e] + 1]++;
        first_in[head[e] + 1]++;
    }
    std::partial_sum(first_out.begin(), first_out.end(), first_out.begin());
    std::partial_sum(first_in.begin(), first_in.end(), first_in.begin());
    out.resize(m);
    in.resize(m);
    std::vector<int> next_out(first_out.begin(), first_out.end() - 1), next_in(first_in.begin(), first_in.end() - 1);
    for (int e = 0; e < m; e++) {
        slot[e] = next_out[tail[e]] - first_out[tail[e]];
        out[next_out[tail[e]]++] = e;
        in[next_in[head[e]]++] = e;
    }
    for (int e = 0; e < m; e++) first[e + 1] = first[e] + first_out[head[e] + 1] - first_out[head[e]];
}

WaitLayer::WaitLayer(const WaitTable& table) : t_(table), state_(table.size(), unknown), place_(table.m), mark_(table.m, 0) {
    std::iota(place_.begin(), place_.end(), 0);
}

bool WaitLayer::insert(int a, int b) {
    if (a == b || (place_[a] > place_[b] && !repair(a, b))) return false;
    state_[t_.wait(a, b)] = held;
    return true;
}

bool WaitLayer::take(const std::int32_t* link, std::int64_t hops) {
    for (std::int64_t j = 1; j < hops; j++)
        if (state_[t_.wait(link[j - 1], link[j])] == refused) return false;
    fresh_.clear();
    for (std::int64_t j = 1; j < hops; j++) {
        const int a = link[j - 1], b = link[j];
        const std::size_t wait = t_.wait(a, b);
        if (state_[wait] == held) continue;
        if (insert(a, b)) {
            fresh_.push_back(wait);
            continue;
        }
        for (std::size_t back : fresh_) drop(back);
        // what is held only grows: a wait that closes a cycle by itself always will
        if (fresh_.empty() || !insert(a, b))
            refuse(wait);
        else
            drop(wait);
        return false;
    }
    return true;
}

void WaitLayer::append_order(std::vector<std::int32_t>& order) const {
    const std::size_t at = order.size();
    order.resize(at + place_.size());
    for (std::size_t e = 0; e < place_.size(); e++) order[at + place_[e]] = static_cast<std::int32_t>(e);
}

bool WaitLayer::repair(int a, int b) {
    const int low = place_[b], high = place_[a];
    stamp_++;
    ahead_.assign(1, b);
    mark_[b] = stamp_;
    for (std::size_t i = 0; i < ahead_.size(); i++) {
        const int link = ahead_[i], node = t_.head[link];
        for (int j = t_.first_out[node]; j < t_.first_out[node + 1]; j++) {
            const int after = t_.out[j];
            if (state_[t_.wait(link, after)] != held || mark_[after] == stamp_) continue;
            if (after == a) return false;
            if (place_[after] >= high) continue;
            mark_[after] = stamp_;
            ahead_.push_back(after);
        }
    }
    stamp_++;
    behind_.assign(1, a);
    mark_[a] = stamp_;
    for (std::size_t i = 0; i < behind_.size(); i++) {
        const int link = behind_[i], node = t_.tail[link];
        for (int j = t_.first_in[node]; j < t_.first_in[node + 1]; j++) {
            const int before = t_.in[j];
            if (state_[t_.wait(before, link)] != held || mark_[before] == stamp_ || place_[before] <= low) continue;
            mark_[before] = stamp_;
            behind_.push_back(before);
        }
    }
    const auto by_place = [this](int x, int y) { return place_[x] < place_[y]; };
    std::sort(ahead_.begin(), ahead_.end(), by_place);
    std::sort(behind_.begin(), behind_.end(), by_place);
    behind_.insert(behind_.end(), ahead_.begin(), ahead_.end());
    free_.clear();
    for (int link : behind_) free_.push_back(place_[link]);
    std::sort(free_.begin(), free_.end());
    for (std::size_t i = 0; i < behind_.size(); i++) place_[behind_[i]] = free_[i];
    return true;
}

}  // namespace treadle
