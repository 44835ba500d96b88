// Divisible jobs over processors: each job may use some of the processors, and each processor has a capacity.
//
// Jobs with the same processors form a group, so the network has groups and processors only and its flow says how
// many units of a group a processor takes. Whole jobs are placed first, so that few jobs are cut; what is left is
// placed by shortest augmenting paths, which also find a violated cut when the capacities do not suffice.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace treadle {

// Group g: `jobs[g]` jobs, each of which may use the processors link[offset[g]] .. link[offset[g + 1] - 1].
struct JobGroups {
    std::vector<int> jobs, offset{0}, link;
    std::vector<std::uint64_t> mask;  // the processors as bits, where there are at most 64 of them

    int size() const { return static_cast<int>(jobs.size()); }
    void clear() {
        jobs.clear();
        link.clear();
        mask.clear();
        offset.assign(1, 0);
    }
};

template <class Cap>
class Balancer {
   public:
    std::vector<Cap> flow;                  // by entry of groups.link
    std::vector<char> cut_group, cut_link;  // after a failure: the jobs and all the processors that they may use

    // Place `units` units of every job; false if the capacities do not suffice.
    bool spread(const JobGroups& groups, const std::vector<Cap>& capacity, Cap units) {
        groups_ = &groups;
        room_ = capacity;
        flow.assign(groups.link.size(), 0);
        left_.assign(groups.size(), 0);
        bool complete = true;
        for (int g = 0; g < groups.size(); g++) {
            const Cap placed = place_whole(g, units);
            left_[g] = (groups.jobs[g] - placed) * units;
            complete = complete && left_[g] == 0;
        }
        if (complete) return true;
        index_links();
        for (int g = 0; g < groups.size(); g++)
            while (left_[g] > 0)
                if (!augment(g)) return false;
        return true;
    }

   private:
    const JobGroups* groups_ = nullptr;
    std::vector<Cap> room_, left_, whole_, sorted_;
    std::vector<int> link_start_, link_entry_, entry_group_, queue_, parent_entry_, parent_link_;

    // Whole jobs of group g, to the processors with most room; returns how many found a place.
    Cap place_whole(int g, Cap units) {
        const int first = groups_->offset[g], count = groups_->offset[g + 1] - first;
        const Cap jobs = groups_->jobs[g];
        whole_.resize(count);
        Cap total = 0;
        for (int i = 0; i < count; i++) total += whole_[i] = room_[groups_->link[first + i]] / units;
        if (total > jobs) keep_level(jobs);
        Cap placed = 0;
        for (int i = 0; i < count; i++) {
            flow[first + i] = whole_[i] * units;
            room_[groups_->link[first + i]] -= whole_[i] * units;
            placed += whole_[i];
        }
        return placed;
    }

    // Lower `whole_` to a sum of `jobs` so that what is kept free is as level as possible.
    void keep_level(Cap jobs) {
        sorted_ = whole_;
        std::sort(sorted_.begin(), sorted_.end(), std::greater<Cap>());
        Cap sum = 0, level = 0, surplus = 0;
        for (std::size_t i = 1; i <= sorted_.size(); i++) {
            sum += sorted_[i - 1];
            const Cap next = i < sorted_.size() ? sorted_[i] : 0, count = static_cast<Cap>(i);
            if (sum - count * next >= jobs) {
                level = (sum - jobs) / count;
                surplus = sum - count * level - jobs;
                break;
            }
        }
        for (Cap& share : whole_) {
            share = std::max<Cap>(0, share - level);
            if (share > 0 && surplus > 0) share--, surplus--;
        }
    }

    void index_links() {
        const int links = static_cast<int>(room_.size());
        link_start_.assign(links + 1, 0);
        for (int k : groups_->link) link_start_[k + 1]++;
        for (int k = 0; k < links; k++) link_start_[k + 1] += link_start_[k];
        link_entry_.resize(groups_->link.size());
        entry_group_.resize(groups_->link.size());
        auto place = link_start_;
        for (int g = 0; g < groups_->size(); g++)
            for (int e = groups_->offset[g]; e < groups_->offset[g + 1]; e++) {
                link_entry_[place[groups_->link[e]]++] = e;
                entry_group_[e] = g;
            }
    }

    // Mark the processors of group g that are reached for the first time; `from` is the processor that led to g.
    void reach(int g, int from) {
        cut_group[g] = true;
        for (int e = groups_->offset[g]; e < groups_->offset[g + 1]; e++) {
            const int k = groups_->link[e];
            if (cut_link[k]) continue;
            cut_link[k] = true;
            parent_entry_[k] = e;
            parent_link_[k] = from;
            queue_.push_back(k);
        }
    }

    bool augment(int source) {
        cut_group.assign(groups_->size(), false);
        cut_link.assign(room_.size(), false);
        parent_entry_.assign(room_.size(), -1);
        parent_link_.assign(room_.size(), -1);
        queue_.clear();
        reach(source, -1);
        for (std::size_t head = 0; head < queue_.size(); head++) {
            const int k = queue_[head];
            if (room_[k] > 0) {
                push(source, k);
                return true;
            }
            for (int i = link_start_[k]; i < link_start_[k + 1]; i++) {
                const int e = link_entry_[i];
                if (flow[e] > 0 && !cut_group[entry_group_[e]]) reach(entry_group_[e], k);
            }
        }
        return false;
    }

    // Entry of group g at processor k.
    int entry(int g, int k) const {
        const int* first = groups_->link.data() + groups_->offset[g];
        return static_cast<int>(std::find(first, groups_->link.data() + groups_->offset[g + 1], k) -
                                groups_->link.data());
    }

    void push(int source, int sink) {
        Cap amount = std::min(left_[source], room_[sink]);
        for (int k = sink; parent_link_[k] >= 0; k = parent_link_[k])
            amount = std::min(amount, flow[entry(entry_group_[parent_entry_[k]], parent_link_[k])]);
        for (int k = sink; k >= 0; k = parent_link_[k]) {
            flow[parent_entry_[k]] += amount;
            if (parent_link_[k] >= 0) flow[entry(entry_group_[parent_entry_[k]], parent_link_[k])] -= amount;
        }
        room_[sink] -= amount;
        left_[source] -= amount;
    }
};

}  // namespace treadle
