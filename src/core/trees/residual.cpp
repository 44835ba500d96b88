#include "trees/residual.hpp"

namespace treadle {

// The two capacity types in use: exact 128-bit products in the optimality search, units everywhere else.
template class ResidualNetwork<std::int64_t>;
template class ResidualNetwork<__int128>;

}  // namespace treadle
