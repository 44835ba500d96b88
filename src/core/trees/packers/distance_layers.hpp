// Who is how far from whom in a digraph, for all roots at once: a bit for each root.
//
// Layer d of node v is the set of roots that reach v in d hops and no fewer: the union of the layers d - 1 of the tails
// of its in-arcs, less those seen before. One pass over the arcs handles 64 roots with one operation.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trees/packing.hpp"

namespace treadle {

using Word = std::uint64_t;

inline int lowest_bit(Word word) { return __builtin_ctzll(word); }

// Number of bits, in a few steps also where the processor's own instruction may not be used.
inline int bits_of(Word word) {
    word -= (word >> 1) & 0x5555555555555555ull;
    word = (word & 0x3333333333333333ull) + ((word >> 2) & 0x3333333333333333ull);
    return static_cast<int>(((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0full) * 0x0101010101010101ull >> 56);
}

// A digraph's arcs by head; loops and those without capacity are left out.
struct InArcs {
    std::vector<int> start, tail;
    std::vector<std::int64_t> capacity;

    explicit InArcs(const PackingProblem& problem) : start(problem.n_nodes + 1, 0) {
        for (std::size_t a = 0; a < problem.head.size(); a++)
            if (is_of_use(problem, a)) start[problem.head[a] + 1]++;
        for (int v = 0; v < problem.n_nodes; v++) start[v + 1] += start[v];
        tail.resize(start.back());
        capacity.resize(start.back());
        std::vector<int> place(start.begin(), start.end() - 1);
        for (std::size_t a = 0; a < problem.head.size(); a++) {
            if (!is_of_use(problem, a)) continue;
            tail[place[problem.head[a]]] = problem.tail[a];
            capacity[place[problem.head[a]]++] = problem.capacity[a];
        }
    }

   private:
    static bool is_of_use(const PackingProblem& problem, std::size_t a) {
        return problem.tail[a] != problem.head[a] && problem.capacity[a] > 0;
    }
};

// Sets of roots by their distance to each node, a bit for each root.
class Layers {
   public:
    Layers(const InArcs& arcs, const std::vector<int>& roots)
        : arcs_(arcs), n_(arcs.start.size() - 1), words_((roots.size() + 63) / 64), missing_(n_ * roots.size()) {
        std::vector<Word> first(n_ * words_, 0);
        for (std::size_t i = 0; i < roots.size(); i++) first[roots[i] * words_ + i / 64] |= Word{1} << (i % 64);
        seen_ = first;
        missing_ -= roots.size();
        layers_.push_back(std::move(first));
    }

    // False if some root does not reach all nodes, or there is no space.
    bool build(std::int64_t most_cells) {
        const std::int64_t cells = static_cast<std::int64_t>(n_ * words_);
        if (farthest() >= most_cells / cells) return false;
        while (missing_ > 0) {
            if (static_cast<std::int64_t>(layers_.size() + 1) * cells > most_cells) return false;
            const std::size_t before = missing_;
            layers_.push_back(next());
            if (missing_ == before) return false;
        }
        return true;
    }

    int count() const { return static_cast<int>(layers_.size()); }
    std::size_t words() const { return words_; }
    const Word* at(int distance, int v) const { return layers_[distance].data() + v * words_; }

   private:
    // Hops to node 0 from the farthest root: tells early that a fabric is too deep.
    std::int64_t farthest() const {
        std::vector<std::int64_t> hops(n_, -1);
        std::vector<int> queue{0};
        hops[0] = 0;
        for (std::size_t i = 0; i < queue.size(); i++)
            for (int a = arcs_.start[queue[i]]; a < arcs_.start[queue[i] + 1]; a++) {
                if (hops[arcs_.tail[a]] >= 0) continue;
                hops[arcs_.tail[a]] = hops[queue[i]] + 1;
                queue.push_back(arcs_.tail[a]);
            }
        std::int64_t most = 0;
        for (std::size_t v = 0; v < n_; v++)
            for (std::size_t w = 0; w < words_; w++)
                if (layers_[0][v * words_ + w]) most = std::max(most, hops[v]);
        return most;
    }

    const InArcs& arcs_;
    std::size_t n_, words_, missing_;  // missing: pairs of root and node without a distance yet
    std::vector<std::vector<Word>> layers_;
    std::vector<Word> seen_;

    std::vector<Word> next() {
        std::vector<Word> layer(n_ * words_, 0);
        for (std::size_t v = 0; v < n_; v++) {
            Word *mine = layer.data() + v * words_, *seen = seen_.data() + v * words_;
            for (int a = arcs_.start[v]; a < arcs_.start[v + 1]; a++) {
                const Word* other = layers_.back().data() + arcs_.tail[a] * words_;
                for (std::size_t w = 0; w < words_; w++) mine[w] |= other[w];
            }
            for (std::size_t w = 0; w < words_; w++) {
                mine[w] &= ~seen[w];
                seen[w] |= mine[w];
                missing_ -= bits_of(mine[w]);
            }
        }
        return layer;
    }
};

}  // namespace treadle
