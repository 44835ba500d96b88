// Orders of layers made better one after another, so that more pieces have a climbing path of few hops.
#pragma once
#include <cstdint>
#include <vector>

#include "control.hpp"
#include "routes/layer_orders.hpp"
#include "routes/route_search.hpp"

namespace treadle {

struct OrderPace {
    int most_hops = 0;  // of a path
    int passes = 0;     // over all layers, at most
    std::uint64_t seed = 0;
};

// Fewest hops of a path of each piece that climbs the order of links; `no_way` where none has at most so many.
constexpr std::uint8_t no_way = 200;
std::vector<std::uint8_t> climbing_hops(const PieceTable& pieces, const std::int32_t* order, int most_hops);

// `filled` has the links of each layer in order, and gets the first layer whose order each of `paths` climbs: one path a
// piece. `distance` is the fewest hops that a piece can take at all. When cancelled, what there is so far.
Status improve_orders(const PieceTable& pieces, const WaitPaths& paths, const std::int32_t* distance, const OrderPace& pace,
                      const Control& control, FilledLayers& filled);

}  // namespace treadle
