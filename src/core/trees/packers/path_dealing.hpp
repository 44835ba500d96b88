// Which of several paths that may stand for each other a unit takes. No link's load changes.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

struct Paths {
    std::vector<std::int64_t> offset;
    std::vector<int> links;

    int length(int path) const { return static_cast<int>(offset[path + 1] - offset[path]); }
    int link(int path, int place) const { return links[offset[path] + place]; }
};

// Units of an arc that take a path; arcs rise.
struct Segments {
    std::vector<int> arc, path;
    std::vector<std::int64_t> units;
};

// Paths that leave a node for the same relay exchange their first links, and paths that come to a node from the same
// relay their last ones, until what an arc has there is spread over the links in proportion to what these carry.
// Groups of more than `max_cells` arcs times links are left alone. Segments and paths are replaced.
void deal_evenly(const std::vector<int>& link_tail, const std::vector<int>& link_head, std::int64_t max_cells,
                 Segments& segments, Paths& paths);

// Trees of a piece whose children are sets: `start` and `end` are the members of the children at which a path starts
// and ends, -1 for none.
struct DoorTrees {
    int n_children = 0;
    std::vector<int> root;
    std::vector<std::int64_t> units;
    std::vector<int> parent;  // row-major (tree, child); -1 at the root
    std::vector<std::int64_t> entry_offset;
    std::vector<int> entry_path;
    std::vector<std::int64_t> entry_units;
    std::vector<int> start, end;
    std::vector<std::int64_t> label_offset;  // of each child: its unit trees in order, by the member that has them
    std::vector<std::int64_t> label_units;
    std::vector<int> label_member;
};

// Rows of unit trees with one path an edge; parent and path row-major (row, child).
struct DoorRows {
    std::vector<int> root;
    std::vector<std::int64_t> units;
    std::vector<int> parent, path;
};

// Every pair of children keeps its paths and how many unit trees take each. Trees are walked from their roots; of the
// pair's paths that are left one is taken that starts at the member by which the tree came in, else at the member with
// most paths left. Status::stuck: an edge has fewer units of paths than its tree.
Status deal_by_door(const DoorTrees& trees, DoorRows& rows);

}  // namespace treadle
