// The one place that knows whether this is a GPU: blocks, flags that are released and acquired, LL lines, clocks.
#pragma once

#include "tables.hpp"

#ifdef __CUDACC__
#include <cuda/atomic>
#define TREADLE_DEVICE __device__ __forceinline__
#else
#include <atomic>
#include <chrono>
#include <thread>
#define TREADLE_DEVICE inline
#endif

namespace treadle {

// Counts polls, and wraps: how long a wait takes is not measured by it. That of threads wraps all the time, as that of
// a GPU does after 2^32 polls.
#ifdef __CUDACC__
using Tries = u32;
#else
using Tries = std::uint8_t;
#endif

// 8 bytes of data; each half travels with a flag that says of which launch it is.
struct alignas(16) Line {
  u32 data_low, flag_low, data_high, flag_high;
};

#ifdef __CUDACC__

struct Block {
  int thread, threads;
  TREADLE_DEVICE void sync() const { __syncthreads(); }
  TREADLE_DEVICE bool any(bool own) const { return __syncthreads_or(own); }
};

TREADLE_DEVICE u64 acquire(u64* flag) {
  return cuda::atomic_ref<u64, cuda::thread_scope_system>(*flag).load(cuda::memory_order_acquire);
}

// The fence covers what other threads of the block stored before the barrier that this thread has passed.
TREADLE_DEVICE void release(u64* flag, u64 value) {
  cuda::atomic_ref<u64, cuda::thread_scope_system>(*flag).store(value, cuda::memory_order_release);
}

TREADLE_DEVICE Line load_line(const Line* line) {
  Line found;
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(found.data_low), "=r"(found.flag_low), "=r"(found.data_high), "=r"(found.flag_high)
               : "l"(line)
               : "memory");
  return found;
}

TREADLE_DEVICE void store_line(Line* line, u64 data, u32 flag) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(line), "r"(u32(data)), "r"(flag),
               "r"(u32(data >> 32)), "r"(flag)
               : "memory");
}

TREADLE_DEVICE i64 now_ns() {
  i64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

TREADLE_DEVICE void rest(Tries) {}

TREADLE_DEVICE i64 load_failed(const i64* word) { return *reinterpret_cast<const volatile i64*>(word); }

// Ordered by the flags beside it.
TREADLE_DEVICE u64 load_signature(const u64* word) { return *reinterpret_cast<const volatile u64*>(word); }
TREADLE_DEVICE void store_signature(u64* word, u64 value) { *reinterpret_cast<volatile u64*>(word) = value; }

TREADLE_DEVICE bool claim(i64* word) {
  return atomicCAS_system(reinterpret_cast<unsigned long long*>(word), 0ULL, 1ULL) == 0;
}

// What the block stored before is seen by who finds this count, and the other way round.
TREADLE_DEVICE u64 count_one(u64* word) {
  return cuda::atomic_ref<u64, cuda::thread_scope_device>(*word).fetch_add(1, cuda::memory_order_acq_rel);
}

// Into memory of the host; `is_set` last.
TREADLE_DEVICE void tell(const Failure& found, Failure& told) {
  told.rank = found.rank;
  told.lane = found.lane;
  told.operation = found.operation;
  told.wait = found.wait;
  cuda::atomic_ref<i64, cuda::thread_scope_system>(told.is_set).store(1, cuda::memory_order_release);
}

#else

// Vectors that were moved whole, for tests.
inline std::atomic<i64> vectors_moved{0};

// All threads of a block meet here; the generation tells one meeting from the next.
struct Meeting {
  std::atomic<int> arrived{0};
  std::atomic<unsigned> generation{0};
  std::atomic<int> votes[2]{};  // of this meeting and, set back by its last thread, of the next
};

inline void rest(Tries tries) {
  if (tries < 64)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(tries < 192 ? 20 : 100));
}

// Whether one of the threads says yes.
inline bool meet(Meeting& meeting, int threads, bool own = false) {
  if (threads == 1) return own;
  const unsigned generation = meeting.generation.load(std::memory_order_acquire);
  std::atomic<int>& votes = meeting.votes[generation % 2];
  if (own) votes.store(1, std::memory_order_relaxed);
  if (meeting.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == threads) {
    meeting.arrived.store(0, std::memory_order_relaxed);
    meeting.votes[(generation + 1) % 2].store(0, std::memory_order_relaxed);
    meeting.generation.store(generation + 1, std::memory_order_release);
  } else {
    for (Tries tries = 0; meeting.generation.load(std::memory_order_acquire) == generation; ++tries) rest(tries);
  }
  return votes.load(std::memory_order_relaxed);
}

struct Block {
  int thread, threads;
  Meeting* meeting;
  void sync() const { meet(*meeting, threads); }
  bool any(bool own) const { return meet(*meeting, threads, own); }
};

inline u64 acquire(u64* flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }

inline void release(u64* flag, u64 value) { __atomic_store_n(flag, value, __ATOMIC_RELEASE); }

// Two words of 8 bytes, each whole; nothing orders them, as on a GPU.
inline Line load_line(const Line* line) {
  const u64* words = reinterpret_cast<const u64*>(line);
  const u64 low = __atomic_load_n(words, __ATOMIC_RELAXED), high = __atomic_load_n(words + 1, __ATOMIC_RELAXED);
  return Line{u32(low), u32(low >> 32), u32(high), u32(high >> 32)};
}

// Which half comes first changes, and now and then others see only that one for a while: what takes a line for
// whole that is not would else be right by luck.
inline void store_line(Line* line, u64 data, u32 flag) {
  u64* words = reinterpret_cast<u64*>(line);
  const u64 halves[2] = {(data & 0xFFFFFFFFu) | u64(flag) << 32, data >> 32 | u64(flag) << 32};
  const std::uintptr_t turn = (reinterpret_cast<std::uintptr_t>(line) >> 4) + flag;
  const int first = int(turn & 1);
  __atomic_store_n(words + first, halves[first], __ATOMIC_RELAXED);
  if (turn % 32 < 2) std::this_thread::yield();
  __atomic_store_n(words + 1 - first, halves[1 - first], __ATOMIC_RELAXED);
}

inline i64 now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline i64 load_failed(const i64* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

inline u64 load_signature(const u64* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
inline void store_signature(u64* word, u64 value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

inline bool claim(i64* word) {
  i64 expected = 0;
  return __atomic_compare_exchange_n(word, &expected, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

inline u64 count_one(u64* word) { return __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL); }

inline void tell(const Failure& found, Failure& told) {
  told.rank = found.rank;
  told.lane = found.lane;
  told.operation = found.operation;
  told.wait = found.wait;
  __atomic_store_n(&told.is_set, 1, __ATOMIC_RELEASE);
}

#endif

}  // namespace treadle
