// LASH (Skeie, Lysne and Theiss, 2002): every path goes into the first layer in which its waits close no cycle.
#include "routes/layer_orders.hpp"

#include <algorithm>

#include "routes/wait_layer.hpp"

namespace treadle {
namespace {

constexpr std::int64_t beat = 1 << 12;  // paths between two looks at the clock

class Filler {
public:
    Filler(const WaitPaths& paths, FilledLayers& filled) : p_(paths), table_(paths), filled_(filled) {}

    Status run(const Control& control) {
        filled_.layer.assign(p_.may_rise ? p_.offset[p_.n_paths] : p_.n_paths, -1);
        const Status status = p_.may_rise ? rise_all(control) : fill_all(control);
        if (status != Status::ok) return status;
        for (const WaitLayer& layer : layers_) layer.append_order(filled_.order);
        return Status::ok;
    }

private:
    // Layer by layer, each with the paths that fit none before: as path by path, with one layer's tables in the cache.
    Status fill_all(const Control& control) {
        std::vector<std::int64_t> left(p_.sequence, p_.sequence + p_.n_paths);
        std::int64_t looked_at = 0, placed = 0;
        while (!left.empty() && open()) {
            std::size_t kept = 0;
            for (std::int64_t path : left) {
                if (looked_at++ % beat == 0) {
                    control.progress(placed, p_.n_paths);
                    if (control.cancelled()) return Status::cancelled;
                }
                if (fits(layers_.back(), path)) {
                    filled_.layer[path] = static_cast<std::int32_t>(layers_.size() - 1);
                    placed++;
                } else {
                    left[kept++] = path;
                }
            }
            if (kept == left.size()) {  // no layer takes any
                layers_.pop_back();
                break;
            }
            left.resize(kept);
        }
        return Status::ok;
    }

    Status rise_all(const Control& control) {
        for (std::int64_t i = 0; i < p_.n_paths; i++) {
            if (i % beat == 0) {
                control.progress(i, p_.n_paths);
                if (control.cancelled()) return Status::cancelled;
            }
            rise(p_.sequence[i]);
        }
        return Status::ok;
    }

    bool open() {
        if (p_.most_layers && static_cast<int>(layers_.size()) == p_.most_layers) return false;
        layers_.emplace_back(table_);
        return true;
    }

    bool fits(WaitLayer& layer, std::int64_t path) {
        return layer.take(p_.link + p_.offset[path], p_.offset[path + 1] - p_.offset[path]);
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
            WaitLayer& layer = layers_[k];
            if (layer.state(wait) == WaitLayer::unknown) {
                if (layer.insert(a, b)) {
                    undo_.emplace_back(k, wait);
                } else if (undo_.empty()) {
                    layer.refuse(wait);
                }
            }
            if (layer.state(wait) != WaitLayer::held && ++k == layers_.size() && !open()) {
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
    std::vector<WaitLayer> layers_;
    std::vector<std::pair<std::size_t, std::size_t>> undo_;
    std::vector<std::int32_t> way_;
};

}  // namespace

Status fill_layers(const WaitPaths& paths, const Control& control, FilledLayers& filled) {
    return Filler(paths, filled).run(control);
}

}  // namespace treadle
