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
        // Mostly a few short paths do; looking for them costs at most as much as a few searches through everything.
        std::size_t budget = from == to ? 0 : 4 * to_.size();
        if (from != to) total += sweep(from, to, limit, skip, skip_back);
        while (total < limit) {
            const Cap sent = bridge(from, to, limit - total, skip, skip_back, budget);
            if (sent == 0) break;
            total += sent;
        }
        while (total < limit && search(from, to, skip, skip_back)) {
            Cap sent = augment(from, to, limit - total, skip, skip_back);
            // A phase whose search found the sink always augments: levels and residuals agree.
            if (sent == 0) break;
            total += sent;
        }
        return total;
    }

    void close_arcs_into(int node) {
        for (int a = start_[node]; a < start_[node + 1]; a++) residual_[reverse_[a]] = 0;
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
        for (Side& side : side_) side.stamp.assign(n_, 0), side.via.resize(n_);
    }

    // All paths of one or two arcs.
    Cap sweep(int from, int to, Cap limit, int skip, int skip_back) {
        Cap total = 0;
        for (int a = start_[from]; a < start_[from + 1] && total < limit; a++) {
            if (residual_[a] <= 0 || a == skip || a == skip_back) continue;
            const int between = to_[a], b = between == to ? -1 : find(between, to);
            if (between != to && (b < 0 || residual_[b] <= 0 || b == skip || b == skip_back)) continue;
            Cap amount = std::min(limit - total, residual_[a]);
            if (b >= 0) amount = std::min(amount, residual_[b]);
            for (int arc : {a, b}) {
                if (arc < 0) continue;
                residual_[arc] -= amount;
                residual_[reverse_[arc]] += amount;
            }
            total += amount;
        }
        return total;
    }

    // One path, sought from both ends; returns what it carries, 0 if there is none or the budget of arcs is used up.
    Cap bridge(int from, int to, Cap limit, int skip, int skip_back, std::size_t& budget) {
        if (budget == 0) return 0;
        ++bridge_clock_;
        for (int end : {0, 1}) {
            Side& side = side_[end];
            const int node = end == 0 ? from : to;
            side.queue.assign(1, node);
            side.next = 0;
            side.stamp[node] = bridge_clock_;
            side.via[node] = -1;
        }
        for (;;) {
            const std::size_t waiting[] = {side_[0].queue.size() - side_[0].next, side_[1].queue.size() - side_[1].next};
            if (waiting[0] == 0 || waiting[1] == 0) return 0;
            const int end = waiting[0] <= waiting[1] ? 0 : 1;
            Side &mine = side_[end], &other = side_[1 - end];
            const int u = mine.queue[mine.next++];
            for (int a = start_[u]; a < start_[u + 1]; a++) {
                if (budget-- == 1) return budget = 0;
                const int v = to_[a], arc = end == 0 ? a : reverse_[a];  // in the direction of the flow
                if (residual_[arc] <= 0 || arc == skip || arc == skip_back) continue;
                if (other.stamp[v] == bridge_clock_) return send(arc, limit);
                if (mine.stamp[v] == bridge_clock_) continue;
                mine.stamp[v] = bridge_clock_;
                mine.via[v] = arc;
                mine.queue.push_back(v);
            }
        }
    }

    // Along the path that `arc` closes.
    Cap send(int arc, Cap limit) {
        path_.assign(1, arc);
        for (int a = side_[0].via[to_[reverse_[arc]]]; a >= 0; a = side_[0].via[to_[reverse_[a]]]) path_.push_back(a);
        for (int a = side_[1].via[to_[arc]]; a >= 0; a = side_[1].via[to_[a]]) path_.push_back(a);
        Cap amount = limit;
        for (int a : path_) amount = std::min(amount, residual_[a]);
        for (int a : path_) {
            residual_[a] -= amount;
            residual_[reverse_[a]] += amount;
        }
        return amount;
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

    // Of a search from both ends: which nodes the source reaches, and which reach the sink.
    struct Side {
        std::vector<std::int64_t> stamp;
        std::vector<int> via, queue;  // `via`: the arc on the way from, or to, that end
        std::size_t next = 0;
    };
    Side side_[2];
    std::int64_t bridge_clock_ = 0;
};

}  // namespace treadle
