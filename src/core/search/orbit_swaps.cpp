// Simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983). What a step may cost is drawn before a graph is judged,
// so that a graph is given up as soon as its loads exceed that. Receivers that made the last graphs fail are looked at
// first, one of each orbit: the others see the same.
#include "search/orbit_swaps.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "routes/random.hpp"
#include "steps/bfb_rows.hpp"
#include "steps/subset_loads.hpp"

namespace treadle {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::uint8_t kFar = 254;
constexpr int kMostDegree = 8;
constexpr int kBlock = 16;  // bytes handled at once, beyond the end of a row too
using Block = std::uint8_t __attribute__((vector_size(kBlock)));

struct Worth {
    std::int64_t missed = kNever, cost = 0;
    bool operator<(const Worth& other) const {
        return missed < other.missed || (missed == other.missed && cost < other.cost);
    }
};

// One direction: distances to node 0 of each orbit, and the loads of what it receives.
class OrbitSide {
   public:
    OrbitSide(const std::vector<std::int32_t>& size, int degree, int target)
        : size_(size), orbits_(static_cast<int>(size.size())), degree_(degree), start_(orbits_ + 1) {
        for (int i = 0; i < orbits_; i++) start_[i + 1] = start_[i] + size[i];
        n_ = start_[orbits_];
        // every orbit more than twice, so that a turned row begins further on
        for (int i = 0; i < orbits_; i++) place_of_.push_back(width_), width_ += 3 * size[i] + 2 * kBlock;
        twice_.resize(static_cast<std::size_t>(orbits_) * width_);
        own_.resize(static_cast<std::size_t>(orbits_) * n_ + kBlock);
        turned_.resize(static_cast<std::size_t>(orbits_) * degree * n_ + kBlock);
        tail_.resize(static_cast<std::size_t>(orbits_) * degree);
        turn_.resize(tail_.size());
        for (int i = 0; i < orbits_; i++) {
            if (i == 0 || size[i] != size[i - 1]) sizes_.push_back(size[i]);
            level_.push_back(static_cast<int>(sizes_.size()) - 1);
        }
        back_.resize(sizes_.size() * tail_.size());
        first_.resize(orbits_);
        std::iota(first_.begin(), first_.end(), 0);
        rows_.n = n_;
        rows_.steps = target;
        rows_.max_degree = degree;
        for (int i = 0; i < orbits_; i++) {
            rows_.own.push_back(&own_[static_cast<std::size_t>(i) * n_]);
            rows_.offset.push_back(static_cast<std::int64_t>(i) * degree);
            for (int k = 0; k < degree; k++)
                rows_.tail.push_back(&turned_[(static_cast<std::size_t>(i) * degree + k) * n_]);
        }
        rows_.offset.push_back(static_cast<std::int64_t>(orbits_) * degree);
        ones_.assign(degree, 1);
        loads_.set_weights(ones_.data(), degree);
        jobs_ = std::make_unique<ReceiverJobs<std::uint8_t, std::uint8_t>>(rows_);
    }

    // Pairs of nodes beyond the target.
    std::int64_t load(const std::vector<std::int32_t>& tail, const std::vector<std::int32_t>& head,
                      const std::vector<std::int32_t>& shift, int sign) {
        place_.assign(orbits_, 0);
        for (std::size_t e = 0; e < head.size(); e++) {
            const int t = tail[e], h = head[e], length = std::max(size_[t], size_[h]);
            for (int b = 0; b < length; b += size_[h]) {
                const int k = h * degree_ + place_[h]++;
                tail_[k] = t;
                const int turn = (b - sign * shift[e]) % size_[t];
                turn_[k] = turn < 0 ? turn + size_[t] : turn;
                for (std::size_t l = 0; l < sizes_.size(); l++) {
                    const int rest = turn_[k] % sizes_[l];
                    back_[l * tail_.size() + k] = rest ? sizes_[l] - rest : 0;
                }
            }
        }
        std::memset(twice_.data(), kFar, twice_.size());
        for (int u = 0; u < orbits_; u++) {
            std::uint8_t* row = own(u);
            for (int k = u * degree_; k < (u + 1) * degree_; k++) row[place_of_[tail_[k]] + turn_[k]] = 1;
            row[place_of_[u]] = 0;
            go_on(row);
        }
        for (int t = 2; t <= rows_.steps; t++)
            for (int u = 0; u < orbits_; u++) relax(u);
        std::int64_t missed = 0;
        for (int u = 0; u < orbits_; u++) {
            const std::uint8_t* row = own(u);
            std::uint8_t* plain = &own_[static_cast<std::size_t>(u) * n_];
            std::int64_t far = 0;
            for (int i = 0; i < orbits_; i++) copy(plain + start_[i], row + place_of_[i], size_[i]);
            for (int v = 0; v < n_; v++) far += plain[v] > rows_.steps;
            missed += far * size_[u];
        }
        return missed;
    }

    // Sum of the loads times `scale`, or something above `most` if it is that.
    std::int64_t cost(std::int64_t scale, std::int64_t most) {
        best_.assign(rows_.steps, {});
        std::int64_t sum = 0;
        for (int i = 0; i < orbits_; i++) {
            const int u = first_[i];
            for (int k = u * degree_; k < (u + 1) * degree_; k++) {
                std::uint8_t* to = &turned_[static_cast<std::size_t>(k) * n_];
                const std::uint8_t* from = own(tail_[k]);
                for (int j = 0; j < orbits_; j++)
                    copy(to + start_[j], from + place_of_[j] + back_[level_[j] * tail_.size() + k], size_[j]);
            }
            jobs_->load(u);
            bool raised = false;
            for (int t = 1; t <= rows_.steps; t++) {
                if (jobs_->count(t) == 0) continue;
                jobs_->group(t);
                Ratio<std::int64_t>& best = best_[t - 1];
                const std::int64_t before = best.numerator * scale / best.denominator;
                if (!loads_.raise(jobs_->groups, best)) continue;
                sum += best.numerator * scale / best.denominator - before;
                raised = true;
            }
            if (raised && i > 0) std::rotate(first_.begin(), first_.begin() + i, first_.begin() + i + 1);
            if (sum > most) return sum;
        }
        return sum;
    }

   private:
    const std::vector<std::int32_t>& size_;
    const int orbits_, degree_;
    int n_ = 0, width_ = 0;
    std::vector<int> start_, place_of_, first_, place_;
    std::vector<int> sizes_, level_;  // different sizes, and which of them an orbit has
    std::vector<int> back_;           // by size and in-link: how far a row of an orbit is turned back
    std::vector<std::int32_t> tail_, turn_;
    std::vector<std::uint8_t> twice_, own_, turned_;
    std::vector<std::int64_t> ones_;
    std::vector<Ratio<std::int64_t>> best_;
    Rows<std::uint8_t> rows_;
    std::unique_ptr<ReceiverJobs<std::uint8_t, std::uint8_t>> jobs_;
    SubsetLoads<std::int64_t> loads_;

    std::uint8_t* own(int u) { return &twice_[static_cast<std::size_t>(u) * width_]; }

    // In blocks: what comes after the end is written again later.
    static void copy(std::uint8_t* to, const std::uint8_t* from, int size) {
        for (int v = 0; v < size; v += kBlock) std::memcpy(to + v, from + v, kBlock);
    }

    // Repeats each orbit after its end, as far as a turned row goes; never loads what was just stored.
    void go_on(std::uint8_t* row) const {
        for (int j = 0; j < orbits_; j++) {
            if (size_[j] == 1) continue;  // no turn
            std::uint8_t* mine = row + place_of_[j];
            const int size = size_[j], whole = (size + kBlock - 1) / kBlock * kBlock;
            Block block;
            for (int v = whole - kBlock; v > 0; v -= kBlock) {
                std::memcpy(&block, mine + v, kBlock);
                std::memcpy(mine + size + v, &block, kBlock);
            }
            std::memcpy(&block, mine, kBlock);
            for (int v = size; v < (size > kBlock ? size + 1 : size + kBlock); v += size)
                std::memcpy(mine + v, &block, kBlock);
        }
    }

    // One hop more. That rows of this round are used already makes none shorter than it is.
    void relax(int u) {
        std::uint8_t* row = own(u);
        const std::uint8_t* from[kMostDegree];
        for (int k = 0; k < degree_; k++) from[k] = own(tail_[u * degree_ + k]);
        for (int j = 0; j < orbits_; j++) {
            const int* back = &back_[(static_cast<std::size_t>(level_[j]) * orbits_ + u) * degree_];
            const int size = size_[j], place = place_of_[j];
            for (int v = place; v < place + size; v += kBlock) {
                Block near, far;
                std::memcpy(&near, row + v, kBlock);
                for (int k = 0; k < degree_; k++) {
                    std::memcpy(&far, from[k] + v + back[k], kBlock);
                    far += 1;
                    near = near < far ? near : far;
                }
                std::memcpy(row + v, &near, kBlock);
            }
        }
        go_on(row);
    }
};

class OrbitSearch {
   public:
    OrbitSearch(const OrbitProblem& problem, std::uint64_t seed)
        : p_(problem), now_{problem.tail, problem.head, problem.shift, problem.opposite}, random_(seed),
          forward_(problem.size, problem.degree, problem.target),
          backward_(problem.size, problem.degree, problem.target) {
        for (int k = 1; k <= p_.degree; k++) scale_ = std::lcm(scale_, static_cast<std::int64_t>(k));
        n_ = std::accumulate(p_.size.begin(), p_.size.end(), 0);
    }

    Status run(const OrbitPace& pace, const Control& control, OrbitGraph& result) {
        const std::int64_t least = 2 * ((n_ - 1) * scale_ / p_.degree);
        Worth now = worth(kNever, kNever), best = now;
        Links kept = now_;
        Status status = Status::ok;
        for (result.tried = 1; result.tried < pace.trials; result.tried++) {
            if (best.missed == 0 && best.cost <= least) break;
            if (control.cancelled()) {
                status = Status::cancelled;
                break;
            }
            if (result.tried % 64 == 0) control.progress(result.tried, pace.trials);
            const Links before = now_;
            if (!propose()) {
                now_ = before;
                continue;
            }
            const double cold = 1 - static_cast<double>(result.tried) / static_cast<double>(pace.trials);
            const double luck = -std::log(1 - random_.unit()) * pace.heat * cold;
            const Worth other = now.missed > 0 ? worth(now.missed + static_cast<std::int64_t>(luck * n_), kNever)
                                               : worth(0, now.cost + static_cast<std::int64_t>(luck * least));
            if (other.missed == kNever) {
                now_ = before;
                continue;
            }
            now = other;
            if (now < best) {
                best = now;
                kept = now_;
            }
        }
        result.tail = kept.tail, result.head = kept.head, result.shift = kept.shift,
        result.opposite = kept.opposite;
        result.cost = best.missed == 0 ? best.cost : -1;
        return status;
    }

   private:
    struct Links {
        std::vector<std::int32_t> tail, head, shift, opposite;
    };
    const OrbitProblem& p_;
    Links now_;
    RouteRandom random_;
    OrbitSide forward_, backward_;
    std::int64_t scale_ = 1;
    int n_ = 0;

    int length(int e) const { return std::max(p_.size[now_.tail[e]], p_.size[now_.head[e]]); }

    bool propose() {
        const int m = static_cast<int>(now_.head.size()), e = random_.below(m);
        if (random_.below(2)) return turn(e);
        const int f = random_.below(m);
        return now_.opposite.empty() ? exchange(e, f) : exchange_pairs(e, f);
    }

    // Class e leads to `head` by any shift. Neither self-loops nor, in pairs, half a turn: that is its own opposite.
    bool lead(int e, int head) {
        now_.head[e] = head;
        now_.shift[e] = random_.below(p_.size[head]);
        if (now_.tail[e] != head) return true;
        return now_.opposite.empty() ? now_.shift[e] != 0 : 2 * now_.shift[e] % p_.size[head] != 0;
    }

    bool turn(int e) {
        if (!now_.opposite.empty() && now_.opposite[e] == e) return false;
        return lead(e, now_.head[e]) && mirror(e);
    }

    // The links the other way of class e.
    bool mirror(int e) {
        if (now_.opposite.empty()) return true;
        const int f = now_.opposite[e], size = p_.size[now_.tail[e]];
        now_.tail[f] = now_.head[e], now_.head[f] = now_.tail[e];
        const int shift = -now_.shift[e] % size;
        now_.shift[f] = shift < 0 ? shift + size : shift;
        return true;
    }

    bool exchange(int e, int f) {
        const int span = length(e), a = now_.head[e], b = now_.head[f];
        return e != f && span == length(f) && lead(e, b) && lead(f, a) && length(e) == span && length(f) == span;
    }

    // {e, e'} and {f, f'} become {e, f'} and {f, e'}; a class may be its own opposite, half a turn away.
    bool exchange_pairs(int e, int f) {
        const int span = length(e), back = now_.opposite[e], other = now_.opposite[f];
        if (span != length(f)) return false;
        if (e == f || back == f) return e != back && halve(e, span) && halve(back, span);
        if (back == e && other == f) return join(e, f, span);
        if (back == e) return join(e, other, span) && halve(f, span);
        if (other == f) return join(f, back, span) && halve(e, span);
        return join(e, other, span) && join(f, back, span);
    }

    bool join(int e, int f, int span) {
        now_.opposite[e] = f, now_.opposite[f] = e;
        return std::max(p_.size[now_.tail[e]], p_.size[now_.tail[f]]) == span && lead(e, now_.tail[f]) && mirror(e);
    }

    bool halve(int e, int span) {
        now_.opposite[e] = e;
        now_.head[e] = now_.tail[e];
        now_.shift[e] = span / 2;
        return p_.size[now_.tail[e]] == span && span % 2 == 0;
    }

    // Missed kNever where there are more pairs than `most_missed`, or more cost than `most`.
    Worth worth(std::int64_t most_missed, std::int64_t most) {
        const Worth none;
        const bool paired = !now_.opposite.empty();
        const std::int64_t missed = forward_.load(now_.tail, now_.head, now_.shift, 1);
        if (missed > most_missed) return none;
        if (missed > 0) return {missed, 0};
        const std::int64_t least = (n_ - 1) * scale_ / p_.degree;
        const std::int64_t there = forward_.cost(scale_, paired ? most / 2 : most - least);
        if (paired) return there > most / 2 ? none : Worth{0, 2 * there};
        if (there > most - least) return none;
        backward_.load(now_.head, now_.tail, now_.shift, -1);
        const std::int64_t back = backward_.cost(scale_, most - there);
        return there + back > most ? none : Worth{0, there + back};
    }
};

}  // namespace

Status search_orbit_swaps(const OrbitProblem& problem, const OrbitPace& pace, const Control& control,
                          OrbitGraph& result) {
    return OrbitSearch(problem, pace.seed).run(pace, control, result);
}

}  // namespace treadle
