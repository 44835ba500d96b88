// Forests of height two on unequal children (docs/proofs/decomposition.md, section 6): a matching of its own kind.
//
// A node is *direct* in a tree if its parent is the root. Every root sends to each node in as many trees as the capacity
// allows; in the others the node needs a parent that is direct there and has capacity to it left. For one node y that is
// a bipartite matching of trees to in-arcs, solved by augmenting paths. The nodes are treated one after the other, so
// the matchings are coupled by who is direct where: where augmenting fails, a node with spare capacity becomes direct
// in a tree of the search, in exchange for another tree of the same root. Incomplete: a failure says nothing.
#include "trees/tight_cuts/relayed_stars.hpp"

#include <algorithm>
#include <cstddef>

namespace treadle {
namespace {

constexpr int kUnhung = -2;

// Invariant: only direct nodes have children, so only nodes without children may stop being direct.
class Builder {
public:
    Builder(int n, const std::vector<std::int64_t>& root, const std::vector<std::int64_t>& capacity,
            std::int64_t max_work)
        : n_(n), capacity_(capacity), max_work_(max_work), first_(n + 1, 0), room_(n), hung_(n), seen_(n, -1),
          via_(n, -1) {
        for (int v = 0; v < n; ++v) first_[v + 1] = first_[v] + root[v];
        root_.resize(first_[n]);
        for (int v = 0; v < n; ++v) std::fill(root_.begin() + first_[v], root_.begin() + first_[v + 1], v);
        parent_.assign(root_.size() * n, kUnhung);
        kids_.assign(root_.size() * n, 0);
        queued_.assign(root_.size(), -1);
    }

    Status run(const Control& control, TreePacking& result, RelayedStarsCounts& counts) {
        send_directly();
        for (int y = 0; y < n_; ++y) {
            if (control.cancelled()) return Status::cancelled;
            control.progress(y, n_);
            if (!hang_all(y)) return finish(Status::stuck, result, counts);
        }
        return finish(Status::ok, result, counts);
    }

private:
    int& parent(std::int64_t tree, int v) { return parent_[tree * n_ + v]; }
    int& kids(std::int64_t tree, int v) { return kids_[tree * n_ + v]; }
    std::int64_t capacity(int u, int v) const { return capacity_[static_cast<std::size_t>(u) * n_ + v]; }
    bool is_direct(std::int64_t tree, int v) { return parent(tree, v) == root_[tree]; }

    // Every root sends to a node in as many trees as it can; the others are spread over its trees in turn.
    void send_directly() {
        for (int x = 0; x < n_; ++x) {
            const std::int64_t trees = first_[x + 1] - first_[x];
            std::int64_t turn = 0;
            for (std::int64_t t = first_[x]; t < first_[x + 1]; ++t) parent(t, x) = -1;
            for (int y = 0; y < n_ && trees; ++y) {
                if (y == x) continue;
                const std::int64_t given = trees - std::min(trees, capacity(x, y));
                for (std::int64_t i = given; i < trees; ++i) parent(first_[x] + (turn + i) % trees, y) = x;
                turn = (turn + given) % trees;
            }
        }
    }

    // Give all trees a parent of y, which may be any node that is direct and has capacity to y left.
    bool hang_all(int y) {
        for (int u = 0; u < n_; ++u) hung_[u].clear();
        unhung_.clear();
        for (std::int64_t t = 0; t < std::int64_t(root_.size()); ++t) {
            const int above = parent(t, y);
            if (above >= 0) hung_[above].push_back(t);
            else if (above == kUnhung) unhung_.push_back(t);
        }
        for (int u = 0; u < n_; ++u) room_[u] = u == y ? 0 : capacity(u, y) - std::int64_t(hung_[u].size());
        helpers_.clear();
        for (int u = 0; u < n_; ++u)
            if (room_[u] > 0) helpers_.push_back(u);
        std::size_t place = 0;
        for (const std::int64_t tree : unhung_)
            if (!hang_quickly(tree, y, place)) late_.push_back(tree);
        bool good = true;
        for (const std::int64_t tree : late_) good = good && (augment(tree, y) || exchange(y));
        if (!good) left_ += 1;
        late_.clear();
        return good;
    }

    bool hang_quickly(std::int64_t tree, int y, std::size_t& place) {
        for (std::size_t tried = 0; tried < helpers_.size(); ++tried) {
            ++work_;
            if (place >= helpers_.size()) place = 0;
            const int u = helpers_[place];
            if (!room_[u]) {
                helpers_[place] = helpers_.back();
                helpers_.pop_back();
                --tried;
                continue;
            }
            ++place;
            if (u == root_[tree] || is_direct(tree, u)) {
                move(tree, y, u);
                return true;
            }
        }
        return false;
    }

    bool may_hang(std::int64_t tree, int y, int u) {
        return u == root_[tree] || (is_direct(tree, u) && !kids(tree, y));
    }

    void move(std::int64_t tree, int y, int u) {
        const int old = parent(tree, y);
        if (old >= 0) {
            auto& trees = hung_[old];
            *std::find(trees.begin(), trees.end(), tree) = trees.back();
            trees.pop_back();
            ++room_[old];
            if (old != root_[tree]) --kids(tree, old);
        }
        parent(tree, y) = u;
        hung_[u].push_back(tree);
        --room_[u];
        if (u != root_[tree]) ++kids(tree, u);
    }

    // Move `tree` to u, the tree through which its old parent was found to that one, and so on.
    void shift(std::int64_t tree, int y, int u) {
        while (true) {
            const int old = parent(tree, y);
            move(tree, y, u);
            if (old < 0) return;
            u = old;
            tree = via_[old];
        }
    }

    bool augment(std::int64_t start, int y) {
        ++search_;
        queue_.assign(1, start);
        queued_[start] = search_;
        for (std::size_t next = 0; next < queue_.size(); ++next) {
            const std::int64_t tree = queue_[next];
            work_ += n_;
            if (work_ > max_work_) return false;
            for (int u = 0; u < n_; ++u) {
                if (seen_[u] == search_ || u == y || !capacity(u, y) || !may_hang(tree, y, u)) continue;
                seen_[u] = search_;
                via_[u] = tree;
                if (room_[u] > 0) {
                    shift(tree, y, u);
                    return true;
                }
                for (const std::int64_t other : hung_[u]) {
                    if (queued_[other] == search_) continue;
                    queued_[other] = search_;
                    queue_.push_back(other);
                }
            }
        }
        return false;
    }

    // After a search that failed: make a node with capacity to y left direct in one of its trees, and not in
    // another tree of the same root.
    bool exchange(int y) {
        for (int u = 0; u < n_; ++u) {
            if (room_[u] <= 0) continue;
            for (const std::int64_t tree : queue_) {
                const int x = root_[tree];
                if (x == u || kids(tree, y) || work_ > max_work_) continue;
                const int above = parent(tree, u);
                for (std::int64_t other = first_[x]; other < first_[x + 1]; ++other) {
                    ++work_;
                    if (!is_direct(other, u) || kids(other, u)) continue;
                    if (above >= 0 && !is_direct(other, above)) continue;
                    parent(other, u) = above;
                    parent(tree, u) = x;
                    if (above >= 0) {
                        --kids(tree, above);
                        ++kids(other, above);
                    }
                    ++exchanges_;
                    shift(tree, y, u);
                    return true;
                }
            }
        }
        return false;
    }

    Status finish(Status status, TreePacking& result, RelayedStarsCounts& counts) {
        counts = {left_, exchanges_, work_};
        if (status != Status::ok) return status;
        for (std::int64_t t = 0; t < std::int64_t(root_.size()); ++t) {  // equal neighbours are one tree
            const auto row = parent_.begin() + t * n_;
            if (t && root_[t] == root_[t - 1] && std::equal(row, row + n_, row - n_)) {
                ++result.multiplicity.back();
                continue;
            }
            result.root.push_back(root_[t]);
            result.multiplicity.push_back(1);
            result.parent.insert(result.parent.end(), row, row + n_);
        }
        return status;
    }

    const int n_;
    const std::vector<std::int64_t>& capacity_;
    const std::int64_t max_work_;
    std::vector<std::int64_t> first_;  // trees of each root
    std::vector<std::int64_t> room_;   // of each node's arc into the node in turn
    std::vector<std::vector<std::int64_t>> hung_;
    std::vector<std::int64_t> seen_, via_;
    std::vector<int> root_, parent_, kids_, helpers_;
    std::vector<std::int64_t> unhung_, late_, queue_, queued_;
    std::int64_t search_ = 0, left_ = 0, exchanges_ = 0, work_ = 0;
};

}  // namespace

Status relay_stars(int n, const std::vector<std::int64_t>& root, const std::vector<std::int64_t>& capacity,
                   std::int64_t max_work, const Control& control, TreePacking& result, RelayedStarsCounts& counts) {
    return Builder(n, root, capacity, max_work).run(control, result, counts);
}

}  // namespace treadle
