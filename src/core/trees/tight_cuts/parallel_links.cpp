// Spreads what arcs send over parallel links.
//
// A matrix problem for each group of parallel links, at either end of the paths: rows are arcs, columns are links, row
// sums what an arc sends over the group and column sums what a link carries. The matrix sought is the one of
// independence, row sum times column sum over the total, in integers: each entry is rounded down, and what a row then
// lacks is taken from the columns with most units left (controlled rounding: the sums are kept exactly).
// Then every link of the group reaches every destination.
#include "trees/tight_cuts/parallel_links.hpp"

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

class Spreader {
  public:
    Spreader(const std::vector<int>& link_tail, const std::vector<int>& link_head, std::int64_t max_cells,
             const Paths& paths)
        : tail_(link_tail), head_(link_head), max_cells_(max_cells), paths_(paths) {}

    std::vector<Part> spread_all(std::vector<Part> parts, bool at_start) {
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
        for (const std::vector<Part>& group : groups) spread(group, parts);
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
    void spread(const std::vector<Part>& group, std::vector<Part>& out) const {
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
            fill_up(owed[row], links, left, shares[row]);
            fill(rows[row], links, shares[row], out);
        }
    }

    // What rounding down has left, from the links with most units left, half of those at a time.
    static void fill_up(std::int64_t owed, const std::vector<int>& links, std::vector<std::int64_t>& left,
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

}  // namespace

void spread_evenly(const std::vector<int>& link_tail, const std::vector<int>& link_head, std::int64_t max_cells,
                   Segments& segments, Paths& paths) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < segments.arc.size(); i++) {
        const int path = segments.path[i];
        parts.push_back({segments.arc[i], path, paths.link(path, 0), paths.link(path, paths.length(path) - 1),
                         segments.units[i]});
    }
    Spreader spreader(link_tail, link_head, max_cells, paths);
    for (bool at_start : {true, false}) parts = spreader.spread_all(std::move(parts), at_start);
    Paths made;
    spreader.pack(parts, segments, made);
    paths = std::move(made);
}

}  // namespace treadle
