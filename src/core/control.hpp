// Cooperation with the Python side: progress counters and cancellation through a shared int64 array.
#pragma once
#include <atomic>
#include <cstdint>

namespace treadle {

// control[0]: set to 1 by Python to cancel; control[1], control[2]: work done and work expected.
struct Control {
    std::int64_t* slots = nullptr;

    bool cancelled() const {
        return slots && reinterpret_cast<std::atomic<std::int64_t>*>(slots)->load(std::memory_order_relaxed) != 0;
    }
    void progress(std::int64_t done, std::int64_t total) const {
        if (!slots) return;
        auto* cells = reinterpret_cast<std::atomic<std::int64_t>*>(slots);
        cells[1].store(done, std::memory_order_relaxed);
        cells[2].store(total, std::memory_order_relaxed);
    }
};

enum class Status : int { ok = 0, violated = 1, cancelled = 2, stuck = 3 };

}  // namespace treadle
