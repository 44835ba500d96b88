// The load of the fullest link into a receiver in a step, by a sum over subsets of few links.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "steps/balancing.hpp"

namespace treadle {

// A step's largest jobs / weight so far, by cross multiplication.
template <class Cap>
struct Ratio {
    Cap numerator = 0, denominator = 1;
    bool below(Cap jobs, Cap weight) const { return jobs * denominator > numerator * weight; }
};

constexpr std::int64_t kShares = 720720;  // divisible by 1 .. 16: equal shares over so many links are integers

// Theorem 19: the load is the largest, over sets of links, of the jobs that fit into no other link / their weight.
template <class Cap>
class SubsetLoads {
   public:
    void set_weights(const std::int64_t* weight, int degree) {
        uniform_ = degree <= 16 && std::all_of(weight, weight + degree, [](std::int64_t w) { return w == 1; });
        even_.resize(degree);
        total_.assign(std::size_t{1} << degree, 0);
        for (int k = 0; k < degree; k++)
            for (std::size_t set = 0; set < std::size_t{1} << k; set++)
                total_[set + (std::size_t{1} << k)] = total_[set] + weight[k];
    }

    bool raise(const JobGroups& groups, Ratio<Cap>& best) {
        if (uniform_ && even_shares_suffice(groups, best)) return false;
        inside_.assign(total_.size(), 0);
        for (int g = 0; g < groups.size(); g++) inside_[groups.mask[g]] += groups.jobs[g];
        for (std::size_t bit = 1; bit < total_.size(); bit *= 2)
            for (std::size_t block = bit; block < total_.size(); block += 2 * bit)
                for (std::size_t i = block; i < block + bit; i++) inside_[i] += inside_[i - bit];
        bool raised = false;
        for (std::size_t set = 1; set < total_.size(); set++)
            if (best.below(inside_[set], total_[set])) {
                best = {inside_[set], total_[set]};
                raised = true;
            }
        return raised;
    }

   private:
    bool uniform_ = false;
    std::vector<Cap> total_, even_;
    std::vector<std::int32_t> inside_;

    // Whether jobs in equal shares over their links load no link beyond the best ratio: then no set exceeds it.
    bool even_shares_suffice(const JobGroups& groups, const Ratio<Cap>& best) {
        std::fill(even_.begin(), even_.end(), 0);
        for (int g = 0; g < groups.size(); g++) {
            const int first = groups.offset[g], last = groups.offset[g + 1];
            const Cap share = groups.jobs[g] * (kShares / (last - first));
            for (int e = first; e < last; e++) even_[groups.link[e]] += share;
        }
        const Cap fullest = *std::max_element(even_.begin(), even_.end());
        return fullest * best.denominator <= best.numerator * kShares;
    }
};

}  // namespace treadle
