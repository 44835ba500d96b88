// splitmix64 (Steele, Lea and Flood, 2014): the same numbers for the same seed everywhere.
#pragma once
#include <cstdint>

namespace treadle {

class RouteRandom {
public:
    explicit RouteRandom(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }
    // The upper half of a product: from 0 to n - 1, n up to 2^31.
    int below(int n) { return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(n)) >> 32); }
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
    std::uint64_t state_;
};

}  // namespace treadle
