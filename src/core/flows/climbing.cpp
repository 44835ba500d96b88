// Paths that climb total orders of the links (docs/how-it-works/all-to-all.md): routing without deadlock in layers.
//
// If every path takes links of rising place in an order, no circle of waiting links exists (Dally and Seitz, 1987). One
// pass over the links in order relaxes each once: when a link's turn comes, every walk that it can extend is known, so
// the distances of all climbing paths take O(m) per source. Orders are found by simulated annealing (Kirkpatrick, Gelatt
// and Vecchi, 1983) under several link lengths: good orders keep climbing paths short at every length that matters, as
// rate <= sum(capacity length) / sum(demand climbing distance) at any. In floats, 16 sources side by side.
#include "flows/climbing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace treadle {
namespace {

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define TREADLE_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define TREADLE_WIDE
#endif

constexpr int lanes = 16;         // sources are padded to a multiple
constexpr double far_away = 8;    // distance of pairs without a path, in units of the largest distance
constexpr float near_enough = 1.002F;  // a path longer than the shortest by less than this takes no detour
constexpr int tries = 30;  // pairs looked at for one that takes a detour

class Random {  // splitmix64 (Steele, Lea and Flood, 2014)
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }
    int below(int n) {
        return static_cast<int>(static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64));
    }
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
    std::uint64_t state_;
};

// The links' ends and the demands, rows of nodes, columns of sources.
struct Board {
    explicit Board(const ClimbProblem& problem)
        : n(problem.n_nodes), m(problem.n_links), sources(problem.n_sources),
          width((problem.n_sources + lanes - 1) / lanes * lanes), tail(problem.tail, problem.tail + m),
          head(problem.head, problem.head + m), source(problem.source, problem.source + sources),
          demand(static_cast<std::size_t>(n) * width, 0.F), first_in(n + 1, 0), in(m) {
        for (int s = 0; s < sources; s++)
            for (int v = 0; v < n; v++)
                demand[static_cast<std::size_t>(v) * width + s] =
                    static_cast<float>(problem.demand[static_cast<std::size_t>(s) * n + v]);
        for (int e = 0; e < m; e++) first_in[head[e] + 1]++;
        std::partial_sum(first_in.begin(), first_in.end(), first_in.begin());
        std::vector<int> next(first_in.begin(), first_in.end() - 1);
        for (int e = 0; e < m; e++) in[next[head[e]]++] = e;
    }
    std::size_t size() const { return static_cast<std::size_t>(n) * width; }
    void reset(std::vector<float>& distance, float far) const {
        std::fill(distance.begin(), distance.end(), far);
        for (int s = 0; s < sources; s++) distance[static_cast<std::size_t>(source[s]) * width + s] = 0;
    }

    int n, m, sources, width;
    std::vector<std::int32_t> tail, head, source;
    std::vector<float> demand;
    std::vector<int> first_in, in;
};

TREADLE_WIDE void pass(const Board& board, const std::int32_t* order, const float* length, float* distance) {
    const int width = board.width;
    for (int i = 0; i < board.m; i++) {
        const int e = order[i];
        const float* from = distance + static_cast<std::size_t>(board.tail[e]) * width;
        float* to = distance + static_cast<std::size_t>(board.head[e]) * width;
        const float own = length[e];
        for (int s = 0; s < width; s++) {
            const float through = from[s] + own;
            to[s] = through < to[s] ? through : to[s];
        }
    }
}

// The same, and which links shortened a distance when their turn came: 1 or 0, (m, width) in order.
TREADLE_WIDE void pass_marking(const Board& board, const std::int32_t* order, const float* length, float* distance,
                               float* mark) {
    const int width = board.width;
    for (int i = 0; i < board.m; i++) {
        const int e = order[i];
        const float* from = distance + static_cast<std::size_t>(board.tail[e]) * width;
        float* to = distance + static_cast<std::size_t>(board.head[e]) * width;
        float* marks = mark + static_cast<std::size_t>(i) * width;
        const float own = length[e];
        for (int s = 0; s < width; s++) {
            const float through = from[s] + own;
            marks[s] = through < to[s] ? 1.F : 0.F;
            to[s] = through < to[s] ? through : to[s];
        }
    }
}

// What nodes are to receive goes back over the links that gave them their distance, the last one first.
TREADLE_WIDE void unwind(const Board& board, const std::int32_t* order, const float* mark, float* wanted, double* load) {
    const int width = board.width;
    for (int i = board.m - 1; i >= 0; i--) {
        const int e = order[i];
        if (board.tail[e] == board.head[e]) continue;
        float* from = wanted + static_cast<std::size_t>(board.tail[e]) * width;
        float* to = wanted + static_cast<std::size_t>(board.head[e]) * width;
        const float* marks = mark + static_cast<std::size_t>(i) * width;
        float sum[lanes] = {};
        for (int s = 0; s < width; s += lanes)
            for (int j = 0; j < lanes; j++) {
                const float moved = to[s + j] * marks[s + j];
                from[s + j] += moved;
                to[s + j] -= moved;
                sum[j] += moved;
            }
        for (int j = 0; j < lanes; j++) load[e] += sum[j];
    }
}

// Sum of demand times the least distance of any layer; in fixed parts, so that the width of the machine's vectors
// does not show.
TREADLE_WIDE double needed(const float* const* distance, int layers, const float* demand, std::size_t size) {
    constexpr std::size_t part = 256;
    double total = 0;
    for (std::size_t at = 0; at < size; at += part) {
        const std::size_t end = std::min(size, at + part);
        float sum[lanes] = {};
        for (std::size_t i = at; i < end; i += lanes)
            for (int j = 0; j < lanes; j++) {
                float least = distance[0][i + j];
                for (int k = 1; k < layers; k++) least = distance[k][i + j] < least ? distance[k][i + j] : least;
                sum[j] += least * demand[i + j];
            }
        for (int j = 0; j < lanes; j++) total += sum[j];
    }
    return total;
}

// One vector of lengths with its distances: over all paths, and over the climbing ones of each layer.
struct View {
    View(const Board& board, const double* given, int layers)
        : length(board.m), free(board.size()), climbing(layers, std::vector<float>(board.size())),
          spare(board.size()) {
        double mean = 0;
        for (int e = 0; e < board.m; e++) mean += given[e] / board.m;
        for (int e = 0; e < board.m; e++) length[e] = static_cast<float>(given[e] / mean);
        std::vector<std::int32_t> any(board.m);
        std::iota(any.begin(), any.end(), 0);
        board.reset(free, std::numeric_limits<float>::max() / 4);
        std::vector<float> last;
        do {
            last = free;
            pass(board, any.data(), length.data(), free.data());
        } while (last != free);
        float largest = 0;
        for (std::size_t i = 0; i < free.size(); i++)
            if (board.demand[i] > 0) {
                largest = std::max(largest, free[i]);
                least += static_cast<double>(free[i]) * board.demand[i];
            }
        far = static_cast<float>(far_away * largest);
    }
    void run(const Board& board, const std::int32_t* order, int layer) {
        board.reset(climbing[layer], far);
        pass(board, order, length.data(), climbing[layer].data());
    }
    double cost(const Board& board) {
        table.clear();
        for (const auto& layer : climbing) table.push_back(layer.data());
        return needed(table.data(), static_cast<int>(table.size()), board.demand.data(), board.size()) / least;
    }
    float nearest(std::size_t at) const {
        float best = climbing[0][at];
        for (const auto& layer : climbing) best = std::min(best, layer[at]);
        return best;
    }

    std::vector<float> length, free;
    std::vector<std::vector<float>> climbing;
    std::vector<float> spare;  // what the layer that is being changed was before
    std::vector<const float*> table;
    float far = 0;
    double least = 0;  // cost of all paths
};

class Annealer {
public:
    Annealer(const ClimbProblem& problem, const AnnealOptions& options)
        : board_(problem), random_(options.seed), layers_(problem.n_layers), place_(board_.m) {
        for (int k = 0; k < layers_; k++) {
            const auto* first = problem.order + static_cast<std::size_t>(k) * board_.m;
            order_.emplace_back(first, first + board_.m);
        }
        for (int j = 0; j < options.n_lengths; j++) {
            views_.emplace_back(board_, options.lengths + static_cast<std::size_t>(j) * board_.m, layers_);
            for (int k = 0; k < layers_; k++) views_.back().run(board_, order_[k].data(), k);
            costs_.push_back(views_.back().cost(board_));
        }
    }

    Status run(const AnnealOptions& options, const Control& control) {
        for (std::int64_t step = 0; step < options.steps; step++) {
            if (step % 64 == 0) {
                if (control.cancelled()) return Status::cancelled;
                control.progress(step, options.steps);
            }
            const double heat = options.hot * std::pow(options.cold / options.hot,
                                                       static_cast<double>(step) / static_cast<double>(options.steps));
            const int layer = random_.below(layers_);
            saved_ = order_[layer];
            if (random_.below(4) == 0 || !admit_path(layer)) move_link(layer);
            if (saved_ != order_[layer]) settle(layer, -heat * std::log(1 - random_.unit()));
        }
        return Status::ok;
    }

    double cost() const { return std::accumulate(costs_.begin(), costs_.end(), 0.0) / static_cast<double>(costs_.size()); }

    std::vector<std::int32_t> orders() const {
        std::vector<std::int32_t> all;
        for (const auto& order : order_) all.insert(all.end(), order.begin(), order.end());
        return all;
    }

private:
    // Keep the changed order if the mean cost rises by no more than `rise`. A move is given up as soon as the lengths
    // seen so far use up what all together may rise: few moves are good, and most bad ones show at once.
    void settle(int layer, double rise) {
        const double limit = rise * static_cast<double>(views_.size());
        new_costs_ = costs_;
        double risen = 0;
        std::size_t done = 0;
        while (done < views_.size() && risen <= limit) {
            View& view = views_[done];
            view.spare.swap(view.climbing[layer]);
            view.run(board_, order_[layer].data(), layer);
            new_costs_[done] = view.cost(board_);
            risen += new_costs_[done] - costs_[done];
            done++;
        }
        if (risen <= limit) {
            costs_.swap(new_costs_);
            return;
        }
        order_[layer].swap(saved_);
        for (std::size_t j = 0; j < done; j++) views_[j].spare.swap(views_[j].climbing[layer]);
    }

    void move_link(int layer) {
        const int from = random_.below(board_.m), to = random_.below(board_.m);
        shift(order_[layer], from, to);
    }

    static void shift(std::vector<std::int32_t>& order, int from, int to) {
        const auto first = order.begin();
        if (from < to) std::rotate(first + from, first + from + 1, first + to + 1);
        if (to < from) std::rotate(first + to, first + from, first + from + 1);
    }

    // Make a shortest path of some pair that takes a detour climb in the layer; false if none was met.
    bool admit_path(int layer) {
        const View& view = views_[random_.below(static_cast<int>(views_.size()))];
        for (int i = 0; i < tries; i++) {
            const int source = random_.below(board_.sources), node = random_.below(board_.n);
            const std::size_t at = static_cast<std::size_t>(node) * board_.width + source;
            if (board_.demand[at] > 0 && view.nearest(at) > view.free[at] * near_enough) {
                find_path(view, source, node);
                straighten(order_[layer], random_.below(2) == 0);
                return true;
            }
        }
        return false;
    }

    // A shortest path, ties at random, into path_.
    void find_path(const View& view, int source, int node) {
        path_.clear();
        for (int hops = 0; node != board_.source[source] && hops < board_.n; hops++) {
            int chosen = -1, seen = 0;
            const float reach = view.free[static_cast<std::size_t>(node) * board_.width + source] * 1.0001F;
            for (int i = board_.first_in[node]; i < board_.first_in[node + 1]; i++) {
                const int e = board_.in[i];
                const float through =
                    view.free[static_cast<std::size_t>(board_.tail[e]) * board_.width + source] + view.length[e];
                if (through <= reach && random_.below(++seen) == 0) chosen = e;
            }
            if (chosen < 0) break;
            path_.push_back(chosen);
            node = board_.tail[chosen];
        }
        std::reverse(path_.begin(), path_.end());
    }

    // Move links of path_ just behind their predecessors, or just before their successors.
    void straighten(std::vector<std::int32_t>& order, bool backwards) {
        const int hops = static_cast<int>(path_.size());
        for (int i = 1; i < hops; i++) {
            const int second = backwards ? hops - i : i;
            for (int p = 0; p < board_.m; p++) place_[order[p]] = p;
            const int before = place_[path_[second - 1]], after = place_[path_[second]];
            if (before > after) shift(order, backwards ? before : after, backwards ? after : before);
        }
    }

    Board board_;
    Random random_;
    int layers_;
    std::vector<View> views_;
    std::vector<std::vector<std::int32_t>> order_;
    std::vector<double> costs_, new_costs_;
    std::vector<std::int32_t> saved_, path_, place_;
};

}  // namespace

void climb(const ClimbProblem& problem, const double* length, ClimbTable& table) {
    const std::size_t sources = problem.n_sources, rows = sources * problem.n_nodes, links = sources * problem.n_links;
    table.distance.assign(rows * problem.n_layers, std::numeric_limits<double>::infinity());
    table.last.assign(rows * problem.n_layers, -1);
    table.before.assign(links * problem.n_layers, -1);
    for (int k = 0; k < problem.n_layers; k++) {
        double* distance = table.distance.data() + k * rows;
        std::int32_t* last = table.last.data() + k * rows;
        for (std::size_t s = 0; s < sources; s++) distance[problem.source[s] * sources + s] = 0;
        for (int i = 0; i < problem.n_links; i++) {
            const std::int32_t e = problem.order[static_cast<std::size_t>(k) * problem.n_links + i];
            if (problem.tail[e] == problem.head[e]) continue;
            const std::size_t from = problem.tail[e] * sources, to = problem.head[e] * sources;
            std::int32_t* before = table.before.data() + k * links + e * sources;
            for (std::size_t s = 0; s < sources; s++) {
                before[s] = last[from + s];
                const double through = distance[from + s] + length[e];
                const bool better = through < distance[to + s];
                distance[to + s] = better ? through : distance[to + s];
                last[to + s] = better ? e : last[to + s];
            }
        }
    }
}

void climbing_loads(const ClimbProblem& problem, const double* length, std::vector<double>& load) {
    const Board board(problem);
    const std::vector<float> own(length, length + board.m);
    std::vector<std::vector<float>> distance(problem.n_layers, std::vector<float>(board.size()));
    std::vector<std::vector<float>> mark(problem.n_layers), wanted(problem.n_layers);
    for (int k = 0; k < problem.n_layers; k++) {
        mark[k].resize(static_cast<std::size_t>(board.m) * board.width);
        wanted[k].assign(board.size(), 0.F);
        board.reset(distance[k], std::numeric_limits<float>::infinity());
        pass_marking(board, problem.order + static_cast<std::size_t>(k) * board.m, own.data(), distance[k].data(),
                     mark[k].data());
    }
    for (std::size_t i = 0; i < board.size(); i++) {
        int best = 0;
        for (int k = 1; k < problem.n_layers; k++)
            if (distance[k][i] < distance[best][i]) best = k;
        wanted[best][i] = board.demand[i];
    }
    load.assign(board.m, 0.0);
    for (int k = 0; k < problem.n_layers; k++)
        unwind(board, problem.order + static_cast<std::size_t>(k) * board.m, mark[k].data(), wanted[k].data(),
               load.data());
}

Status anneal_orders(const ClimbProblem& problem, const AnnealOptions& options, const Control& control,
                     std::vector<std::int32_t>& order, double& cost) {
    Annealer annealer(problem, options);
    const Status status = annealer.run(options, control);
    order = annealer.orders();
    cost = annealer.cost();
    return status;
}

}  // namespace treadle
