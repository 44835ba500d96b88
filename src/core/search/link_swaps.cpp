// Hill climbing that goes along plateaus (2-switches of McKay's kind, and a node moved to another link, which is two).
//
// A graph is judged by the pairs of nodes beyond the target first, then by the loads of breadth-first broadcast both ways.
// A load is a maximum over receivers, so that a bad graph shows at a few of them: receivers that made the last graphs fail
// are looked at first, and a graph is given up as soon as its loads so far exceed those of the one that it came from.
#include "search/link_swaps.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "routes/random.hpp"
#include "steps/bfb_rows.hpp"
#include "steps/subset_loads.hpp"

namespace treadle {
namespace {

constexpr int kSuspects = 4;  // receivers near which links are exchanged
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct Worth {
    std::int64_t missed = kNever, cost = 0;
    bool operator<=(const Worth& other) const {
        return missed < other.missed || (missed == other.missed && cost <= other.cost);
    }
    bool operator<(const Worth& other) const { return *this <= other && !(other <= *this); }
};

// One direction: who receives over which links, and the receivers in the order in which they are looked at.
class Side {
   public:
    Side(int n, int degree) : n_(n), first_(n), offset_(n + 1), tail_(static_cast<std::size_t>(n) * degree) {
        std::iota(first_.begin(), first_.end(), 0);
        ones_.assign(degree, 1);
    }

    // Links from `tails` to `heads`, self-loops left out. False if some node does not reach some other.
    bool load(const std::vector<std::int32_t>& tails, const std::vector<std::int32_t>& heads) {
        std::fill(offset_.begin(), offset_.end(), 0);
        for (std::size_t e = 0; e < heads.size(); e++) offset_[heads[e] + 1] += tails[e] != heads[e];
        for (int u = 0; u < n_; u++) offset_[u + 1] += offset_[u];
        place_.assign(offset_.begin(), offset_.end() - 1);
        for (std::size_t e = 0; e < heads.size(); e++)
            if (tails[e] != heads[e]) tail_[place_[heads[e]]++] = tails[e];
        in_ = {n_, offset_.data(), tail_.data()};
        matrix_ = std::make_unique<DistanceMatrix<std::uint8_t>>(in_);
        Failure failure;
        return matrix_->fill_by_words(Control{}, failure) == Status::ok && !matrix_->overflow;
    }

    int suspect(int place) const { return first_[std::min(place, n_ - 1)]; }

    std::int64_t pairs_beyond(int target) const {
        if (matrix_->diameter <= target) return 0;
        return std::count_if(matrix_->cells.begin(), matrix_->cells.end(), [&](int d) { return d > target; });
    }

    // Sum of the loads times `scale`, or something above `most` if it is that.
    std::int64_t cost(std::int64_t scale, std::int64_t most) {
        const Rows<std::uint8_t> rows = rows_of(in_, *matrix_);
        std::vector<Ratio<std::int64_t>> best(rows.steps);
        ReceiverJobs<std::uint8_t, std::uint8_t> jobs(rows);
        std::int64_t sum = 0;
        for (int i = 0; i < n_; i++) {
            const int u = first_[i];
            jobs.load(u);
            loads_.set_weights(ones_.data(), rows.degree(u));
            bool raised = false;
            for (int t = 1; t <= rows.steps; t++) {
                if (jobs.count(t) == 0) continue;
                jobs.group(t);
                const std::int64_t before = best[t - 1].numerator * scale / best[t - 1].denominator;
                if (!loads_.raise(jobs.groups, best[t - 1])) continue;
                sum += best[t - 1].numerator * scale / best[t - 1].denominator - before;
                raised = true;
            }
            if (raised && i > 0) std::rotate(first_.begin(), first_.begin() + i, first_.begin() + i + 1);
            if (sum > most) return sum;
        }
        return sum;
    }

   private:
    const int n_;
    std::vector<int> first_;
    std::vector<std::int64_t> offset_, place_, ones_;
    std::vector<std::int32_t> tail_;
    InLinks in_;
    std::unique_ptr<DistanceMatrix<std::uint8_t>> matrix_;
    SubsetLoads<std::int64_t> loads_;
};

class SwapSearch {
   public:
    SwapSearch(const SwapProblem& problem, std::uint64_t seed)
        : p_(problem), heads_(problem.heads), opposite_(problem.opposite), random_(seed),
          forward_(problem.n, problem.degree), backward_(problem.n, problem.degree) {
        for (int k = 1; k <= p_.degree; k++) scale_ = std::lcm(scale_, static_cast<std::int64_t>(k));
    }

    Status run(const SwapPace& pace, const Control& control, SwapGraph& result) {
        const int m = static_cast<int>(heads_.size());
        const std::int64_t least = 2 * ((p_.n - 1) * scale_ / p_.degree);
        Worth now = worth({kNever, kNever});
        Worth best = now;
        result.heads = heads_;
        Status status = Status::ok;
        for (result.tried = 1; result.tried < pace.trials; result.tried++) {
            if (best.missed == 0 && best.cost <= least) break;
            if (control.cancelled()) {
                status = Status::cancelled;
                break;
            }
            if (result.tried % 64 == 0) control.progress(result.tried, pace.trials);
            undo_.clear();
            const bool fits = propose(m);
            const Worth other = fits && changed() <= p_.most_changed ? worth(now) : Worth{};
            if (!(other <= now)) {
                take_back();
                continue;
            }
            now = other;
            if (now < best) {
                best = now;
                result.heads = heads_;
            }
        }
        result.missed = best.missed;
        result.cost = best.missed == 0 && best.cost < pace.bar ? best.cost : -1;
        return status;
    }

   private:
    const SwapProblem& p_;
    std::vector<std::int32_t> heads_, opposite_;
    RouteRandom random_;
    Side forward_, backward_;
    std::int64_t scale_ = 1;
    std::vector<std::pair<int, int>> undo_;

    bool propose(int m) {
        switch (random_.below(3)) {
            case 0: return exchange(critical(m), random_.below(m));
            case 1: return move_node(m);
            default: return send_home(m);
        }
    }

    // A link on a way to a receiver at which the last graphs failed, or, for the other direction, from it.
    int critical(int m) {
        const bool forward = random_.below(2) == 0;
        const std::vector<std::int32_t>& near = forward ? heads_ : p_.tails;
        const std::vector<std::int32_t>& far = forward ? p_.tails : heads_;
        int node = (forward ? forward_ : backward_).suspect(random_.below(kSuspects));
        for (int e = random_.below(m), seen = 0; seen < m; seen++, e = (e + 1) % m) {
            if (near[e] != node) continue;
            if (random_.below(2)) return e;
            node = far[e];
            seen = 0;
        }
        return random_.below(m);
    }

    // A link that leads elsewhere than it did gets its head back, so that plateaus don't end at the most changes.
    bool send_home(int m) {
        int e = random_.below(m), seen = 0;
        while (seen < m && (p_.home[e] < 0 || heads_[e] == p_.home[e])) e = (e + 1) % m, seen++;
        if (seen == m) return exchange(random_.below(m), random_.below(m));
        int f = random_.below(m);
        for (seen = 0; seen < m && (heads_[f] != p_.home[e] || heads_[f] == p_.home[f]); seen++) f = (f + 1) % m;
        return seen < m && exchange(e, f);
    }

    int changed() const {
        int count = 0;
        for (std::size_t e = 0; e < heads_.size(); e++) count += p_.home[e] >= 0 && heads_[e] != p_.home[e];
        return count;
    }

    void switch_heads(int e, int f) {
        std::swap(heads_[e], heads_[f]);
        undo_.emplace_back(e, f);
    }

    // a -> b, c -> d become a -> d, c -> b, and the links the other way with them. Self-loops may only be left.
    bool exchange(int e, int f, bool may_loop = false) {
        if (e == f || (!opposite_.empty() && opposite_[e] == f)) return false;
        switch_heads(e, f);
        if (!opposite_.empty()) {
            const int back = opposite_[e], other = opposite_[f];
            switch_heads(back, other);
            opposite_[e] = other, opposite_[other] = e, opposite_[f] = back, opposite_[back] = f;
        }
        return may_loop || (p_.tails[e] != heads_[e] && p_.tails[f] != heads_[f]);
    }

    // A node leaves two of its links to their other ends and comes between a third.
    bool move_node(int m) {
        const int in = random_.below(m), node = heads_[in];
        int out = -1;
        for (int skip = random_.below(p_.degree), e = 0; e < m && out < 0; e++)
            if (p_.tails[e] == node && skip-- == 0) out = e;
        if (out < 0 || heads_[out] == p_.tails[in] || !exchange(in, out, true)) return false;
        return exchange(out, random_.below(m)) && p_.tails[in] != heads_[in];
    }

    void take_back() {
        const bool paired = !opposite_.empty();
        while (!undo_.empty()) {
            const auto [e, f] = undo_.back();
            undo_.pop_back();
            std::swap(heads_[e], heads_[f]);
            if (!paired) continue;
            const auto [a, b] = undo_.back();  // e, f are the opposites; a, b the links that were asked for
            undo_.pop_back();
            std::swap(heads_[a], heads_[b]);
            opposite_[a] = e, opposite_[e] = a, opposite_[b] = f, opposite_[f] = b;
        }
    }

    Worth worth(const Worth& most) {
        if (!forward_.load(p_.tails, heads_)) return {};
        Worth found{forward_.pairs_beyond(p_.target), 0};
        for (std::size_t e = 0; e < heads_.size(); e++) found.missed += p_.tails[e] == heads_[e];
        if (found.missed > 0 || found.missed > most.missed) return found;
        const std::int64_t limit = most.missed > 0 ? kNever : most.cost;
        if (!opposite_.empty()) {  // both directions cost the same
            found.cost = 2 * forward_.cost(scale_, limit / 2);
            return found;
        }
        const std::int64_t least = (p_.n - 1) * scale_ / p_.degree;
        found.cost = forward_.cost(scale_, limit == kNever ? limit : limit - least);
        if (found.cost > limit - least || !backward_.load(heads_, p_.tails)) return {0, kNever};
        found.cost += backward_.cost(scale_, limit == kNever ? limit : limit - found.cost);
        return found;
    }
};

}  // namespace

Status search_link_swaps(const SwapProblem& problem, const SwapPace& pace, const Control& control,
                         SwapGraph& result) {
    return SwapSearch(problem, pace.seed).run(pace, control, result);
}

}  // namespace treadle
