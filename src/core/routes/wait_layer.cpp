// Only a wait that is neither held nor refused costs a search (Pearce and Kelly, ACM JEA 11, 2006: an order repaired
// where it must be).
#include "routes/wait_layer.hpp"

#include <algorithm>
#include <iterator>
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

WaitLayer::WaitLayer(const WaitTable& table)
    : t_(table), state_(table.size(), unknown), place_(table.m), at_(table.m), marked_(table.m / 64 + 1, 0) {
    std::iota(place_.begin(), place_.end(), 0);
    std::iota(at_.begin(), at_.end(), 0);
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
    order.insert(order.end(), at_.begin(), at_.end());
}

// Places are visited in their order, as bits of words, so that what is found comes sorted. No branch asks whether a wait
// is held: half are, in no order that a processor could guess.
bool WaitLayer::repair(int a, int b) {
    const int low = place_[b], high = place_[a];
    const State* state = state_.data();
    const int *place = place_.data(), *at = at_.data(), *slot = t_.slot.data();
    const int *first_out = t_.first_out.data(), *first_in = t_.first_in.data();
    const std::size_t* first = t_.first.data();
    std::uint64_t* marked = marked_.data();
    const auto mark = [marked](int p, bool is_wanted) { marked[p >> 6] |= std::uint64_t{is_wanted} << (p & 63); };
    ahead_.clear();
    mark(low, true);
    for (int word = low >> 6; word <= (high >> 6); word++)
        while (marked[word]) {
            const int link = at[(word << 6) + __builtin_ctzll(marked[word])];
            marked[word] &= marked[word] - 1;
            ahead_.push_back(link);
            const State* taken = state + first[link];
            const int *after = t_.out.data() + first_out[t_.head[link]], *end = t_.out.data() + first_out[t_.head[link] + 1];
            for (; after != end; after++, taken++) {
                const int p = place[*after];
                mark(p, (*taken == held) & (p <= high));
            }
            if (marked[high >> 6] >> (high & 63) & 1) {
                std::fill(marked + word, marked + (high >> 6) + 1, 0);
                return false;
            }
        }
    behind_.clear();
    mark(high, true);
    for (int word = high >> 6; word >= (low >> 6); word--)
        while (marked[word]) {
            const int bit = 63 - __builtin_clzll(marked[word]), link = at[(word << 6) + bit];
            marked[word] ^= std::uint64_t{1} << bit;
            behind_.push_back(link);
            const int *before = t_.in.data() + first_in[t_.tail[link]], *end = t_.in.data() + first_in[t_.tail[link] + 1];
            for (; before != end; before++) {
                const int p = place[*before];
                mark(p, (state[first[*before] + slot[link]] == held) & (p > low));
            }
        }
    std::reverse(behind_.begin(), behind_.end());
    free_.clear();
    std::merge(behind_.begin(), behind_.end(), ahead_.begin(), ahead_.end(), std::back_inserter(free_),
               [place](int x, int y) { return place[x] < place[y]; });
    for (int& link : free_) link = place_[link];
    behind_.insert(behind_.end(), ahead_.begin(), ahead_.end());
    for (std::size_t i = 0; i < behind_.size(); i++) {
        place_[behind_[i]] = free_[i];
        at_[free_[i]] = behind_[i];
    }
    return true;
}

}  // namespace treadle
