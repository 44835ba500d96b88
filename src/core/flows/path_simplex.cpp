// The simplex method with generalised upper bounds: Dantzig and Van Slyke, "Generalized upper bounding techniques",
// J. Computer and System Sciences 1 (1967).
//
// The program has a row per link (load - T capacity + slack = 0) and per pair (shares sum to 1). Each pair has a basic
// key path; substituting it leaves a working basis of one row per link, whose inverse is kept densely. A column enters by
// partial pricing among candidates from passes over all; the ratio test is Harris's (1973); if the key of a pair leaves,
// another basic path of the pair becomes key, or the entering one. Right sides are perturbed against cycling.
#include "flows/path_simplex.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace treadle {
namespace {

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define TREADLE_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define TREADLE_WIDE
#endif

// to += factor * from; the widest vectors of the machine give the same results.
TREADLE_WIDE void add_multiple(double* to, const double* from, double factor, int count) {
    for (int i = 0; i < count; i++) to[i] += factor * from[i];
}

constexpr int time_column = -1;           // T; paths are >= 0, the slack of link e is -2 - e
constexpr double price_tolerance = 1e-9;  // relative to the mean length of a link, which is about 1
constexpr double pivot_tolerance = 1e-7;
constexpr double zero_tolerance = 1e-11;
constexpr double perturbation = 1e-6;  // of the right sides, relative to T
constexpr int refresh = 1500;          // pivots after which the inverse is computed anew
constexpr std::size_t most_candidates = 256;
constexpr double worthwhile = 0.2;  // candidates are used up to this part of the best price they began with

int slack_of(int link) { return -2 - link; }

class PathSimplex {
public:
    PathSimplex(const PathProgram& program, PathBasis& basis)
        : p_(program), m_(program.n_links), basis_(basis), column_(m_), value_(m_), inverse_(std::size_t(m_) * m_),
          length_(m_), direction_(m_), members_(program.n_pairs), key_value_(program.n_pairs), shift_(m_) {}

    Status run(std::int64_t most_pivots, const Control& control) {
        begin();
        if (!refactor()) return Status::stuck;
        for (; basis_.pivots < most_pivots; basis_.pivots++) {
            if (basis_.pivots % 64 == 0) {
                if (control.cancelled()) return Status::cancelled;
                control.progress(basis_.pivots, most_pivots);
            }
            if (since_refactor_ >= refresh && !refactor()) return Status::stuck;
            read_lengths();
            const int entering = price();
            if (entering == time_column) return Status::ok;
            if (!step(entering)) {
                if (since_refactor_ == 0 || !refactor()) return Status::stuck;
            }
        }
        return Status::stuck;
    }

    void export_basis() {
        basis_.column.clear();
        basis_.slack.clear();
        for (int column : column_) {
            if (column >= 0) basis_.column.push_back(column);
            if (column < time_column) basis_.slack.push_back(slack_of(column));
        }
    }

private:
    double* inverse(int link) { return inverse_.data() + std::size_t(link) * m_; }  // column of the inverse
    double demand_of(int column) const { return p_.demand[p_.pair[column]]; }
    template <class Use>
    void each_link(int column, const Use& use) const {
        for (std::int64_t i = p_.offset[column]; i < p_.offset[column + 1]; i++) use(p_.links[i]);
    }

    // Load that the keys bring about, and the perturbation.
    void begin() {
        std::vector<double> load(m_, 0.0);
        for (int j = 0; j < p_.n_pairs; j++) each_link(basis_.key[j], [&](int e) { load[e] += p_.demand[j]; });
        double time = 0;
        for (int e = 0; e < m_; e++) time = std::max(time, load[e] / p_.capacity[e]);
        std::uint64_t state = 0;
        for (int e = 0; e < m_; e++) {  // splitmix64
            std::uint64_t z = state += 0x9E3779B97F4A7C15ULL;
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
            z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
            const double unit = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
            shift_[e] = perturbation * time * (0.5 + unit) * p_.capacity[e];
        }
        if (basis_.slack.empty() && basis_.column.empty()) {
            int fullest = 0;
            const auto excess = [&](int e) { return (load[e] - shift_[e]) / p_.capacity[e]; };
            for (int e = 1; e < m_; e++)
                if (excess(e) > excess(fullest)) fullest = e;
            for (int e = 0; e < m_; e++)
                if (e != fullest) basis_.slack.push_back(e);
        }
        column_.assign(1, time_column);
        column_.insert(column_.end(), basis_.column.begin(), basis_.column.end());
        for (int e : basis_.slack) column_.push_back(slack_of(e));
    }

    // The inverse of the working basis and the values, from scratch; false if it is singular or a value is negative.
    bool refactor() {
        if (static_cast<int>(column_.size()) != m_) return false;
        std::vector<double> rows(std::size_t(m_) * m_, 0.0);  // basis, row-major by link
        const auto at = [&](int e, int i) -> double& { return rows[std::size_t(e) * m_ + i]; };
        for (auto& of_pair : members_) of_pair.clear();
        for (int i = 0; i < m_; i++) {
            const int column = column_[i];
            if (column == time_column) {
                for (int e = 0; e < m_; e++) at(e, i) = -p_.capacity[e];
            } else if (column < time_column) {
                at(slack_of(column), i) = 1;
            } else {
                each_link(column, [&](int e) { at(e, i) += demand_of(column); });
                each_link(basis_.key[p_.pair[column]], [&](int e) { at(e, i) -= demand_of(column); });
                members_[p_.pair[column]].push_back(i);
            }
        }
        if (!invert(rows)) return false;
        std::vector<double> right = shift_;
        for (int j = 0; j < p_.n_pairs; j++) each_link(basis_.key[j], [&](int e) { right[e] -= p_.demand[j]; });
        std::fill(value_.begin(), value_.end(), 0.0);
        for (int e = 0; e < m_; e++)
            for (int i = 0; i < m_; i++) value_[i] += inverse(e)[i] * right[e];
        for (int j = 0; j < p_.n_pairs; j++) {
            key_value_[j] = 1;
            for (int i : members_[j]) key_value_[j] -= value_[i];
        }
        for (int i = 0; i < m_; i++)
            if (column_[i] == time_column) time_place_ = i;
        since_refactor_ = 0;
        candidates_.clear();
        return true;
    }

    // Gauss and Jordan with row pivots; `rows` is used up. Unit columns cost next to nothing.
    bool invert(std::vector<double>& rows) {
        std::vector<double> right(std::size_t(m_) * m_, 0.0);
        std::vector<int> row_of(m_, -1);
        std::vector<char> used(m_, false);
        for (int e = 0; e < m_; e++) right[std::size_t(e) * m_ + e] = 1;
        std::vector<int> turn(m_);
        std::iota(turn.begin(), turn.end(), 0);
        std::stable_partition(turn.begin(), turn.end(), [&](int i) { return column_[i] < time_column; });
        for (int i : turn) {
            int best = -1;
            for (int e = 0; e < m_; e++)
                if (!used[e] && (best < 0 || std::abs(rows[std::size_t(e) * m_ + i]) >
                                                 std::abs(rows[std::size_t(best) * m_ + i])))
                    best = e;
            const double pivot = rows[std::size_t(best) * m_ + i];
            if (std::abs(pivot) < 1e-9) return false;
            used[best] = true;
            row_of[i] = best;
            double* own = rows.data() + std::size_t(best) * m_;
            double* own_right = right.data() + std::size_t(best) * m_;
            for (int c = 0; c < m_; c++) own[c] /= pivot, own_right[c] /= pivot;
            for (int e = 0; e < m_; e++) {
                double* other = rows.data() + std::size_t(e) * m_;
                const double factor = other[i];
                if (e == best || factor == 0) continue;
                double* other_right = right.data() + std::size_t(e) * m_;
                add_multiple(other, own, -factor, m_);
                add_multiple(other_right, own_right, -factor, m_);
            }
        }
        for (int i = 0; i < m_; i++)
            for (int e = 0; e < m_; e++) inverse(e)[i] = right[std::size_t(row_of[i]) * m_ + e];
        return true;
    }

    // Duals of the links: their lengths, scaled to a mean of 1 for the tolerances.
    void read_lengths() {
        double total = 0;
        for (int e = 0; e < m_; e++) {
            length_[e] = -inverse(e)[time_place_];
            total += std::abs(length_[e]);
        }
        const double scale = total > 0 ? m_ / total : 1;
        for (double& length : length_) length *= scale;
    }

    double length_of(int column) const {
        double total = 0;
        each_link(column, [&](int e) { total += length_[e]; });
        return total;
    }

    double price_of(int column) const {
        if (column < time_column) return length_[slack_of(column)];
        const int key = basis_.key[p_.pair[column]];
        return demand_of(column) * (length_of(column) - length_of(key));
    }

    // The entering column: the best of the candidates, which come from passes over all; T if none pays.
    int price() {
        for (int turn = 0; turn < 2; turn++) {
            int best = time_column;
            double least = turn == 0 ? std::min(-price_tolerance, worthwhile * first_price_) : -price_tolerance;
            for (int column : candidates_) {
                const double price = price_of(column);
                if (price < least) {
                    least = price;
                    best = column;
                }
            }
            if (best != time_column || turn == 1) return best;
            collect();
        }
        return time_column;
    }

    void collect() {
        std::vector<double> key_length(p_.n_pairs);
        for (int j = 0; j < p_.n_pairs; j++) key_length[j] = length_of(basis_.key[j]);
        priced_.clear();
        for (int e = 0; e < m_; e++)
            if (length_[e] < -price_tolerance) priced_.emplace_back(length_[e], slack_of(e));
        for (int c = 0; c < p_.n_columns; c++) {
            const double price = p_.demand[p_.pair[c]] * (length_of(c) - key_length[p_.pair[c]]);
            if (price < -price_tolerance) priced_.emplace_back(price, c);
        }
        if (priced_.size() > most_candidates) {
            std::nth_element(priced_.begin(), priced_.begin() + most_candidates, priced_.end());
            priced_.resize(most_candidates);
        }
        candidates_.clear();
        first_price_ = 0;
        for (const auto& [price, column] : priced_) {
            candidates_.push_back(column);
            first_price_ = std::min(first_price_, price);
        }
    }

    // Bring a column into the basis; false if no pivot is large enough.
    bool step(int entering) {
        find_direction(entering);
        const int own = entering >= 0 ? p_.pair[entering] : -1;
        touched_.clear();
        for (int i = 0; i < m_; i++)
            if (column_[i] >= 0 && std::abs(direction_[i]) > zero_tolerance) touched_.push_back(p_.pair[column_[i]]);
        if (own >= 0) touched_.push_back(own);
        std::sort(touched_.begin(), touched_.end());
        touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
        falls_.clear();
        for (int j : touched_) {
            double fall = j == own ? 1 : 0;  // of the key's value per unit of the entering one
            for (int i : members_[j]) fall -= direction_[i];
            falls_.push_back(fall);
        }
        int place = -1, pair = -1;
        const double length = ratio(place, pair);
        if (place < 0 && pair < 0) return false;
        for (int i = 0; i < m_; i++) value_[i] -= length * direction_[i];
        for (std::size_t t = 0; t < touched_.size(); t++) key_value_[touched_[t]] -= length * falls_[t];
        if (pair >= 0 && members_[pair].empty()) {  // the entering path takes the key's place
            basis_.key[pair] = entering;
            key_value_[pair] = length;
            return true;
        }
        if (pair >= 0) place = trade_key(pair, pair == own);
        replace(place, entering);
        value_[place] = length;
        return true;
    }

    void find_direction(int entering) {
        std::fill(direction_.begin(), direction_.end(), 0.0);
        const auto add = [&](int e, double factor) {
            add_multiple(direction_.data(), inverse(e), factor, m_);
        };
        if (entering < time_column) return add(slack_of(entering), 1.0);
        const double demand = demand_of(entering);
        each_link(entering, [&](int e) { add(e, demand); });
        each_link(basis_.key[p_.pair[entering]], [&](int e) { add(e, -demand); });
    }

    // How far the entering one rises, and what leaves: a place, or the key of a pair. Of all that allow about the
    // least, the one that falls fastest (Harris, 1973).
    double ratio(int& place, int& pair) const {
        constexpr double slip = 1e-9;
        double limit = 1e300;
        for (int i = 0; i < m_; i++)
            if (direction_[i] > pivot_tolerance) limit = std::min(limit, (std::max(value_[i], 0.0) + slip) / direction_[i]);
        for (std::size_t t = 0; t < touched_.size(); t++)
            if (falls_[t] > pivot_tolerance)
                limit = std::min(limit, (std::max(key_value_[touched_[t]], 0.0) + slip) / falls_[t]);
        double fastest = 0, length = 0;
        for (int i = 0; i < m_; i++)
            if (direction_[i] > pivot_tolerance && std::max(value_[i], 0.0) / direction_[i] <= limit &&
                direction_[i] > fastest && i != time_place_) {
                fastest = direction_[i];
                length = std::max(value_[i], 0.0) / direction_[i];
                place = i;
            }
        for (std::size_t t = 0; t < touched_.size(); t++) {
            const double key_value = std::max(key_value_[touched_[t]], 0.0);
            if (falls_[t] > pivot_tolerance && key_value / falls_[t] <= limit && falls_[t] > fastest) {
                fastest = falls_[t];
                length = key_value / falls_[t];
                place = -1;
                pair = touched_[t];
            }
        }
        return length;
    }

    // Another basic path of the pair becomes its key; the old key takes that one's place, which is returned.
    int trade_key(int pair, bool is_own) {
        const auto& places = members_[pair];
        const int chosen = *std::max_element(places.begin(), places.end(),
                                             [&](int a, int b) { return value_[a] < value_[b]; });
        for (int e = 0; e < m_; e++) {
            double* own = inverse(e);
            double sum = 0;
            for (int i : places) sum += own[i];
            own[chosen] = -sum;
        }
        double sum = is_own ? -1 : 0;
        for (int i : places) sum += direction_[i];
        direction_[chosen] = -sum;
        std::swap(column_[chosen], basis_.key[pair]);
        std::swap(value_[chosen], key_value_[pair]);
        return chosen;
    }

    // Put a column in a place of the basis: a rank-one change of the inverse.
    void replace(int place, int entering) {
        const int leaving = column_[place];
        if (leaving >= 0) {
            auto& places = members_[p_.pair[leaving]];
            places.erase(std::find(places.begin(), places.end(), place));
        }
        column_[place] = entering;
        if (entering >= 0) members_[p_.pair[entering]].push_back(place);
        const double pivot = direction_[place];
        for (int e = 0; e < m_; e++) {
            double* own = inverse(e);
            const double share = own[place] / pivot;
            if (share == 0) continue;
            add_multiple(own, direction_.data(), -share, m_);
            own[place] = share;
        }
        since_refactor_++;
    }

    const PathProgram& p_;
    const int m_;
    PathBasis& basis_;
    std::vector<int> column_;         // of each place of the basis
    std::vector<double> value_;       // likewise
    std::vector<double> inverse_;     // (link, place)
    std::vector<double> length_, direction_;
    std::vector<std::vector<int>> members_;  // places of a pair's paths
    std::vector<double> key_value_, shift_;
    std::vector<int> touched_, candidates_;
    std::vector<double> falls_;
    std::vector<std::pair<double, int>> priced_;
    double first_price_ = 0;
    int time_place_ = 0, since_refactor_ = 0;
};

}  // namespace

Status solve_path_program(const PathProgram& program, std::int64_t most_pivots, const Control& control,
                          PathBasis& basis) {
    PathSimplex simplex(program, basis);
    const Status status = simplex.run(most_pivots, control);
    simplex.export_basis();
    return status;
}

}  // namespace treadle
