// Layers without deadlock for given paths: LASH by tables of the waits between links.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"

namespace treadle {

struct WaitPaths {
    int n_nodes = 0;
    int n_links = 0;
    const std::int32_t* tail = nullptr;
    const std::int32_t* head = nullptr;
    std::int64_t n_paths = 0;
    const std::int64_t* offset = nullptr;
    const std::int32_t* link = nullptr;
    const std::int64_t* sequence = nullptr;  // in which the paths are taken
    int most_layers = 0;                     // 0: as many as it takes
    bool may_rise = false;                   // a path may go to a higher layer on its way
};

struct FilledLayers {
    std::vector<std::int32_t> layer;  // by path, -1: none; if paths may rise, by hop
    std::vector<std::int32_t> order;  // the links of each layer in an order that its paths climb
};

// The first layer (or rise) that keeps every layer's waits free of cycles.
Status fill_layers(const WaitPaths& paths, const Control& control, FilledLayers& filled);

}  // namespace treadle
