#include "search/abelian_sets.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "routes/random.hpp"
#include "search/translates.hpp"

namespace treadle {
namespace {

// Balls of a set: bits of what is reached within t steps, t = 0 to the target.
using Balls = std::vector<Bits>;

// A generator, or one and its inverse.
using Unit = std::vector<int>;

class Search {
public:
    Search(const AbelianProblem& problem, const AbelianPace& pace, const Control& control, AbelianSet& result)
        : problem_(problem), pace_(pace), control_(control), result_(result), group_(problem.moduli),
          random_(pace.seed), words_(group_.words()), n_(group_.order()) {
        scale_ = 1;
        for (int k = 2; k <= problem.degree; k++) scale_ = std::lcm(scale_, std::int64_t{k});
        optimum_ = (n_ - 1) * scale_ / problem.degree;
        for (int v = 1; v < n_; v++) (group_.inverse(v) == v ? involutions_ : pairs_).push_back(v);
        result_.missed = n_;
        bar_ = pace.bar;
        distance_.resize(n_);
        mask_.resize(n_);
        inside_.resize(std::size_t{1} << problem.degree);
    }

    Status run(const std::vector<std::int32_t>& starts) {
        std::size_t start = 0;
        while (worked_ < pace_.work && bar_ > optimum_) {
            if (control_.cancelled()) return Status::cancelled;
            control_.progress(std::min(worked_, pace_.work), pace_.work);
            std::vector<Unit> units;
            if (start < starts.size())
                units = units_of({starts.begin() + start, starts.begin() + start + problem_.degree});
            else if (!result_.generators.empty() && random_.below(3) == 0)
                units = shaken(units_of(result_.generators));
            else if (!fresh(units))
                break;
            start += problem_.degree;
            climb(units);
        }
        return Status::ok;
    }

private:
    struct Worth {
        int missed;
        std::int64_t cost;
        bool operator<(const Worth& other) const {
            return missed != other.missed ? missed < other.missed : cost < other.cost;
        }
    };

    // A random set; false if the group has none of this degree.
    bool fresh(std::vector<Unit>& units) {
        const int d = problem_.degree;
        if (!problem_.two_way) {
            for (int i = 0; i < d; i++) units.push_back({1 + random_.below(n_ - 1)});
            return true;
        }
        const int least = involutions_.empty() ? d / 2 : 0;
        const int most = pairs_.empty() ? 0 : d / 2;
        if (least > most || (involutions_.empty() && d % 2)) return false;
        // mostly as many pairs as fit: an involution is a generator that goes one way only
        const int pairs = random_.below(2) ? most : least + random_.below(most - least + 1);
        for (int i = 0; i < pairs; i++) units.push_back(pair(pairs_[random_.below(static_cast<int>(pairs_.size()))]));
        for (int i = 2 * pairs; i < d; i++)
            units.push_back({involutions_[random_.below(static_cast<int>(involutions_.size()))]});
        return true;
    }

    Unit pair(int v) const { return {v, group_.inverse(v)}; }

    std::vector<Unit> units_of(std::vector<std::int32_t> generators) const {
        std::vector<Unit> units;
        while (!generators.empty()) {
            const int v = generators.front(), w = group_.inverse(v);
            generators.erase(generators.begin());
            const auto other = std::find(generators.begin(), generators.end(), w);
            if (!problem_.two_way || w == v || other == generators.end()) {
                units.push_back({v});
                continue;
            }
            generators.erase(other);
            units.push_back({v, w});
        }
        return units;
    }

    std::vector<Unit> shaken(std::vector<Unit> units) {
        for (int times = 1 + random_.below(2); times > 0; times--) {
            Unit& unit = units[random_.below(static_cast<int>(units.size()))];
            const auto& choices = unit.size() == 2 ? pairs_ : involutions_;
            if (!problem_.two_way)
                unit = {1 + random_.below(n_ - 1)};
            else
                unit = other(unit, choices[random_.below(static_cast<int>(choices.size()))]);
        }
        return units;
    }

    Unit other(const Unit& unit, int v) const { return unit.size() == 2 ? pair(v) : Unit{v}; }

    // Replaces one generator (or pair) after the other by the best of many, until none gets better.
    void climb(std::vector<Unit>& units) {
        Worth best = worth(units);
        int since = 0, place = random_.below(static_cast<int>(units.size()));
        while (since < 2 * static_cast<int>(units.size()) && worked_ < pace_.work && bar_ > optimum_) {
            if (control_.cancelled()) return;
            place = (place + 1) % static_cast<int>(units.size());
            since = improve(units, place, best) ? 0 : since + 1;
        }
    }

    // True if the set became better; equal ones are taken too, so that plateaus are crossed.
    bool improve(std::vector<Unit>& units, int place, Worth& best) {
        others_of(units, place);
        const std::vector<int> tried = candidates(units[place].size() == 2);
        std::vector<std::pair<int, int>> reach;  // nodes missed, candidate
        for (const int v : tried) reach.emplace_back(missed_with(other(units[place], v)), v);
        const int least = std::min_element(reach.begin(), reach.end())->first;
        result_.missed = std::min(result_.missed, least);
        if (least > best.missed) return false;
        const Unit before = units[place];
        Unit chosen = before;
        Worth found = best;
        int equals = 1;
        for (const auto& [missed, v] : reach) {
            if (missed > least) continue;
            units[place] = other(before, v);
            const Worth one{missed, missed ? 0 : cost(units, found.missed ? none_ : found.cost)};
            if (one < found || (!(found < one) && random_.below(++equals) == 0)) {
                if (one < found) equals = 1;
                found = one;
                chosen = units[place];
            }
            if (worked_ >= pace_.work) break;
        }
        units[place] = chosen;
        const bool is_better = found < best;
        best = found;
        return is_better;
    }

    // All elements of small groups, else a sample.
    std::vector<int> candidates(bool in_pairs) {
        const auto& choices = !problem_.two_way ? (all_.empty() ? fill_all() : all_) : in_pairs ? pairs_ : involutions_;
        constexpr int most = 96;
        if (static_cast<int>(choices.size()) <= most) return choices;
        std::vector<int> found(most);
        for (int& v : found) v = choices[random_.below(static_cast<int>(choices.size()))];
        return found;
    }

    const std::vector<int>& fill_all() {
        all_.resize(n_ - 1);
        std::iota(all_.begin(), all_.end(), 1);
        return all_;
    }

    Balls start() const {
        Balls balls(problem_.target + 1, Bits(words_, 0));
        for (auto& ball : balls) ball[0] = 1;
        return balls;
    }

    // Balls of the set with one more generator: reached in t steps, or in t - 1 and then by it.
    void extend(Balls& balls, const Unit& unit) {
        if (unit.size() == 1) {
            for (int t = 1; t <= problem_.target; t++) group_.add_translate(balls[t].data(), balls[t - 1].data(), unit[0]);
        } else {
            Balls back = balls;
            for (int t = 1; t <= problem_.target; t++) {
                group_.add_translate(balls[t].data(), balls[t - 1].data(), unit[0]);
                group_.add_translate(back[t].data(), back[t - 1].data(), unit[1]);
            }
            for (int t = 1; t <= problem_.target; t++)
                for (int i = 0; i < words_; i++) balls[t][i] |= back[t][i];
        }
        worked_ += static_cast<std::int64_t>(unit.size()) * problem_.target * words_ * 2;
    }

    void others_of(const std::vector<Unit>& units, int place) {
        others_ = start();
        for (int i = 0; i < static_cast<int>(units.size()); i++)
            if (i != place) extend(others_, units[i]);
    }

    // Nodes beyond the target of the others and one more unit: B_T + k g of B_{T-k}, nested as Horner's scheme.
    int missed_with(const Unit& unit) {
        result_.tried++;
        reached_.assign(words_, 0);
        for (const int g : unit) {
            turned_.assign(others_[0].begin(), others_[0].end());
            for (int t = 1; t <= problem_.target; t++) {
                next_.assign(others_[t].begin(), others_[t].end());
                group_.add_translate(next_.data(), turned_.data(), g);
                next_.swap(turned_);
            }
            for (int i = 0; i < words_; i++) reached_[i] |= turned_[i];
        }
        worked_ += static_cast<std::int64_t>(unit.size()) * problem_.target * words_ * 2;
        return n_ - count_bits(reached_.data(), words_);
    }

    Worth worth(const std::vector<Unit>& units) {
        result_.tried++;
        Balls balls = start();
        for (const auto& unit : units) extend(balls, unit);
        const int missed = n_ - count_bits(balls[problem_.target].data(), words_);
        result_.missed = std::min(result_.missed, missed);
        return {missed, missed ? 0 : cost(units, none_)};
    }

    // Sum of the loads of a set that reaches all; none_ as soon as it is above `most`. Keeps the best of all.
    std::int64_t cost(const std::vector<Unit>& units, std::int64_t most) {
        std::vector<int> generators;
        for (const auto& unit : units) generators.insert(generators.end(), unit.begin(), unit.end());
        const int d = static_cast<int>(generators.size());
        translates(generators);
        std::fill(distance_.begin(), distance_.end(), -1);
        std::fill(mask_.begin(), mask_.end(), 0);
        distance_[0] = 0;
        level_.assign(1, 0);
        std::int64_t total = 0;
        int steps = 0, left = n_ - 1;
        while (left > 0 && !level_.empty()) {
            steps++;
            next_level_.clear();
            for (int i = 0; i < d; i++) {
                const std::int32_t* to = table_.data() + static_cast<std::size_t>(i) * n_;
                for (const int v : level_) {
                    const int w = to[v];
                    if (distance_[w] < 0) {
                        distance_[w] = steps;
                        next_level_.push_back(w);
                    }
                    if (distance_[w] == steps) mask_[w] |= 1u << i;
                }
            }
            left -= static_cast<int>(next_level_.size());
            level_.swap(next_level_);
            total += load(d);
            // what is left moves over all links at best
            if (total + (left * scale_ + d - 1) / d > most) {
                charge(d, steps, n_ - left);
                return none_;
            }
        }
        charge(d, steps, n_);
        if (left > 0) return none_;
        if (total < bar_) {
            bar_ = total;
            result_.generators.assign(generators.begin(), generators.end());
            result_.cost = total;
            result_.steps = steps;
        }
        return total;
    }

    void charge(int d, int steps, int nodes) {
        worked_ += static_cast<std::int64_t>(nodes) * (2 * d + 2) + (std::int64_t{steps} << d) * d / 4;
    }

    void translates(const std::vector<int>& generators) {
        table_.resize(generators.size() * n_);
        for (std::size_t i = 0; i < generators.size(); i++) {
            std::int32_t* to = table_.data() + i * n_;
            const int g = generators[i];
            if (problem_.moduli.size() == 1) {
                for (int v = 0; v < n_ - g; v++) to[v] = v + g;
                for (int v = n_ - g; v < n_; v++) to[v] = v + g - n_;
            } else {
                for (int v = 0; v < n_; v++) to[v] = group_.sum(v, g);
            }
        }
    }

    // Least load of the fullest link in a step: the largest of (nodes whose links lie in P) / |P|, scaled.
    std::int64_t load(int d) {
        std::fill(inside_.begin(), inside_.end(), 0);
        for (const int v : level_) inside_[mask_[v]]++;
        for (int bit = 0; bit < d; bit++)
            for (int high = 0; high < 1 << d; high += 2 << bit)
                for (int low = 0; low < 1 << bit; low++) inside_[high + (1 << bit) + low] += inside_[high + low];
        std::int64_t most = 0;
        for (int p = 1; p < 1 << d; p++)
            most = std::max(most, inside_[p] * (scale_ / __builtin_popcount(static_cast<unsigned>(p))));
        return most;
    }

    static constexpr std::int64_t none_ = std::numeric_limits<std::int64_t>::max();

    const AbelianProblem& problem_;
    const AbelianPace& pace_;
    const Control& control_;
    AbelianSet& result_;
    BitGroup group_;
    RouteRandom random_;
    int words_, n_;
    std::int64_t scale_ = 1, optimum_ = 0, bar_ = 0, worked_ = 0;
    std::vector<int> pairs_, involutions_, all_;
    Balls others_;
    Bits reached_, turned_, next_;
    std::vector<int> distance_, level_, next_level_;
    std::vector<std::uint32_t> mask_;
    std::vector<std::int32_t> table_;
    std::vector<std::int64_t> inside_;
};

}  // namespace

Status search_abelian(const AbelianProblem& problem, const AbelianPace& pace, const std::vector<std::int32_t>& starts,
                      const Control& control, AbelianSet& result) {
    return Search(problem, pace, control, result).run(starts);
}

}  // namespace treadle
