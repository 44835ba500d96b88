// Assigns the paths between sets to unit trees.
//
// Trees are walked from their roots. A unit tree that has come into a set by some member goes on along a path that
// starts at that member, if the pair of sets has one left: the data need not cross the set first. Else it
// takes a path of the member with most paths left, so that few members run out. Unit trees that agree so far are one
// run, which is cut where a path has fewer units left; greedy, with no claim to a least number of rows.
#include "trees/tight_cuts/border_paths.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace treadle {
namespace {

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

class BorderAssignment {
  public:
    explicit BorderAssignment(const BorderTrees& given) : given_(given), n_(given.n_children) { fill_pools(); }

    Status assign(TreePacking& rows, std::vector<int>& path) {
        std::vector<std::int64_t> taken(n_);
        for (std::size_t tree = 0; tree < given_.trees.root.size(); tree++) {
            const int root = given_.trees.root[tree];
            std::vector<Run> runs = root_runs(root, taken[root], given_.trees.multiplicity[tree]);
            taken[root] += given_.trees.multiplicity[tree];
            const int* parent = &given_.trees.parent[tree * n_];
            for (int child : walk(parent, root)) {
                auto pool = pools_.find(pair(parent[child], child));
                if (pool == pools_.end()) return Status::stuck;
                std::vector<Run> parts;
                for (Run& run : runs)
                    if (!assign_run(std::move(run), parent[child], child, pool->second, parts)) return Status::stuck;
                runs = std::move(parts);
            }
            for (const Run& run : runs) {
                rows.root.push_back(root);
                rows.multiplicity.push_back(run.units);
                rows.parent.insert(rows.parent.end(), parent, parent + n_);
                path.insert(path.end(), run.path.begin(), run.path.end());
            }
        }
        return Status::ok;
    }

  private:
    const BorderTrees& given_;
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
        for (std::size_t edge = 0; edge + 1 < given_.paths.offset.size(); edge++)
            for (auto e = given_.paths.offset[edge]; e < given_.paths.offset[edge + 1]; e++)
                entries.push_back({pair(given_.trees.parent[edge], static_cast<int>(edge % n_)), given_.paths.path[e],
                                   given_.paths.units[e]});
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
            auto place = find(pool, given_.start[entry.path]);
            if (place == pool.end()) place = pool.insert(pool.end(), {given_.start[entry.path], {}});
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
        for (auto i = given_.label_offset[root]; i < given_.label_offset[root + 1]; i++) {
            const std::int64_t low = std::max(start, before);
            before += given_.label_units[i];
            const std::int64_t count = std::min(start + units, before) - low;
            if (count <= 0) continue;
            runs.push_back(blank);
            runs.back().units = count;
            runs.back().label[root] = given_.label_member[i];
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
    bool assign_run(Run run, int parent, int child, Pool& pool, std::vector<Run>& parts) const {
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
            part.label[child] = given_.end[choice.path];
            if (!choice.units) from->second.pop_back();
            if (from->second.empty()) pool.erase(from);
            if (whole) return true;
        }
    }
};

}  // namespace

Status assign_border_paths(const BorderTrees& given, TreePacking& rows, std::vector<int>& path) {
    return BorderAssignment(given).assign(rows, path);
}

}  // namespace treadle
