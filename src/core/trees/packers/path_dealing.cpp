#include "trees/packers/path_dealing.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace treadle {

namespace {

// A segment whose path is `path` with other links at its ends.
struct Part {
    int arc, path, first, last;
    std::int64_t units;
};

class Evener {
  public:
    Evener(const std::vector<int>& link_tail, const std::vector<int>& link_head, std::int64_t max_cells,
           const Paths& paths)
        : tail_(link_tail), head_(link_head), max_cells_(max_cells), paths_(paths) {}

    std::vector<Part> deal_all(std::vector<Part> parts, bool at_start) {
        at_start_ = at_start;
        std::vector<std::vector<Part>> groups;
        std::unordered_map<std::int64_t, std::size_t> number;
        for (const Part& part : parts) {
            const int link = end_link(part);
            const std::int64_t ends = static_cast<std::int64_t>(tail_[link]) << 32 | head_[link];
            auto [place, fresh] = number.emplace(ends, groups.size());
            if (fresh) groups.emplace_back();
            groups[place->second].push_back(part);
        }
        parts.clear();
        for (const std::vector<Part>& group : groups) deal(group, parts);
        return parts;
    }

    // Segments by arc and path, equal ones added up, and the paths that are left by first use.
    void pack(const std::vector<Part>& parts, Segments& segments, Paths& made) const {
        std::vector<std::size_t> order(parts.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return parts[a].arc != parts[b].arc ? parts[a].arc < parts[b].arc : compare(parts[a], parts[b]) < 0;
        });
        segments = {};
        std::vector<std::size_t> example;
        for (std::size_t place : order) {
            const Part& part = parts[place];
            if (!example.empty() && parts[example.back()].arc == part.arc && !compare(parts[example.back()], part)) {
                segments.units.back() += part.units;
                continue;
            }
            example.push_back(place);
            segments.arc.push_back(part.arc);
            segments.units.push_back(part.units);
        }
        number_paths(parts, example, segments, made);
    }

  private:
    const std::vector<int>&tail_, &head_;
    std::int64_t max_cells_;
    const Paths& paths_;
    bool at_start_ = true;

    int end_link(const Part& part) const { return at_start_ ? part.first : part.last; }

    int link(const Part& part, int place) const {
        if (place == 0) return part.first;
        return place + 1 == paths_.length(part.path) ? part.last : paths_.link(part.path, place);
    }

    int compare(const Part& one, const Part& other) const {
        const int lengths[] = {paths_.length(one.path), paths_.length(other.path)};
        for (int place = 0; place < std::min(lengths[0], lengths[1]); place++) {
            const int difference = link(one, place) - link(other, place);
            if (difference) return difference;
        }
        return lengths[0] - lengths[1];
    }

    void number_paths(const std::vector<Part>& parts, const std::vector<std::size_t>& example, Segments& segments,
                      Paths& made) const {
        std::vector<std::size_t> by_path(example.size());
        std::iota(by_path.begin(), by_path.end(), std::size_t{0});
        std::sort(by_path.begin(), by_path.end(), [&](std::size_t a, std::size_t b) {
            const int difference = compare(parts[example[a]], parts[example[b]]);
            return difference ? difference < 0 : a < b;
        });
        std::vector<std::size_t> first(example.size());  // segment of the same path that comes first
        for (std::size_t i = 0; i < by_path.size(); i++) {
            const bool same = i && !compare(parts[example[by_path[i - 1]]], parts[example[by_path[i]]]);
            first[by_path[i]] = same ? first[by_path[i - 1]] : by_path[i];
        }
        made = {{0}, {}};
        segments.path.assign(example.size(), 0);
        for (std::size_t i = 0; i < example.size(); i++) {
            if (first[i] != i) {
                segments.path[i] = segments.path[first[i]];
                continue;
            }
            segments.path[i] = static_cast<int>(made.offset.size()) - 1;
            const Part& part = parts[example[i]];
            for (int place = 0; place < paths_.length(part.path); place++) made.links.push_back(link(part, place));
            made.offset.push_back(static_cast<std::int64_t>(made.links.size()));
        }
    }

    // Exchange the end links of segments that agree in both ends of that link; links and arcs as they come up.
    void deal(const std::vector<Part>& group, std::vector<Part>& out) const {
        std::vector<int> links;
        std::vector<std::int64_t> left;  // units of each link that no arc has yet
        std::vector<std::vector<Part>> rows;
        std::unordered_map<int, std::size_t> column_of, row_of;
        for (const Part& part : group) {
            auto [column, fresh_link] = column_of.emplace(end_link(part), links.size());
            if (fresh_link) {
                links.push_back(end_link(part));
                left.push_back(0);
            }
            left[column->second] += part.units;
            auto [row, fresh_arc] = row_of.emplace(part.arc, rows.size());
            if (fresh_arc) rows.emplace_back();
            rows[row->second].push_back(part);
        }
        if (links.size() == 1 || static_cast<std::int64_t>(links.size() * rows.size()) > max_cells_) {
            out.insert(out.end(), group.begin(), group.end());
            return;
        }
        const std::vector<std::int64_t> capacity = left;
        const std::int64_t total = std::accumulate(capacity.begin(), capacity.end(), std::int64_t{0});
        std::vector<std::vector<std::int64_t>> shares(rows.size(), std::vector<std::int64_t>(links.size()));
        std::vector<std::int64_t> owed(rows.size());
        for (std::size_t row = 0; row < rows.size(); row++) {
            for (const Part& part : rows[row]) owed[row] += part.units;
            const __int128 units = owed[row];
            for (std::size_t column = 0; column < links.size(); column++) {
                shares[row][column] = static_cast<std::int64_t>(units * capacity[column] / total);
                left[column] -= shares[row][column];
                owed[row] -= shares[row][column];
            }
        }
        for (std::size_t row = 0; row < rows.size(); row++) {
            hand_out(owed[row], links, left, shares[row]);
            fill(rows[row], links, shares[row], out);
        }
    }

    // What rounding down has left, from the links with most units left, half of those at a time.
    static void hand_out(std::int64_t owed, const std::vector<int>& links, std::vector<std::int64_t>& left,
                         std::vector<std::int64_t>& shares) {
        while (owed) {
            std::size_t best = 0;
            for (std::size_t i = 1; i < links.size(); i++)
                if (left[i] > left[best] || (left[i] == left[best] && links[i] < links[best])) best = i;
            const std::int64_t share = std::min({owed, left[best], std::max<std::int64_t>(1, left[best] / 2)});
            shares[best] += share;
            left[best] -= share;
            owed -= share;
        }
    }

    // An arc's segments with the links in turn, as many units of each as its share.
    void fill(const std::vector<Part>& row, const std::vector<int>& links, std::vector<std::int64_t>& shares,
              std::vector<Part>& out) const {
        std::size_t column = 0;
        for (Part part : row) {
            std::int64_t units = part.units;
            while (units) {
                while (!shares[column]) column++;
                part.units = std::min(units, shares[column]);
                if (at_start_ || paths_.length(part.path) == 1) part.first = links[column];
                if (!at_start_ || paths_.length(part.path) == 1) part.last = links[column];
                out.push_back(part);
                units -= part.units;
                shares[column] -= part.units;
            }
        }
    }
};

struct Choice {
    int path;
    std::int64_t units;
};

// Paths that are left between two children, by the member that they start at; the next one last.
using Pool = std::vector<std::pair<int, std::vector<Choice>>>;

// Unit trees of one tree that take the same paths so far.
struct Run {
    std::int64_t units;
    std::vector<int> path, label;
};

class DoorDealer {
  public:
    explicit DoorDealer(const DoorTrees& trees) : trees_(trees), n_(trees.n_children) { fill_pools(); }

    Status deal(DoorRows& rows) {
        std::vector<std::int64_t> taken(n_);
        for (std::size_t tree = 0; tree < trees_.root.size(); tree++) {
            const int root = trees_.root[tree];
            std::vector<Run> runs = root_runs(root, taken[root], trees_.units[tree]);
            taken[root] += trees_.units[tree];
            const int* parent = &trees_.parent[tree * n_];
            for (int child : walk(parent, root)) {
                auto pool = pools_.find(pair(parent[child], child));
                if (pool == pools_.end()) return Status::stuck;
                std::vector<Run> parts;
                for (Run& run : runs)
                    if (!deal_run(std::move(run), parent[child], child, pool->second, parts)) return Status::stuck;
                runs = std::move(parts);
            }
            for (const Run& run : runs) {
                rows.root.push_back(root);
                rows.units.push_back(run.units);
                rows.parent.insert(rows.parent.end(), parent, parent + n_);
                rows.path.insert(rows.path.end(), run.path.begin(), run.path.end());
            }
        }
        return Status::ok;
    }

  private:
    const DoorTrees& trees_;
    int n_;
    std::unordered_map<std::int64_t, Pool> pools_;

    std::int64_t pair(int parent, int child) const { return static_cast<std::int64_t>(parent) * n_ + child; }

    void fill_pools() {
        struct Entry {
            std::int64_t pair;
            int path;
            std::int64_t units;
        };
        std::vector<Entry> entries;
        for (std::size_t edge = 0; edge + 1 < trees_.entry_offset.size(); edge++)
            for (auto e = trees_.entry_offset[edge]; e < trees_.entry_offset[edge + 1]; e++)
                entries.push_back({pair(trees_.parent[edge], static_cast<int>(edge % n_)), trees_.entry_path[e],
                                   trees_.entry_units[e]});
        std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
            return a.pair != b.pair ? a.pair < b.pair : a.path < b.path;
        });
        std::size_t kept = 0;  // entries of equal pairs and paths become one
        for (const Entry& entry : entries) {
            if (kept && entries[kept - 1].pair == entry.pair && entries[kept - 1].path == entry.path)
                entries[kept - 1].units += entry.units;
            else
                entries[kept++] = entry;
        }
        entries.resize(kept);
        std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
            if (a.pair != b.pair) return a.pair < b.pair;
            return a.units != b.units ? a.units < b.units : a.path > b.path;
        });
        for (const Entry& entry : entries) {
            Pool& pool = pools_[entry.pair];
            auto place = find(pool, trees_.start[entry.path]);
            if (place == pool.end()) place = pool.insert(pool.end(), {trees_.start[entry.path], {}});
            place->second.push_back({entry.path, entry.units});
        }
    }

    static Pool::iterator find(Pool& pool, int start) {
        return std::find_if(pool.begin(), pool.end(), [&](const auto& some) { return some.first == start; });
    }

    // Unit trees start, ..., start + units - 1 of a root, cut where the member that has them changes.
    std::vector<Run> root_runs(int root, std::int64_t start, std::int64_t units) const {
        std::vector<Run> runs;
        const Run blank{0, std::vector<int>(n_, -1), std::vector<int>(n_, -1)};
        std::int64_t before = 0, missing = units;
        for (auto i = trees_.label_offset[root]; i < trees_.label_offset[root + 1]; i++) {
            const std::int64_t low = std::max(start, before);
            before += trees_.label_units[i];
            const std::int64_t count = std::min(start + units, before) - low;
            if (count <= 0) continue;
            runs.push_back(blank);
            runs.back().units = count;
            runs.back().label[root] = trees_.label_member[i];
            missing -= count;
        }
        if (missing > 0) {  // a rank's native trees have no labels
            runs.push_back(blank);
            runs.back().units = missing;
        }
        return runs;
    }

    // Children from the root down, the root left out.
    std::vector<int> walk(const int* parent, int root) const {
        std::vector<std::vector<int>> below(n_);
        for (int child = 0; child < n_; child++)
            if (parent[child] >= 0) below[parent[child]].push_back(child);
        std::vector<int> order{root};
        for (std::size_t i = 0; i < order.size(); i++)
            order.insert(order.end(), below[order[i]].begin(), below[order[i]].end());
        order.erase(order.begin());
        return order;
    }

    // Cuts a run into parts with a path from parent to child each; takes their units from the pool.
    bool deal_run(Run run, int parent, int child, Pool& pool, std::vector<Run>& parts) const {
        const int wanted = run.label[parent];
        for (;;) {
            auto from = find(pool, wanted);
            if (from == pool.end()) {
                from = std::max_element(pool.begin(), pool.end(), [](const auto& a, const auto& b) {
                    return a.second.size() != b.second.size() ? a.second.size() < b.second.size() : a.first > b.first;
                });
                if (from == pool.end()) return false;
            }
            Choice& choice = from->second.back();
            const std::int64_t units = std::min(run.units, choice.units);
            const bool whole = units == run.units;
            run.units -= units;
            choice.units -= units;
            if (whole)
                parts.push_back(std::move(run));
            else
                parts.push_back(run);
            Run& part = parts.back();
            part.units = units;
            part.path[child] = choice.path;
            part.label[child] = trees_.end[choice.path];
            if (!choice.units) from->second.pop_back();
            if (from->second.empty()) pool.erase(from);
            if (whole) return true;
        }
    }
};

}  // namespace

void deal_evenly(const std::vector<int>& link_tail, const std::vector<int>& link_head, std::int64_t max_cells,
                 Segments& segments, Paths& paths) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < segments.arc.size(); i++) {
        const int path = segments.path[i];
        parts.push_back({segments.arc[i], path, paths.link(path, 0), paths.link(path, paths.length(path) - 1),
                         segments.units[i]});
    }
    Evener evener(link_tail, link_head, max_cells, paths);
    for (bool at_start : {true, false}) parts = evener.deal_all(std::move(parts), at_start);
    Paths made;
    evener.pack(parts, segments, made);
    paths = std::move(made);
}

Status deal_by_door(const DoorTrees& trees, DoorRows& rows) { return DoorDealer(trees).deal(rows); }

}  // namespace treadle
