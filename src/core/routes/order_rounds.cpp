// Each layer in turn is filled anew, knowing what the others serve: paths that it alone had, then those of pieces that no
// layer serves in as few hops as they could be, then the rest (docs/how-it-works/all-to-all.md).
#include "routes/order_rounds.hpp"

#include <algorithm>
#include <utility>

#include "routes/random.hpp"
#include "routes/wait_layer.hpp"

namespace treadle {
namespace {

constexpr int block = 256;         // sources side by side
constexpr std::int64_t far = 8;    // times the most hops: what a piece without a way costs
constexpr int most_counted = 199;  // hops

class OrderRounds {
public:
    OrderRounds(const PieceTable& pieces, const WaitPaths& paths, const std::int32_t* distance, const OrderPace& pace,
                FilledLayers& filled)
        : p_(pieces), paths_(paths), table_(paths), distance_(distance), pace_(pace), filled_(filled), random_(pace.seed),
          n_layers_(static_cast<int>(filled.order.size() / paths.n_links)), count_(paths.n_paths), place_(paths.n_links) {
        for (int k = 0; k < n_layers_; k++) away_.push_back(climbing_hops(p_, links(k), pace_.most_hops));
        count_waits();
    }

    Status run(const Control& control) {
        Status status = Status::ok;
        const int rounds = pace_.passes * n_layers_;
        for (int round = 0, idle = 0; round < rounds && idle < n_layers_ && status == Status::ok; round++) {
            control.progress(round, rounds);
            idle = improve(round % n_layers_) ? 0 : idle + 1;
            if (control.cancelled()) status = Status::cancelled;
        }
        filled_.layer.assign(count_, -1);
        for (int k = n_layers_ - 1; k >= 0; k--) {
            look_at(k);
            for (std::int64_t i = 0; i < count_; i++)
                if (climbs(i)) filled_.layer[i] = k;
        }
        return status;
    }

private:
    const std::int32_t* links(int k) const { return filled_.order.data() + static_cast<std::size_t>(k) * paths_.n_links; }

    // Whether the layer serves more in another order.
    bool improve(int k) {
        others_.assign(count_, no_way);
        for (int j = 0; j < n_layers_; j++)
            if (j != k)
                for (std::int64_t i = 0; i < count_; i++) others_[i] = std::min(others_[i], away_[j][i]);
        WaitLayer layer(table_);
        fill(k, layer);
        std::vector<std::int32_t> found;
        layer.append_order(found);
        std::vector<std::uint8_t> away = climbing_hops(p_, found.data(), pace_.most_hops);
        const std::int64_t now = cost(away), before = cost(away_[k]);
        if (now > before) return false;
        std::copy(found.begin(), found.end(), filled_.order.begin() + static_cast<std::size_t>(k) * paths_.n_links);
        away_[k].swap(away);
        return now < before;
    }

    void look_at(int k) {
        for (int i = 0; i < paths_.n_links; i++) place_[links(k)[i]] = i;
    }

    void fill(int k, WaitLayer& layer) {
        look_at(k);
        wanted_.clear();
        for (std::int64_t i = 0; i < count_; i++) {
            if (others_[i] <= distance_[i]) continue;
            if (climbs(i))
                take(layer, i);
            else
                wanted_.push_back(i);
        }
        for (std::int64_t i = static_cast<std::int64_t>(wanted_.size()) - 1; i > 0; i--)
            std::swap(wanted_[i], wanted_[random_.next() % static_cast<std::uint64_t>(i + 1)]);
        for (std::int64_t i : wanted_) take(layer, i);
        for (const auto& [a, b] : busy_) layer.insert(a, b);
    }

    // All waits of the paths, those of most paths first.
    void count_waits() {
        std::vector<std::int64_t> used(table_.size(), 0);
        for (std::int64_t i = 0; i < count_; i++)
            for (std::int64_t j = paths_.offset[i] + 1; j < paths_.offset[i + 1]; j++) {
                const int a = paths_.link[j - 1], b = paths_.link[j];
                if (!used[table_.wait(a, b)]++) busy_.emplace_back(a, b);
            }
        std::sort(busy_.begin(), busy_.end(), [&](const auto& x, const auto& y) {
            const std::int64_t first = used[table_.wait(x.first, x.second)], second = used[table_.wait(y.first, y.second)];
            return first != second ? first > second : x < y;
        });
    }

    // Whether its path climbs the order that is looked at.
    bool climbs(std::int64_t i) const {
        for (std::int64_t j = paths_.offset[i] + 1; j < paths_.offset[i + 1]; j++)
            if (place_[paths_.link[j]] < place_[paths_.link[j - 1]]) return false;
        return true;
    }

    void take(WaitLayer& layer, std::int64_t i) {
        layer.take(paths_.link + paths_.offset[i], paths_.offset[i + 1] - paths_.offset[i]);
    }

    // Hops of all pieces' data if this layer is of the kind given.
    std::int64_t cost(const std::vector<std::uint8_t>& away) const {
        std::int64_t total = 0;
        for (std::int64_t i = 0; i < count_; i++) {
            const int hops = std::min(others_[i], away[i]);
            total += p_.amount[i] * (hops == no_way ? far * pace_.most_hops : hops);
        }
        return total;
    }

    const PieceTable& p_;
    const WaitPaths& paths_;
    WaitTable table_;
    const std::int32_t* distance_;
    const OrderPace& pace_;
    FilledLayers& filled_;
    RouteRandom random_;
    int n_layers_;
    std::int64_t count_;
    std::vector<int> place_;
    std::vector<std::vector<std::uint8_t>> away_;  // by layer and piece
    std::vector<std::uint8_t> others_;
    std::vector<std::int64_t> wanted_;
    std::vector<std::pair<int, int>> busy_;
};

}  // namespace

std::vector<std::uint8_t> climbing_hops(const PieceTable& pieces, const std::int32_t* order, int most_hops) {
    const int most = std::min(most_hops, most_counted);
    std::vector<std::uint8_t> hops(pieces.first[pieces.n_sources], no_way);
    std::vector<std::uint8_t> table(static_cast<std::size_t>(pieces.n_nodes) * block);
    for (int begin = 0; begin < pieces.n_sources; begin += block) {
        const int end = std::min(pieces.n_sources, begin + block);
        std::fill(table.begin(), table.end(), no_way);
        for (int s = begin; s < end; s++) table[static_cast<std::size_t>(pieces.node[s]) * block + s - begin] = 0;
        for (int j = 0; j < pieces.n_links; j++) {  // when a link's turn comes, every walk that it extends is known
            const std::uint8_t* from = table.data() + static_cast<std::size_t>(pieces.tail[order[j]]) * block;
            std::uint8_t* to = table.data() + static_cast<std::size_t>(pieces.head[order[j]]) * block;
            for (int s = 0; s < block; s++) to[s] = std::min<std::uint8_t>(to[s], static_cast<std::uint8_t>(from[s] + 1));
        }
        for (int s = begin; s < end; s++)
            for (std::int64_t i = pieces.first[s]; i < pieces.first[s + 1]; i++) {
                const std::uint8_t away = table[static_cast<std::size_t>(pieces.target[i]) * block + s - begin];
                if (away <= most) hops[i] = away;
            }
    }
    return hops;
}

Status improve_orders(const PieceTable& pieces, const WaitPaths& paths, const std::int32_t* distance, const OrderPace& pace,
                      const Control& control, FilledLayers& filled) {
    return OrderRounds(pieces, paths, distance, pace, filled).run(control);
}

}  // namespace treadle
