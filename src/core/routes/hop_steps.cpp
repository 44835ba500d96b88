// Every path is put in turn where its hops exceed the caps least, by dynamic programming over (hop, step); ties are
// broken at random, so that an excess wanders until it meets a gap (docs/how-it-works/all-to-all.md). Where nearly
// all links are full there are no gaps to meet: sweeps over all paths, at prices that rise exponentially with a
// cell's load and more steeply from sweep to sweep, level the loads first.
#include "routes/hop_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "routes/random.hpp"

namespace treadle {
namespace {

constexpr double noise = 0.25;  // below any excess
constexpr double flat = 5, steep = 400, most_steep = 60;  // exponents of prices: first a fifth of a cell matters, at last a four-hundredth
constexpr double boundless = 0x1p62;  // bandwidths may be far apart
constexpr std::int64_t beat = 1 << 12;

class StepSearch {
public:
    StepSearch(const HopPaths& paths, const StepPace& pace, std::vector<std::int64_t>& cap, std::vector<std::int32_t>& step)
        : p_(paths), pace_(pace), cap_(cap), step_(step), random_(pace.seed), n_steps_(static_cast<int>(cap.size())),
          load_(cap.size() * paths.n_links, 0), limit_(load_.size()) {
        for (int t = 0; t < n_steps_; t++) set_limits(t);
        step_.assign(p_.offset[p_.n_paths], -1);
    }

    Status run(const Control& control) {
        std::vector<std::int64_t> order(p_.n_paths);
        std::iota(order.begin(), order.end(), 0);
        for (std::int64_t i = p_.n_paths - 1; i > 0; i--)
            std::swap(order[i], order[random_.next() % static_cast<std::uint64_t>(i + 1)]);
        std::stable_sort(order.begin(), order.end(), [this](std::int64_t a, std::int64_t b) { return hops(a) > hops(b); });
        for (std::int64_t i = 0; i < p_.n_paths; i++) {  // the first pass is done whatever the clock says
            if (i % beat == 0) control.progress(i, p_.n_paths);
            place(order[i], Rule::emptiest);
        }
        sweep(order, control);
        std::int64_t least = excess();
        int idle = 0;
        Status status = Status::ok;
        for (int pass = 0; least > 0; pass++) {
            if (pass == pace_.passes || control.cancelled()) {
                status = control.cancelled() ? Status::cancelled : Status::stuck;
                break;
            }
            for (std::int64_t i = 0; i < p_.n_paths; i++) {
                const std::int64_t path = order[i];
                if (!is_over(path)) continue;
                lift(path);
                place(path, Rule::least_over);
            }
            const std::int64_t now = excess();
            idle = now < least ? 0 : idle + 1;
            least = std::min(least, now);
            if (now == 0) break;
            if (idle >= pace_.tries) {
                const int t = worst();
                cap_[t] += pace_.rise;
                set_limits(t);
                least = excess();
                idle = 0;
            }
        }
        if (status != Status::ok) hold();
        return status;
    }

private:
    void sweep(const std::vector<std::int64_t>& order, const Control& control) {
        for (int number = 0; number < pace_.sweeps && excess() > 0; number++) {
            steep_ = flat * std::pow(steep / flat, static_cast<double>(number) / pace_.sweeps);
            for (std::int64_t i = 0; i < p_.n_paths; i++) {
                if (i % beat == 0 && control.cancelled()) return;
                lift(order[i]);
                place(order[i], Rule::priced);
            }
        }
    }

    std::int64_t hops(std::int64_t path) const { return p_.offset[path + 1] - p_.offset[path]; }
    std::size_t cell(int t, int e) const { return static_cast<std::size_t>(t) * p_.n_links + e; }

    void set_limits(int t) {
        for (int e = 0; e < p_.n_links; e++)
            limit_[cell(t, e)] = static_cast<std::int64_t>(
                std::floor(std::min(boundless, static_cast<double>(cap_[t]) * p_.width[e]) + 1e-6));
    }

    std::int64_t excess() const {
        std::int64_t total = 0;
        for (std::size_t i = 0; i < load_.size(); i++) total += std::max<std::int64_t>(0, load_[i] - limit_[i]);
        return total;
    }

    int worst() const {
        int found = 0;
        std::int64_t most = -1;
        for (int t = 0; t < n_steps_; t++) {
            std::int64_t over = 0;
            for (int e = 0; e < p_.n_links; e++) over += std::max<std::int64_t>(0, load_[cell(t, e)] - limit_[cell(t, e)]);
            if (over > most) {
                most = over;
                found = t;
            }
        }
        return found;
    }

    // Caps as high as the loads.
    void hold() {
        for (int t = 0; t < n_steps_; t++)
            for (int e = 0; e < p_.n_links; e++)
                while (load_[cell(t, e)] > limit_[cell(t, e)]) {
                    cap_[t] = std::max(cap_[t] + 1, static_cast<std::int64_t>(
                                                        std::ceil(static_cast<double>(load_[cell(t, e)]) / p_.width[e] - 1e-6)));
                    set_limits(t);
                }
    }

    bool is_over(std::int64_t path) const {
        for (std::int64_t j = p_.offset[path]; j < p_.offset[path + 1]; j++) {
            const std::size_t at = cell(step_[j], p_.link[j]);
            if (load_[at] > limit_[at]) return true;
        }
        return false;
    }

    void lift(std::int64_t path) {
        for (std::int64_t j = p_.offset[path]; j < p_.offset[path + 1]; j++)
            load_[cell(step_[j], p_.link[j])] -= p_.amount[path];
    }

    enum class Rule { emptiest, priced, least_over };

    double cost(Rule rule, std::size_t c, std::int64_t amount, int n_hops) {
        const std::int64_t limit = std::max<std::int64_t>(1, limit_[c]), load = load_[c] + amount;
        const double full = static_cast<double>(load) / static_cast<double>(limit);
        if (rule == Rule::priced) return std::exp(std::min(most_steep, steep_ * (full - 1)));
        const std::int64_t over = load - limit_[c];
        const double part = over <= 0 ? 0 : static_cast<double>(std::min(over, amount)) / static_cast<double>(amount);
        if (rule == Rule::emptiest) return 4 * part + full * full * full * full;
        return part + noise * random_.unit() / n_hops;
    }

    // Where the hops cost least in all.
    void place(std::int64_t path, Rule rule) {
        const std::int64_t begin = p_.offset[path], amount = p_.amount[path];
        const int h = static_cast<int>(hops(path)), slack = n_steps_ - h;
        const int width = slack + 1;
        best_.resize(static_cast<std::size_t>(h) * width);
        from_.resize(best_.size());
        for (int i = 0; i < h; i++) {
            const int e = p_.link[begin + i];
            double least = std::numeric_limits<double>::infinity();
            int at = 0;
            for (int d = 0; d < width; d++) {  // hop i in step i + d
                const double before = i ? best_[static_cast<std::size_t>(i - 1) * width + d] : 0;
                if (before < least) {
                    least = before;
                    at = d;
                }
                best_[static_cast<std::size_t>(i) * width + d] = least + cost(rule, cell(i + d, e), amount, h);
                from_[static_cast<std::size_t>(i) * width + d] = at;
            }
        }
        int d = 0;
        const double* last = best_.data() + static_cast<std::size_t>(h - 1) * width;
        for (int k = 1; k < width; k++)
            if (last[k] < last[d]) d = k;
        for (int i = h - 1; i >= 0; i--) {
            step_[begin + i] = i + d;
            load_[cell(i + d, p_.link[begin + i])] += amount;
            d = from_[static_cast<std::size_t>(i) * width + d];
        }
    }

    const HopPaths& p_;
    const StepPace& pace_;
    double steep_ = 0;
    std::vector<std::int64_t>& cap_;
    std::vector<std::int32_t>& step_;
    RouteRandom random_;
    int n_steps_;
    std::vector<std::int64_t> load_, limit_;
    std::vector<double> best_;
    std::vector<int> from_;
};

}  // namespace

Status assign_steps(const HopPaths& paths, const StepPace& pace, const Control& control, std::vector<std::int64_t>& cap,
                    std::vector<std::int32_t>& step) {
    return StepSearch(paths, pace, cap, step).run(control);
}

}  // namespace treadle
