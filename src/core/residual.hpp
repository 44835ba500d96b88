// A residual flow network whose sink moves: the engine of the optimality search, switch removal and packing.
//
// A saturated flow from the source s to a sink v is kept; to test the next sink v', the R units that arrive at v
// are pushed on to v' in the residual network, which is usually two or three short breadth-first searches.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace treadle {

template <class Cap>
struct CapacityArc {
    int tail, head;
    Cap capacity;
};

template <class Cap>
class ResidualNetwork {
   public:
    // Parallel arcs are merged and each arc shares a pair with its antiparallel one; self-loops are dropped.
    ResidualNetwork(int n_nodes, std::vector<CapacityArc<Cap>> arcs) : n_(n_nodes) {
        std::vector<CapacityArc<Cap>> pairs;
        pairs.reserve(arcs.size() * 2);
        for (const auto& arc : arcs) {
            if (arc.tail == arc.head) continue;
            pairs.push_back(arc);
            pairs.push_back({arc.head, arc.tail, 0});
        }
        build(pairs);
    }

    int size() const { return n_; }

    // Number of the arc tail->head, or -1.
    int find(int tail, int head) const {
        auto begin = to_.begin() + start_[tail], end = to_.begin() + start_[tail + 1];
        auto it = std::lower_bound(begin, end, head);
        return it != end && *it == head ? static_cast<int>(it - to_.begin()) : -1;
    }
    int first(int node) const { return start_[node]; }
    int last(int node) const { return start_[node + 1]; }
    int head(int arc) const { return to_[arc]; }
    Cap residual(int arc) const { return residual_[arc]; }
    void add_capacity(int arc, Cap amount) { residual_[arc] += amount; }

    // Push at most `limit` units from `from` to `to`; returns how many went. `skip` is an arc not to be used in
    // either direction. After an incomplete push `reached` marks the source side of a minimum cut.
    Cap push(int from, int to, Cap limit, int skip = -1) {
        Cap total = 0;
        int skip_back = skip < 0 ? -1 : reverse_[skip];
        while (total < limit && search(from, to, skip, skip_back)) {
            Cap sent = augment(from, to, limit - total, skip, skip_back);
            // A phase whose search found the sink always augments: levels and residuals agree.
            if (sent == 0) break;
            total += sent;
        }
        return total;
    }

    bool reached(int node) const { return stamp_[node] == clock_; }

    // Free capacity on `arc` up to `wanted` by rerouting the flow that uses it; returns the residual, at most wanted.
    Cap make_room(int arc, int tail, Cap wanted) {
        if (residual_[arc] >= wanted) return wanted;
        Cap moved = push(tail, to_[arc], wanted - residual_[arc], arc);
        // The rerouted units leave the arc: its flow falls by what the detour carries.
        residual_[arc] += moved;
        residual_[reverse_[arc]] -= moved;
        return std::min(wanted, residual_[arc]);
    }

   private:
    int n_;
    std::vector<int> start_, to_, reverse_;
    std::vector<Cap> residual_;
    std::vector<int> level_, stamp_, cursor_, queue_;
    int clock_ = 0;

    void build(std::vector<CapacityArc<Cap>>& pairs) {
        // Counting sort by tail, then by head within a tail, and merge equal pairs.
        std::vector<int> count(n_ + 1, 0);
        for (const auto& p : pairs) count[p.tail + 1]++;
        for (int v = 0; v < n_; v++) count[v + 1] += count[v];
        std::vector<CapacityArc<Cap>> sorted(pairs.size());
        auto place = count;
        for (const auto& p : pairs) sorted[place[p.tail]++] = p;
        start_.assign(n_ + 1, 0);
        for (int v = 0; v < n_; v++) {
            auto begin = sorted.begin() + count[v], end = sorted.begin() + count[v + 1];
            std::sort(begin, end, [](const auto& a, const auto& b) { return a.head < b.head; });
            for (auto it = begin; it != end;) {
                int head = it->head;
                Cap capacity = 0;
                for (; it != end && it->head == head; ++it) capacity += it->capacity;
                to_.push_back(head);
                residual_.push_back(capacity);
            }
            start_[v + 1] = static_cast<int>(to_.size());
        }
        reverse_.resize(to_.size());
        std::vector<int> next(start_.begin(), start_.end() - 1);
        // Tails rise, so the arcs into each node are met in the order in which that node lists its own arcs.
        for (int v = 0; v < n_; v++)
            for (int a = start_[v]; a < start_[v + 1]; a++) reverse_[a] = next[to_[a]]++;
        level_.assign(n_, 0);
        stamp_.assign(n_, -1);
        cursor_.assign(n_, 0);
        queue_.resize(n_);
    }

    bool search(int from, int to, int skip, int skip_back) {
        ++clock_;
        int tail = 0, end = 0;
        queue_[end++] = from;
        stamp_[from] = clock_;
        level_[from] = 0;
        cursor_[from] = start_[from];
        while (tail < end) {
            int u = queue_[tail++];
            for (int a = start_[u]; a < start_[u + 1]; a++) {
                int v = to_[a];
                if (stamp_[v] == clock_ || residual_[a] <= 0 || a == skip || a == skip_back) continue;
                stamp_[v] = clock_;
                level_[v] = level_[u] + 1;
                cursor_[v] = start_[v];
                if (v == to) return true;
                queue_[end++] = v;
            }
        }
        return false;
    }

    // Blocking flow along the levels, with an explicit stack: paths can be as long as the fabric.
    Cap augment(int from, int to, Cap limit, int skip, int skip_back) {
        Cap total = 0;
        path_.clear();
        int u = from;
        while (total < limit) {
            if (u == to) {
                Cap amount = limit - total;
                for (int a : path_) amount = std::min(amount, residual_[a]);
                std::size_t keep = path_.size();
                for (std::size_t i = path_.size(); i-- > 0;) {
                    int a = path_[i];
                    residual_[a] -= amount;
                    residual_[reverse_[a]] += amount;
                    if (residual_[a] == 0) keep = i;
                }
                total += amount;
                if (keep == path_.size()) return total;  // the limit was the bottleneck
                u = to_[reverse_[path_[keep]]];
                path_.resize(keep);
                continue;
            }
            bool advanced = false;
            for (int& a = cursor_[u]; a < start_[u + 1]; a++) {
                int v = to_[a];
                if (residual_[a] > 0 && stamp_[v] == clock_ && level_[v] == level_[u] + 1 && a != skip &&
                    a != skip_back) {
                    path_.push_back(a);
                    u = v;
                    advanced = true;
                    break;
                }
            }
            if (advanced) continue;
            if (path_.empty()) return total;
            int a = path_.back();
            path_.pop_back();
            u = to_[reverse_[a]];
            cursor_[u]++;
        }
        return total;
    }
    std::vector<int> path_;
};

// Condition C: for every node set S that leaves out a compute node, d+(S) >= r(S).
//
// Returns the index into `compute` of the first sink (from `first` on) that fails, or -1. The source s is node
// `n_nodes`. On failure `cut` holds the nodes of a violated S.
template <class Cap>
int find_violated(int n_nodes, std::vector<CapacityArc<Cap>> arcs, const std::vector<int>& compute,
                  const std::vector<Cap>& root, int first, std::vector<char>& cut) {
    const int s = n_nodes;
    Cap total = 0;
    for (std::size_t i = 0; i < compute.size(); i++) {
        if (root[i] > 0) arcs.push_back({s, compute[i], root[i]});
        total += root[i];
    }
    ResidualNetwork<Cap> network(n_nodes + 1, std::move(arcs));
    int at = s;
    for (std::size_t i = first; i < compute.size(); i++) {
        if (network.push(at, compute[i], total) < total) {
            cut.assign(n_nodes, 0);
            for (int v = 0; v < n_nodes; v++) cut[v] = network.reached(v);
            return static_cast<int>(i);
        }
        at = compute[i];
    }
    return -1;
}

}  // namespace treadle
