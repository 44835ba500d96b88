// LASH (Skeie, Lysne and Theiss, 2002): every path goes into the first layer in which its waits close no cycle. A
// fabric has few waits, one for each link and link after it, so a table per layer says of each whether it is in or can
// never be; only what neither is known of costs a search (Pearce and Kelly, 2006: an order repaired where it must be).
#include "routes/layer_orders.hpp"

#include <algorithm>
#include <numeric>

namespace treadle {
namespace {

constexpr std::int64_t beat = 1 << 12;  // paths between two looks at the clock

enum : std::uint8_t { unknown = 0, held = 1, refused = 2 };

// The links before and after each, and a number for each wait.
struct WaitTable {
    explicit WaitTable(const WaitPaths& paths)
        : m(paths.n_links), tail(paths.tail), head(paths.head), first_out(paths.n_nodes + 1, 0),
          first_in(paths.n_nodes + 1, 0), slot(m), first(m + 1, 0) {
        for (int e = 0; e < m; e++) {
            first_out[tail[e] + 1]++;
            first_in[head[e] + 1]++;
        }
        std::partial_sum(first_out.begin(), first_out.end(), first_out.begin());
        std::partial_sum(first_in.begin(), first_in.end(), first_in.begin());
        out.resize(m);
        in.resize(m);
        std::vector<int> next_out(first_out.begin(), first_out.end() - 1), next_in(first_in.begin(), first_in.end() - 1);
        for (int e = 0; e < m; e++) {
            slot[e] = next_out[tail[e]] - first_out[tail[e]];
            out[next_out[tail[e]]++] = e;
            in[next_in[head[e]]++] = e;
        }
        for (int e = 0; e < m; e++) first[e + 1] = first[e] + first_out[head[e] + 1] - first_out[head[e]];
    }
    std::size_t wait(int a, int b) const { return first[a] + slot[b]; }
    std::size_t size() const { return first[m]; }

    int m;
    const std::int32_t *tail, *head;
    std::vector<int> first_out, first_in, out, in, slot;
    std::vector<std::size_t> first;
};

// Waits without a cycle, and a topological order of the links.
class Layer {
public:
    explicit Layer(const WaitTable& table)
        : t_(table), state_(table.size(), unknown), place_(table.m), mark_(table.m, 0) {
        std::iota(place_.begin(), place_.end(), 0);
    }

    std::uint8_t state(std::size_t wait) const { return state_[wait]; }
    void drop(std::size_t wait) { state_[wait] = unknown; }
    void refuse(std::size_t wait) { state_[wait] = refused; }

    // Hold the wait of a for b unless it closes a cycle.
    bool insert(int a, int b) {
        if (a == b || (place_[a] > place_[b] && !repair(a, b))) return false;
        state_[t_.wait(a, b)] = held;
        return true;
    }

    const std::vector<int>& places() const { return place_; }

private:
    bool repair(int a, int b) {
        const int low = place_[b], high = place_[a];
        stamp_++;
        ahead_.assign(1, b);
        mark_[b] = stamp_;
        for (std::size_t i = 0; i < ahead_.size(); i++) {
            const int link = ahead_[i], node = t_.head[link];
            for (int j = t_.first_out[node]; j < t_.first_out[node + 1]; j++) {
                const int after = t_.out[j];
                if (state_[t_.wait(link, after)] != held || mark_[after] == stamp_) continue;
                if (after == a) return false;
                if (place_[after] >= high) continue;
                mark_[after] = stamp_;
                ahead_.push_back(after);
            }
        }
        stamp_++;
        behind_.assign(1, a);
        mark_[a] = stamp_;
        for (std::size_t i = 0; i < behind_.size(); i++) {
            const int link = behind_[i], node = t_.tail[link];
            for (int j = t_.first_in[node]; j < t_.first_in[node + 1]; j++) {
                const int before = t_.in[j];
                if (state_[t_.wait(before, link)] != held || mark_[before] == stamp_ || place_[before] <= low) continue;
                mark_[before] = stamp_;
                behind_.push_back(before);
            }
        }
        const auto by_place = [this](int x, int y) { return place_[x] < place_[y]; };
        std::sort(ahead_.begin(), ahead_.end(), by_place);
        std::sort(behind_.begin(), behind_.end(), by_place);
        behind_.insert(behind_.end(), ahead_.begin(), ahead_.end());
        free_.clear();
        for (int link : behind_) free_.push_back(place_[link]);
        std::sort(free_.begin(), free_.end());
        for (std::size_t i = 0; i < behind_.size(); i++) place_[behind_[i]] = free_[i];
        return true;
    }

    const WaitTable& t_;
    std::vector<std::uint8_t> state_;
    std::vector<int> place_, mark_, ahead_, behind_, free_;
    int stamp_ = 0;
};

class Filler {
public:
    Filler(const WaitPaths& paths, FilledLayers& filled) : p_(paths), table_(paths), filled_(filled) {}

    Status run(const Control& control) {
        filled_.layer.assign(p_.may_rise ? p_.offset[p_.n_paths] : p_.n_paths, -1);
        for (std::int64_t i = 0; i < p_.n_paths; i++) {
            if (i % beat == 0) {
                control.progress(i, p_.n_paths);
                if (control.cancelled()) return Status::cancelled;
            }
            if (p_.may_rise)
                rise(p_.sequence[i]);
            else
                place(p_.sequence[i]);
        }
        for (const Layer& layer : layers_) {
            const std::size_t at = filled_.order.size();
            filled_.order.resize(at + table_.m);
            for (int e = 0; e < table_.m; e++) filled_.order[at + layer.places()[e]] = e;
        }
        return Status::ok;
    }

private:
    void place(std::int64_t path) {
        for (std::size_t k = 0; k < layers_.size(); k++)
            if (fits(layers_[k], path)) {
                filled_.layer[path] = static_cast<std::int32_t>(k);
                return;
            }
        if (!open()) return;
        if (fits(layers_.back(), path)) filled_.layer[path] = static_cast<std::int32_t>(layers_.size() - 1);
    }

    bool open() {
        if (p_.most_layers && static_cast<int>(layers_.size()) == p_.most_layers) return false;
        layers_.emplace_back(table_);
        return true;
    }

    // Whether all waits of the path are in the layer, now or from now on.
    bool fits(Layer& layer, std::int64_t path) {
        const std::int64_t begin = p_.offset[path], end = p_.offset[path + 1];
        for (std::int64_t j = begin + 1; j < end; j++)
            if (layer.state(table_.wait(p_.link[j - 1], p_.link[j])) == refused) return false;
        fresh_.clear();
        for (std::int64_t j = begin + 1; j < end; j++) {
            const int a = p_.link[j - 1], b = p_.link[j];
            const std::size_t wait = table_.wait(a, b);
            if (layer.state(wait) == held) continue;
            if (layer.insert(a, b)) {
                fresh_.push_back(wait);
                continue;
            }
            for (std::size_t back : fresh_) layer.drop(back);
            // what is held only grows: a wait that closes a cycle by itself always will
            if (fresh_.empty() || !layer.insert(a, b))
                layer.refuse(wait);
            else
                layer.drop(wait);
            return false;
        }
        return true;
    }

    // Hop by hop in the lowest layer that takes the wait; a higher layer takes any.
    void rise(std::int64_t path) {
        const std::int64_t begin = p_.offset[path], end = p_.offset[path + 1];
        std::size_t k = 0;
        way_.assign(1, 0);
        undo_.clear();
        if (layers_.empty()) open();
        for (std::int64_t j = begin + 1; j < end; j++) {
            const int a = p_.link[j - 1], b = p_.link[j];
            const std::size_t wait = table_.wait(a, b);
            Layer& layer = layers_[k];
            if (layer.state(wait) == unknown) {
                if (layer.insert(a, b)) {
                    undo_.emplace_back(k, wait);
                } else if (undo_.empty()) {
                    layer.refuse(wait);
                }
            }
            if (layer.state(wait) != held && ++k == layers_.size() && !open()) {
                for (const auto& [number, back] : undo_) layers_[number].drop(back);
                return;
            }
            way_.push_back(static_cast<std::int32_t>(k));
        }
        std::copy(way_.begin(), way_.end(), filled_.layer.begin() + begin);
    }

    const WaitPaths& p_;
    WaitTable table_;
    FilledLayers& filled_;
    std::vector<Layer> layers_;
    std::vector<std::size_t> fresh_;
    std::vector<std::pair<std::size_t, std::size_t>> undo_;
    std::vector<std::int32_t> way_;
};

}  // namespace

Status fill_layers(const WaitPaths& paths, const Control& control, FilledLayers& filled) {
    return Filler(paths, filled).run(control);
}

}  // namespace treadle
