// Mends the shares of planes (docs/proofs/decomposition.md, section 6, after Lemma 14b).
//
// n_s(x, y), the units that node x sends to node y over plane s, is given by a formula with one number per pair of
// groups (Lemma 14b: Hermite's identity spreads remainders evenly). Sums of pairs are exact; sums of rows and columns by
// plane are off by a few units. A *wish* is a unit of a row or column that is to move from plane s to plane t. A row and
// a column with one wish meet at their pair; two columns with opposite wishes meet at a row; wishes of three or more
// planes in a circle go by way of a plane that all have. Pairs so changed are listed; all others follow the formula.
#include "trees/tight_cuts/plane_shares.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <unordered_map>

namespace treadle {

namespace {

constexpr std::int64_t most_moves = std::int64_t{1} << 24;  // units that are off, beyond which nothing is tried
constexpr int near_tries = 64;  // partners of a node that are tried before it is left to later rounds

// Units of pairs by plane: by the formula, and in full where a pair was given or has changed.
class Pairs {
public:
    explicit Pairs(const PlaneTable& table) : table_(table), size_(table.groups, 0), index_(table.n) {
        for (int v = 0; v < table.n; ++v) index_[v] = size_[table.group[v]]++;
        stop_.resize(table.units.size());
        for (std::size_t at = 0; at < stop_.size(); ++at)
            stop_[at] = table.units[at] + (at % table.planes ? stop_[at - 1] : 0);
        for (std::size_t row = 0; row < table.pairs.root.size(); ++row)
            row_.emplace(key(table.pairs.root[row], table.pairs.child[row]), static_cast<int>(row));
        changed_ = table.pairs;
    }

    std::int64_t units(int root, int child, int plane) const {
        const auto found = row_.find(key(root, child));
        if (found != row_.end()) return changed_.units[std::int64_t{found->second} * table_.planes + plane];
        return even(root, child, plane);
    }

    void move(int root, int child, int from, int to) {
        const auto [found, fresh] = row_.emplace(key(root, child), static_cast<int>(changed_.root.size()));
        if (fresh) {
            changed_.root.push_back(root);
            changed_.child.push_back(child);
            for (int s = 0; s < table_.planes; ++s) changed_.units.push_back(even(root, child, s));
        }
        const std::int64_t row = std::int64_t{found->second} * table_.planes;
        --changed_.units[row + from];
        ++changed_.units[row + to];
    }

    void take(PlanePairs& result) { result = std::move(changed_); }

private:
    std::uint64_t key(int root, int child) const { return std::uint64_t(root) * table_.n + child; }

    // Lemma 14b: floor((C_s + p) / B') by planes 0, ..., s, less the same by planes 0, ..., s - 1. Where each pair of
    // groups begins (`begin`) varies by a multiplicative hash, so that remainders of different pairs do not coincide.
    std::int64_t even(int root, int child, int plane) const {
        const int a = table_.group[root], b = table_.group[child];
        const bool by_root = size_[a] <= size_[b];
        const std::int64_t narrow = by_root ? size_[a] : size_[b], wide = by_root ? size_[b] : size_[a];
        const std::int64_t owner = index_[by_root ? root : child], across = index_[by_root ? child : root];
        const std::int64_t others = wide - (a == b);
        const std::int64_t begin = a == b ? 1 : std::int64_t{by_root ? a : b} * 40503 % 65536 * wide / 65536;
        std::int64_t turn = (across - owner * wide / narrow - begin) % wide;
        if (turn < 0) turn += wide;
        const std::int64_t at = (std::int64_t{a} * table_.groups + b) * table_.planes + plane;
        return (stop_[at] + turn) / others - ((plane ? stop_[at - 1] : 0) + turn) / others;
    }

    const PlaneTable& table_;
    std::vector<std::int64_t> size_, index_, stop_;
    PlanePairs changed_;
    std::unordered_map<std::uint64_t, int> row_;
};

// A node that is to have a unit less on plane `from` and one more on plane `to`.
struct Wish {
    int from, to, node;
};
using Wishes = std::vector<Wish>;

// Wishes that are each other's opposite or equal: those for (low, high), and for (high, low).
struct Bucket {
    int low, high;
    std::vector<int> up, down;  // nodes
};

std::vector<Bucket> buckets_of(Wishes& wishes) {
    const auto rank = [](const Wish& one) {
        return std::make_tuple(std::min(one.from, one.to), std::max(one.from, one.to));
    };
    std::stable_sort(wishes.begin(), wishes.end(), [&](const Wish& a, const Wish& b) { return rank(a) < rank(b); });
    std::vector<Bucket> found;
    for (const Wish& one : wishes) {
        const auto [low, high] = rank(one);
        if (found.empty() || found.back().low != low || found.back().high != high)
            found.push_back({low, high, {}, {}});
        (one.from == low ? found.back().up : found.back().down).push_back(one.node);
    }
    return found;
}

class Settling {
public:
    Settling(const PlaneTable& table, const std::vector<std::int64_t>& out, const std::vector<std::int64_t>& in,
             const Control& control)
        : table_(table), control_(control), pairs_(table) {
        fits_ = wishes_of(out, rows_) && wishes_of(in, columns_);
        all_planes();
    }

    Status run(PlanePairs& result) {
        if (!fits_) return Status::stuck;
        meet();
        if (!rows_to_columns()) return stopped();
        pair_columns();
        if (!columns_to_open()) return stopped();
        through_hub();
        pair_columns();
        if (!columns_.empty()) return stopped();
        pairs_.take(result);
        return Status::ok;
    }

private:
    Status stopped() const { return control_.cancelled() ? Status::cancelled : Status::stuck; }

    bool wishes_of(const std::vector<std::int64_t>& needs, Wishes& wishes) {
        std::int64_t total = 0;
        for (std::int64_t need : needs) total += std::max<std::int64_t>(need, 0);
        if (total > most_moves) return false;
        for (int v = 0; v < table_.n; ++v) {
            const std::int64_t* need = &needs[std::int64_t{v} * table_.planes];
            int from = 0;
            std::int64_t spare = std::max<std::int64_t>(-need[0], 0);
            for (int to = 0; to < table_.planes; ++to)
                for (std::int64_t unit = 0; unit < need[to]; ++unit) {
                    while (!spare && from + 1 < table_.planes) spare = std::max<std::int64_t>(-need[++from], 0);
                    if (!spare) return false;
                    --spare;
                    wishes.push_back({from, to, v});
                }
        }
        return true;
    }

    // Nodes that are sent something on all planes; the plane with most units.
    void all_planes() {
        const int n = table_.n, planes = table_.planes;
        std::vector<std::int64_t> total(planes, 0);
        std::vector<char> is_sent(table_.groups, true);
        for (int s = 0; s < planes; ++s)
            for (int a = 0; a < table_.groups; ++a) {
                std::int64_t out = 0, in = 0;
                for (int b = 0; b < table_.groups; ++b) {
                    out += table_.units[(std::int64_t{a} * table_.groups + b) * planes + s];
                    in += table_.units[(std::int64_t{b} * table_.groups + a) * planes + s];
                }
                if (!in) is_sent[a] = false;
                total[s] += out;
            }
        hub_ = static_cast<int>(std::max_element(total.begin(), total.end()) - total.begin());
        for (int v = 0; v < n; ++v) {
            if (is_sent[table_.group[v]]) open_columns_.push_back(v);
        }
        open_column_.assign(n, false);
        for (int v : open_columns_) open_column_[v] = true;
    }

    bool may(int root, int child, int from) const { return root != child && pairs_.units(root, child, from) > 0; }

    bool stop() { return !(++steps_ % 65536) && control_.cancelled(); }

    // Rows and columns with the same wish, by their pair.
    void meet() {
        std::vector<Bucket> rows = buckets_of(rows_), columns = buckets_of(columns_);
        rows_.clear();
        columns_.clear();
        std::size_t at = 0;
        for (Bucket& row : rows) {
            while (at < columns.size() && std::tie(columns[at].low, columns[at].high) < std::tie(row.low, row.high)) ++at;
            if (at == columns.size() || columns[at].low != row.low || columns[at].high != row.high) continue;
            meet(row.up, columns[at].up, row.low, row.high);
            meet(row.down, columns[at].down, row.high, row.low);
        }
        put_back(rows, rows_);
        put_back(columns, columns_);
    }

    static void put_back(const std::vector<Bucket>& buckets, Wishes& wishes) {
        for (const Bucket& one : buckets) {
            for (int v : one.up) wishes.push_back({one.low, one.high, v});
            for (int v : one.down) wishes.push_back({one.high, one.low, v});
        }
    }

    void meet(std::vector<int>& rows, std::vector<int>& columns, int from, int to) {
        std::vector<int> left;
        for (int x : rows) {
            bool met = false;
            for (int back = 1; back <= near_tries && back <= static_cast<int>(columns.size()) && !met; ++back) {
                const std::size_t at = columns.size() - back;
                if (!may(x, columns[at], from)) continue;
                pairs_.move(x, columns[at], from, to);
                columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(at));
                met = true;
            }
            if (!met) left.push_back(x);
        }
        rows = std::move(left);
    }

    // A row has its wish by a pair with some column, which then wishes the opposite.
    bool rows_to_columns() {
        const std::vector<int>& choice = open_columns_;
        for (const Wish& one : rows_) {
            bool met = false;
            for (std::size_t tries = 0; tries < choice.size() && !met; ++tries) {
                if (stop()) return false;
                const int y = choice[++column_turn_ % choice.size()];
                if (!may(one.node, y, one.from)) continue;
                pairs_.move(one.node, y, one.from, one.to);
                columns_.push_back({one.to, one.from, y});
                met = true;
            }
            if (!met) return false;
        }
        rows_.clear();
        return true;
    }

    // Columns with opposite wishes, by their pairs with one row.
    void pair_columns() {
        std::vector<Bucket> buckets = buckets_of(columns_);
        columns_.clear();
        for (Bucket& one : buckets) {
            std::vector<int> up, down;  // without nodes that wish both
            std::sort(one.up.begin(), one.up.end());
            std::sort(one.down.begin(), one.down.end());
            std::set_difference(one.up.begin(), one.up.end(), one.down.begin(), one.down.end(), std::back_inserter(up));
            std::set_difference(one.down.begin(), one.down.end(), one.up.begin(), one.up.end(),
                                std::back_inserter(down));
            while (!up.empty() && !down.empty() && joint(up.back(), down.back(), one.low, one.high)) {
                up.pop_back();
                down.pop_back();
            }
            for (int v : up) columns_.push_back({one.low, one.high, v});
            for (int v : down) columns_.push_back({one.high, one.low, v});
        }
    }

    // One row moves a unit of column y from plane to plane, and one of column z back.
    bool joint(int y, int z, int from, int to) {
        for (int tries = 0; tries < table_.n; ++tries) {
            if (stop()) return false;
            const int x = static_cast<int>(++row_turn_ % table_.n);
            if (!may(x, y, from) || !may(x, z, to)) continue;
            pairs_.move(x, y, from, to);
            pairs_.move(x, z, to, from);
            return true;
        }
        return false;
    }

    // Columns that lack planes pass their wishes to others.
    bool columns_to_open() {
        if (open_columns_.empty()) return columns_.empty();
        for (Wish& one : columns_) {
            if (open_column_[one.node]) continue;
            bool met = false;
            for (std::size_t tries = 0; tries < open_columns_.size() && !met; ++tries) {
                const int z = open_columns_[++column_turn_ % open_columns_.size()];
                if (!joint(one.node, z, one.from, one.to)) continue;
                one.node = z;
                met = true;
            }
            if (!met) return false;
        }
        return true;
    }

    // From plane to plane by way of one that all wishes share, so that opposite ones cancel.
    void through_hub() {
        Wishes split;
        for (const Wish& one : columns_) {
            if (one.from != hub_) split.push_back({one.from, hub_, one.node});
            if (one.to != hub_) split.push_back({hub_, one.to, one.node});
        }
        columns_ = std::move(split);
    }

    const PlaneTable& table_;
    const Control& control_;
    Pairs pairs_;
    Wishes rows_, columns_;
    std::vector<int> open_columns_;
    std::vector<char> open_column_;
    std::int64_t row_turn_ = 0, column_turn_ = 0, steps_ = 0;
    int hub_ = 0;
    bool fits_ = false;
};

}  // namespace

Status settle_planes(const PlaneTable& table, const std::vector<std::int64_t>& need_out,
                     const std::vector<std::int64_t>& need_in, const Control& control, PlanePairs& result) {
    return Settling(table, need_out, need_in, control).run(result);
}

}  // namespace treadle
