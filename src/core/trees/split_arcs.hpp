// The arcs of a fabric while its switches are split off, each with the paths that its units take.
//
// Splitting a units of u -> w -> t (the routing table of Algorithm 3, B.5.2) joins the next a units of u -> w with the
// next a units of w -> t, segment by segment. A path is therefore a link, or two paths one after the other: it is
// written out once, at the end, and a piece of it that comes back to a node it has passed is then left out.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "trees/graphs.hpp"
#include "trees/switch_plan.hpp"

namespace treadle {

class SplitArcs {
   public:
    struct Segment {
        int path;
        std::int64_t units;
    };
    struct Arc {
        std::int64_t capacity = 0;
        std::vector<Segment> segments;
        std::size_t next = 0;  // segments before this one are used up
    };

    // Every link is a path; loops and links without capacity are left out.
    explicit SplitArcs(const Fabric& fabric);

    const std::map<int, Arc>& out(int node) const { return out_[node]; }
    const std::set<int>& in(int node) const { return in_[node]; }  // tails; some arcs may have no capacity left
    Ports arriving(int w) const;
    Ports leaving(int w) const;

    // Carries out a plan of switch w.
    void apply(int w, const SwitchPlan& plan);

    void write(LogicalGraph& result) const;

   private:
    struct PathNode {
        int link, left, right;  // a link, or (-1) two paths
    };

    const Fabric& fabric_;
    std::vector<std::map<int, Arc>> out_;
    std::vector<std::set<int>> in_;
    std::vector<PathNode> paths_;

    void add(int tail, int head, Segment segment);
    void append_links(int path, std::vector<int>& links, std::vector<int>& place) const;
};

}  // namespace treadle
