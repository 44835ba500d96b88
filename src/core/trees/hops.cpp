// Bounds and heights. The eccentricity of the roots bounds the height of any forest from below; it is found by
// breadth-first search from 64 roots at once, one bit each. Relays cost no hop: they pass a wave on in the same round.
#include "trees/hops.hpp"

#include <algorithm>
#include <cstdint>

namespace treadle {
namespace {

// Breadth-first from up to 64 sources at once, one bit each.
class Waves {
   public:
    Waves(int n_nodes, const std::vector<int>& tail, const std::vector<int>& head, const std::vector<char>& is_compute)
        : is_compute_(is_compute), start_(n_nodes + 1, 0), head_(head.size()), seen_(n_nodes), now_(n_nodes), next_(n_nodes) {
        for (int u : tail) start_[u + 1]++;
        for (int v = 0; v < n_nodes; v++) start_[v + 1] += start_[v];
        std::vector<int> place(start_.begin(), start_.end() - 1);
        for (std::size_t a = 0; a < tail.size(); a++) head_[place[tail[a]]++] = head[a];
    }

    // Hops to the compute node that is reached last, or -1.
    int farthest(const int* sources, int count) {
        const std::uint64_t all = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
        std::fill(seen_.begin(), seen_.end(), 0);
        std::vector<int> frontier, coming;
        for (int i = 0; i < count; i++) {
            if (!now_[sources[i]]) frontier.push_back(sources[i]);
            now_[sources[i]] |= std::uint64_t{1} << i;
            seen_[sources[i]] |= std::uint64_t{1} << i;
        }
        int hops = 0;
        for (;; hops++) {
            for (std::size_t i = 0; i < frontier.size(); i++) expand(frontier[i], frontier, coming);
            if (coming.empty()) break;
            now_.swap(next_);
            frontier.swap(coming);
            coming.clear();
        }
        for (std::size_t v = 0; v < seen_.size(); v++)
            if (is_compute_[v] && seen_[v] != all) return -1;
        return hops;
    }

   private:
    // Relays are reached at once and join the frontier; a relay that gets more sources later joins it again.
    void expand(int x, std::vector<int>& frontier, std::vector<int>& coming) {
        const std::uint64_t wave = now_[x];
        now_[x] = 0;
        for (int j = start_[x]; wave && j < start_[x + 1]; j++) {
            const int y = head_[j];
            const std::uint64_t fresh = wave & ~seen_[y];
            if (!fresh) continue;
            seen_[y] |= fresh;
            std::uint64_t& waiting = is_compute_[y] ? next_[y] : now_[y];
            if (!waiting) (is_compute_[y] ? coming : frontier).push_back(y);
            waiting |= fresh;
        }
    }

    const std::vector<char>& is_compute_;
    std::vector<int> start_, head_;
    std::vector<std::uint64_t> seen_, now_, next_;  // sources, by node
};

}  // namespace

int hop_eccentricity(int n_nodes, const std::vector<int>& tail, const std::vector<int>& head,
                     const std::vector<int>& compute, const std::vector<int>& sources) {
    std::vector<char> is_compute(n_nodes, false);
    for (int v : compute) is_compute[v] = true;
    Waves waves(n_nodes, tail, head, is_compute);
    int most = 0;
    for (std::size_t first = 0; first < sources.size(); first += 64) {
        const int count = static_cast<int>(std::min<std::size_t>(64, sources.size() - first));
        const int hops = waves.farthest(sources.data() + first, count);
        if (hops < 0) return -1;
        most = std::max(most, hops);
    }
    return most;
}

int forest_height(const int* parent, std::size_t n_trees, std::size_t n_nodes) {
    std::vector<int> depth(n_nodes), path;
    int most = 0;
    for (std::size_t t = 0; t < n_trees; t++, parent += n_nodes) {
        std::fill(depth.begin(), depth.end(), -1);
        for (std::size_t v = 0; v < n_nodes; v++) {
            int x = static_cast<int>(v);
            for (path.clear(); x >= 0 && depth[x] < 0; x = parent[x]) path.push_back(x);
            int above = x < 0 ? -1 : depth[x];
            for (auto it = path.rbegin(); it != path.rend(); ++it) depth[*it] = ++above;
            most = std::max(most, above);
        }
    }
    return most;
}

}  // namespace treadle
