// Ranks of other boxes reached by a network alone, as NCCL's GIN does it: slices go through an outbox, flags are added to.
#pragma once

#include "cuda_runtime.h"
#include "rank.hpp"
#include "signals.hpp"

#include <thread>

namespace fake_network {

using namespace treadle;

// What launches of a rank leave to the next.
struct Told {
  std::vector<u64> entered;
  std::map<i64, std::vector<u64>> raised;  // of programs
};

inline Told& told_by(const Local& local, i64 n_ranks) {
  static std::mutex lock;
  static std::map<const void*, Told> all;
  const std::lock_guard<std::mutex> held(lock);
  Told& found = all[local.launches];
  if (local.launches[0] == 0 || found.entered.empty()) found = Told{std::vector<u64>(std::size_t(n_ranks), ALL_SLICES), {}};
  return found;
}

struct Wire {
  static constexpr bool sends = true;
  const Job& job;  // with all ranks' memory
  const Local& local;
  Signals signals;
  char* slots;
  i64 slot_bytes;

  char* outbox(i64 slot) const { return slots + slot * slot_bytes; }
  void put(i64 rank, i64 buffer, i64 at, i64 slot, i64 bytes) {
    if (bytes > slot_bytes) std::abort();
    char* to = buffer == STAGING ? job.memory[rank].staging : reached(local, int(buffer), rank);
    std::memcpy(to + at, outbox(slot), std::size_t(bytes));
  }
  void raise(const Raise& raise, i64 row, u64 value) {
    __atomic_fetch_add(job.memory[raise.rank].flags + raise.flag, signals.step(raise, row, job.n_ranks, value),
                       __ATOMIC_RELEASE);
  }
  void sign(i64 rank, i64 flag, u64 signature) { store_signature(job.memory[rank].flags + flag, signature); }
  void finish() { std::memset(slots, 0xEE, std::size_t(MOST_PUTS * slot_bytes)); }
};

// A launch of a rank in boxes of so many, of sums of float32.
inline int launch(const Job& job, const Local& local, int threads, i64 box) {
  std::vector<Memory> rows(job.memory, job.memory + job.n_ranks);
  std::vector<std::vector<char*>> tables(2);
  Local near = local;
  for (i64 rank = 0; rank < job.n_ranks; ++rank)
    if (rank / box != local.rank / box) rows[std::size_t(rank)] = Memory{};
  for (int buffer = 0; buffer < 2; ++buffer) {
    if (!local.windows[buffer].table) continue;
    tables[std::size_t(buffer)].assign(local.windows[buffer].table, local.windows[buffer].table + job.n_ranks + job.n_groups);
    for (i64 rank = 0; rank < job.n_ranks; ++rank)
      if (rank / box != local.rank / box) tables[std::size_t(buffer)][std::size_t(rank)] = nullptr;
    near.windows[buffer].table = tables[std::size_t(buffer)].data();
  }
  Job own = job;
  own.memory = rows.data();
  Told& told = told_by(local, job.n_ranks);
  std::vector<u64>& raised = told.raised[local.program];
  if (raised.empty()) raised.resize(std::size_t(job.n_raises + 1));
  i64 slot_bytes = 16;
  for (i64 i = 0; i < job.n_operations; ++i)
    slot_bytes = std::max(slot_bytes, job.operations[i].slice * i64(sizeof(float)));
  std::vector<Meeting> meetings(std::size_t(job.n_lanes));
  std::vector<std::vector<char>> outboxes(std::size_t(job.n_lanes));
  std::vector<std::vector<Memory>> shared(std::size_t(job.n_lanes));
  std::vector<std::thread> running;
  for (i64 lane = 0; lane < job.n_lanes; ++lane) {
    outboxes[std::size_t(lane)].resize(std::size_t(MOST_PUTS * slot_bytes + 16));
    shared[std::size_t(lane)].resize(shared_bytes(job) / sizeof(Memory) + 1);
    char* begin = outboxes[std::size_t(lane)].data();
    begin += 16 - reinterpret_cast<std::uintptr_t>(begin) % 16;
    for (int thread = 0; thread < threads; ++thread)
      running.emplace_back([&, lane, thread, begin] {
        const Block block{thread, threads, &meetings[std::size_t(lane)]};
        run_rank_lane<float, Sum, false>(own, near, block, lane, shared[std::size_t(lane)].data(),
                                         Wire{job, local, Signals{told.entered.data(), raised.data()}, begin, slot_bytes});
      });
  }
  for (std::thread& one : running) one.join();
  return 0;
}

}  // namespace fake_network
