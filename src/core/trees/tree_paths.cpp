// The last step of ForestColl (end of B.5.3): from trees of logical arcs back to paths of the fabric. Every arc has an
// ordered list of (path, units); trees take units from it in order, so that no link is loaded beyond its capacity, and a
// tree is divided over few paths.
#include "trees/tree_paths.hpp"

#include <algorithm>
#include <numeric>

namespace treadle {
namespace {

// Arcs by head, and by tail within a head.
class ArcFinder {
   public:
    ArcFinder(int n_nodes, const LogicalGraph& arcs)
        : start_(n_nodes + 1, 0), tail_(arcs.tail.size()), arc_(arcs.tail.size()) {
        std::iota(arc_.begin(), arc_.end(), 0);
        std::sort(arc_.begin(), arc_.end(), [&](int a, int b) {
            return arcs.head[a] != arcs.head[b] ? arcs.head[a] < arcs.head[b] : arcs.tail[a] < arcs.tail[b];
        });
        for (std::size_t i = 0; i < arc_.size(); i++) {
            tail_[i] = arcs.tail[arc_[i]];
            start_[arcs.head[arc_[i]] + 1]++;
        }
        std::partial_sum(start_.begin(), start_.end(), start_.begin());
    }

    int find(int tail, int head) const {
        const auto first = tail_.begin() + start_[head], last = tail_.begin() + start_[head + 1];
        const auto it = std::lower_bound(first, last, tail);
        return it == last || *it != tail ? -1 : arc_[it - tail_.begin()];
    }

   private:
    std::vector<int> start_, tail_, arc_;
};

}  // namespace

Status assign_paths(int n_nodes, const LogicalGraph& arcs, const int* parent, const std::vector<std::int64_t>& multiplicity,
                  TreePaths& result) {
    const ArcFinder finder(n_nodes, arcs);
    std::vector<std::int64_t> next = arcs.segment_offset, left = arcs.segment_units;
    const std::size_t n = n_nodes, cells = multiplicity.size() * n;
    result.offset.reserve(cells + 1);
    result.path.reserve(cells);
    result.units.reserve(cells);
    for (std::size_t t = 0; t < multiplicity.size(); t++)
        for (std::size_t v = 0; v < n; v++) {
            const int above = parent[t * n + v];
            const int a = above < 0 ? -1 : finder.find(above, static_cast<int>(v));
            if (a < 0 && above >= 0) return Status::stuck;
            for (std::int64_t need = above < 0 ? 0 : multiplicity[t]; need > 0;) {
                if (next[a] == arcs.segment_offset[a + 1]) return Status::stuck;
                const std::int64_t piece = std::min(need, left[next[a]]);
                result.path.push_back(arcs.segment_path[next[a]]);
                result.units.push_back(piece);
                need -= piece;
                if ((left[next[a]] -= piece) == 0) next[a]++;
            }
            result.offset.push_back(static_cast<std::int64_t>(result.path.size()));
        }
    return Status::ok;
}

}  // namespace treadle
