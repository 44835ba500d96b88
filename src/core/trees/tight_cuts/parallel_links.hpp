// Which of several parallel links a unit takes. No link's load changes.
#pragma once
#include <cstdint>
#include <vector>

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
void spread_evenly(const std::vector<int>& link_tail, const std::vector<int>& link_head, std::int64_t max_cells,
                   Segments& segments, Paths& paths);

}  // namespace treadle
