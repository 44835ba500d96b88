// Distances to every node, and the jobs of one receiver grouped by step and usable in-links.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "steps/balancing.hpp"
#include "steps/bfb.hpp"
#include "control.hpp"

namespace treadle {

constexpr int kNarrowLimit = 254;  // largest distance in a byte; 255 means not reached

// Row u of the matrix: distances from every node to u.
template <class Dist>
class DistanceMatrix {
   public:
    std::vector<Dist> cells;
    int diameter = 0;
    bool overflow = false;

    explicit DistanceMatrix(const InLinks& in) : in_(in), n_(in.n) {
        cells.assign(static_cast<std::size_t>(n_) * n_, static_cast<Dist>(~Dist{0}));
    }

    Dist* row(int u) { return cells.data() + static_cast<std::size_t>(u) * n_; }

    // Sources in blocks of 64: a node's word holds the sources of the block that reached it.
    Status fill_by_words(const Control& control, Failure& failure) {
        std::vector<std::uint64_t> reached(n_), next(n_);
        for (int base = 0; base < n_; base += 64) {
            if (control.cancelled()) return Status::cancelled;
            control.progress(base, n_);
            const int width = std::min(64, n_ - base);
            std::fill(reached.begin(), reached.end(), 0);
            for (int i = 0; i < width; i++) reached[base + i] = std::uint64_t{1} << i, row(base + i)[base + i] = 0;
            bool grew = true;
            for (int t = 1; grew; t++) {
                if (t > kNarrowLimit + 1) {
                    overflow = true;
                    return Status::ok;
                }
                grew = advance(reached, next, base, t);
                if (grew) diameter = std::max(diameter, t);
                reached.swap(next);
            }
            const std::uint64_t all = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
            for (int u = 0; u < n_; u++)
                if (reached[u] != all) {
                    failure = {base + __builtin_ctzll(all & ~reached[u]), u};
                    return Status::violated;
                }
        }
        return Status::ok;
    }

    // Backwards from one node at a time: better for long and thin graphs.
    Status fill_by_queue(const Control& control, Failure& failure) {
        std::vector<int> queue(n_);
        for (int u = 0; u < n_; u++) {
            if (control.cancelled()) return Status::cancelled;
            if (u % 64 == 0) control.progress(u, n_);
            Dist* d = row(u);
            const int count = search(in_, u, d, queue);
            if (count < n_) {
                const Dist none = static_cast<Dist>(~Dist{0});
                failure = {static_cast<std::int32_t>(std::find(d, d + n_, none) - d), u};
                return Status::violated;
            }
            diameter = std::max(diameter, static_cast<int>(d[queue[n_ - 1]]));
        }
        return Status::ok;
    }

    // Distances to u in `d`; the number of nodes found, nearest first in `queue`.
    static int search(const InLinks& in, int u, Dist* d, std::vector<int>& queue) {
        const Dist none = static_cast<Dist>(~Dist{0});
        int count = 0;
        d[u] = 0;
        queue[count++] = u;
        for (int i = 0; i < count; i++) {
            const int x = queue[i];
            const Dist t = static_cast<Dist>(d[x] + 1);
            for (std::int64_t e = in.offset[x]; e < in.offset[x + 1]; e++)
                if (d[in.tail[e]] == none) d[in.tail[e]] = t, queue[count++] = in.tail[e];
        }
        return count;
    }

   private:
    const InLinks& in_;
    const int n_;

    bool advance(const std::vector<std::uint64_t>& reached, std::vector<std::uint64_t>& next, int base, int t) {
        bool grew = false;
        for (int u = 0; u < n_; u++) {
            std::uint64_t word = 0;
            for (std::int64_t e = in_.offset[u]; e < in_.offset[u + 1]; e++) word |= reached[in_.tail[e]];
            std::uint64_t fresh = word & ~reached[u];
            next[u] = reached[u] | word;
            if (!fresh) continue;
            grew = true;
            if (t > kNarrowLimit) continue;  // the caller turns to wider distances
            for (Dist* d = row(u) + base; fresh; fresh &= fresh - 1) d[__builtin_ctzll(fresh)] = static_cast<Dist>(t);
        }
        return grew;
    }
};

// Distance rows of every receiver and of the tails of its in-links.
template <class Dist>
struct Rows {
    using Distance = Dist;
    int n = 0, steps = 0, max_degree = 0;
    std::vector<const Dist*> own, tail;
    std::vector<std::int64_t> offset;

    int receivers() const { return static_cast<int>(own.size()); }
    int degree(int u) const { return static_cast<int>(offset[u + 1] - offset[u]); }
};

template <class Dist>
Rows<Dist> rows_of(const InLinks& in, DistanceMatrix<Dist>& matrix) {
    Rows<Dist> rows;
    rows.n = in.n;
    rows.steps = matrix.diameter;
    rows.offset.assign(in.offset, in.offset + in.n + 1);
    for (int u = 0; u < in.n; u++) {
        rows.own.push_back(matrix.row(u));
        rows.max_degree = std::max(rows.max_degree, rows.degree(u));
    }
    rows.tail.reserve(in.offset[in.n]);
    for (std::int64_t e = 0; e < in.offset[in.n]; e++) rows.tail.push_back(matrix.row(in.tail[e]));
    return rows;
}

inline Rows<std::uint16_t> rows_of(const DistanceRows& given) {
    Rows<std::uint16_t> rows;
    rows.n = given.n;
    rows.max_degree = given.degree;
    rows.offset = {0, given.degree};
    rows.own = {given.rows};
    for (int k = 1; k <= given.degree; k++) rows.tail.push_back(given.rows + static_cast<std::size_t>(k) * given.n);
    rows.steps = *std::max_element(given.rows, given.rows + given.n);
    return rows;
}

// The jobs of a receiver: its sources by step, each with the set of in-links whose tail is one step nearer.
// Word is as narrow as the degree allows, so that the comparison of rows runs on full vectors; beyond 64 in-links a
// set has several words.
template <class Dist, class Word>
class ReceiverJobs {
   public:
    JobGroups groups;               // of the step that was grouped last
    std::vector<int> group_of_job;  // by place among the jobs of that step

    explicit ReceiverJobs(const Rows<Dist>& rows)
        : rows_(rows), words_(std::max(1, (rows.max_degree + kBits - 1) / kBits)) {
        mask_.resize(static_cast<std::size_t>(words_) * rows.n);
        order_.resize(rows.n);
        if (kBits <= 16) table_.assign(std::size_t{1} << std::min(kBits, rows.max_degree), 0);
    }

    void load(int u) {
        const Dist* own = rows_.own[u];
        const int n = rows_.n;
        std::fill(mask_.begin(), mask_.end(), Word{0});
        for (int k = 0; k < rows_.degree(u); k++) {
            const Dist* tail = rows_.tail[rows_.offset[u] + k];
            Word* mask = mask_.data() + static_cast<std::size_t>(k / kBits) * n;
            const Word bit = static_cast<Word>(Word{1} << (k % kBits));
            // The receiver itself, at distance 0, wraps round to the value of nodes not reached, of which none is left.
            for (int v = 0; v < n; v++)
                mask[v] |= static_cast<Word>(static_cast<Word>(static_cast<Dist>(own[v] - 1) == tail[v] ? ~Word{0} : 0) &
                                             bit);
        }
        start_.assign(rows_.steps + 2, 0);
        for (int v = 0; v < n; v++) start_[own[v] + 1]++;
        for (int t = 0; t <= rows_.steps; t++) start_[t + 1] += start_[t];
        place_ = start_;
        for (int v = 0; v < n; v++) order_[place_[own[v]]++] = v;
    }

    // Sources at distance t, ascending.
    const int* begin(int t) const { return order_.data() + start_[t]; }
    int count(int t) const { return start_[t + 1] - start_[t]; }

    // Few in-links first: their jobs have least choice. `group_of_job` is filled on request.
    void group(int t, bool with_members = false) {
        groups.clear();
        if (with_members) group_of_job.resize(count(t));
        if (kBits <= 16)
            group_by_table(t, with_members);
        else
            group_by_sorting(t, with_members);
    }

   private:
    static constexpr int kBits = 8 * static_cast<int>(sizeof(Word));
    const Rows<Dist>& rows_;
    const int words_;
    std::vector<Word> mask_;
    std::vector<int> order_, start_, place_, table_, touched_, sorted_;

    void group_by_table(int t, bool with_members) {
        const int* jobs = begin(t);
        touched_.clear();
        for (int i = 0; i < count(t); i++) {
            const int mask = static_cast<int>(mask_[jobs[i]]);
            if (table_[mask]++ == 0) touched_.push_back(__builtin_popcount(mask) << 16 | mask);
        }
        if (touched_.size() > 1) std::sort(touched_.begin(), touched_.end());
        for (int& key : touched_) key &= 0xffff;
        for (int mask : touched_) {
            add_group(table_[mask], &mask, 1);
            table_[mask] = groups.size() - 1;
        }
        for (int i = 0; with_members && i < count(t); i++) group_of_job[i] = table_[mask_[jobs[i]]];
        for (int mask : touched_) table_[mask] = 0;
    }

    void group_by_sorting(int t, bool with_members) {
        const int* jobs = begin(t);
        sorted_.resize(count(t));
        std::iota(sorted_.begin(), sorted_.end(), 0);
        auto compare = [&](int a, int b) {
            int left = 0, right = 0;
            for (int w = 0; w < words_; w++) left += bits(w, jobs[a]), right += bits(w, jobs[b]);
            if (left != right) return left < right ? -1 : 1;
            for (int w = 0; w < words_; w++)
                if (word(w, jobs[a]) != word(w, jobs[b])) return word(w, jobs[a]) < word(w, jobs[b]) ? -1 : 1;
            return 0;
        };
        std::sort(sorted_.begin(), sorted_.end(), [&](int a, int b) {
            const int order = compare(a, b);
            return order != 0 ? order < 0 : a < b;
        });
        std::vector<Word> set(words_);
        for (int i = 0, next = 0; i < count(t); i = next) {
            while (next < count(t) && compare(sorted_[i], sorted_[next]) == 0) next++;
            for (int j = i; with_members && j < next; j++) group_of_job[sorted_[j]] = groups.size();
            for (int w = 0; w < words_; w++) set[w] = word(w, jobs[sorted_[i]]);
            add_group(next - i, set.data(), words_);
        }
    }

    Word word(int w, int v) const { return mask_[static_cast<std::size_t>(w) * rows_.n + v]; }
    int bits(int w, int v) const { return __builtin_popcountll(word(w, v)); }

    template <class Set>
    void add_group(int jobs, const Set* set, int words) {
        groups.jobs.push_back(jobs);
        groups.mask.push_back(static_cast<std::uint64_t>(set[0]));
        for (int w = 0; w < words; w++)
            for (std::uint64_t rest = static_cast<std::uint64_t>(set[w]); rest; rest &= rest - 1)
                groups.link.push_back(w * kBits + __builtin_ctzll(rest));
        groups.offset.push_back(static_cast<int>(groups.link.size()));
    }
};

// Calls f(Word{}) with the narrowest word for sets of `degree` links.
template <class F>
auto with_word(int degree, F f) {
    if (degree <= 8) return f(std::uint8_t{});
    if (degree <= 16) return f(std::uint16_t{});
    if (degree <= 32) return f(std::uint32_t{});
    return f(std::uint64_t{});
}

// Calls f(rows) with the distances between all nodes; bytes where the diameter allows.
template <class F>
Status with_rows(const InLinks& in, const Control& control, Failure& failure, F f) {
    std::vector<int> queue(in.n);
    std::vector<std::uint16_t> probe(in.n, static_cast<std::uint16_t>(~0));
    const int found = DistanceMatrix<std::uint16_t>::search(in, 0, probe.data(), queue);
    const int radius = probe[queue[found - 1]];
    if (radius < 100) {
        DistanceMatrix<std::uint8_t> matrix(in);
        const Status status = matrix.fill_by_words(control, failure);
        if (status != Status::ok) return status;
        if (!matrix.overflow) return f(rows_of(in, matrix));
    }
    DistanceMatrix<std::uint16_t> matrix(in);
    const Status status = matrix.fill_by_queue(control, failure);
    return status != Status::ok ? status : f(rows_of(in, matrix));
}

}  // namespace treadle
