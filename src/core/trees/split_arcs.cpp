#include "trees/split_arcs.hpp"

#include <algorithm>
#include <cstddef>

namespace treadle {

using Cap = std::int64_t;

SplitArcs::SplitArcs(const Fabric& fabric) : fabric_(fabric), out_(fabric.n_nodes), in_(fabric.n_nodes) {
    for (std::size_t e = 0; e < fabric.tail.size(); e++) {
        if (fabric.tail[e] == fabric.head[e] || fabric.capacity[e] == 0) continue;
        paths_.push_back({static_cast<int>(e), -1, -1});
        add(fabric.tail[e], fabric.head[e], {static_cast<int>(paths_.size()) - 1, fabric.capacity[e]});
    }
}

void SplitArcs::add(int tail, int head, Segment segment) {
    Arc& arc = out_[tail][head];
    in_[head].insert(tail);
    arc.capacity += segment.units;
    arc.segments.push_back(segment);
}

Ports SplitArcs::arriving(int w) const {
    Ports ports;
    for (int u : in_[w]) {
        Cap units = out_[u].at(w).capacity;
        if (units > 0) ports.node.push_back(u), ports.units.push_back(units);
    }
    return ports;
}

Ports SplitArcs::leaving(int w) const {
    Ports ports;
    for (const auto& [t, arc] : out_[w])
        if (arc.capacity > 0) ports.node.push_back(t), ports.units.push_back(arc.capacity);
    return ports;
}

void SplitArcs::apply(int w, const SwitchPlan& plan) {
    for (const auto& [pair, units] : plan) {
        Arc &in = out_[pair.first][w], &out = out_[w][pair.second];
        in.capacity -= units;
        out.capacity -= units;
        for (Cap left = units; left > 0;) {
            Segment &a = in.segments[in.next], &b = out.segments[out.next];
            Cap piece = std::min({left, a.units, b.units});
            if (pair.first != pair.second) {
                paths_.push_back({-1, a.path, b.path});
                add(pair.first, pair.second, {static_cast<int>(paths_.size()) - 1, piece});
            }
            a.units -= piece, b.units -= piece, left -= piece;
            if (a.units == 0) in.next++;
            if (b.units == 0) out.next++;
        }
    }
}

// The links of a path in order; a piece that comes back to a node it has passed is left out.
void SplitArcs::append_links(int path, std::vector<int>& links, std::vector<int>& place) const {
    const std::size_t begin = links.size();
    std::vector<int> stack{path};
    while (!stack.empty()) {
        PathNode node = paths_[stack.back()];
        stack.pop_back();
        if (node.link < 0) {
            stack.push_back(node.right), stack.push_back(node.left);
            continue;
        }
        int head = fabric_.head[node.link];
        if (place[head] < 0) {
            links.push_back(node.link);
            place[head] = static_cast<int>(links.size() - begin);
            continue;
        }
        while (links.size() > begin + place[head]) {
            place[fabric_.head[links.back()]] = -1;
            links.pop_back();
        }
        place[head] = static_cast<int>(links.size() - begin);
    }
    for (std::size_t i = begin; i < links.size(); i++) place[fabric_.head[links[i]]] = -1;
}

void SplitArcs::write(LogicalGraph& result) const {
    std::vector<int> place(fabric_.n_nodes, -1);
    for (int u = 0; u < fabric_.n_nodes; u++)
        for (const auto& [t, arc] : out_[u]) {
            if (arc.capacity == 0) continue;
            result.tail.push_back(u);
            result.head.push_back(t);
            result.capacity.push_back(arc.capacity);
            for (std::size_t i = arc.next; i < arc.segments.size(); i++) {
                result.segment_path.push_back(static_cast<int>(result.path_offset.size()) - 1);
                result.segment_units.push_back(arc.segments[i].units);
                append_links(arc.segments[i].path, result.path_links, place);
                result.path_offset.push_back(static_cast<Cap>(result.path_links.size()));
            }
            result.segment_offset.push_back(static_cast<Cap>(result.segment_path.size()));
        }
}

}  // namespace treadle
