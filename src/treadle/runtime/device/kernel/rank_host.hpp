// One rank's side on its own GPU: tables, and launches on the caller's stream, which nobody waits for.
#pragma once

#include "host.hpp"

#include <cstring>
#include <memory>

namespace treadle {

// While a stream is captured into a graph, memory and copies on other streams stay allowed to this thread.
class WhileCaptured {
 public:
  WhileCaptured() { check(cudaThreadExchangeStreamCaptureMode(&mode_), "capture"); }
  ~WhileCaptured() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// A program at one size; lives until it is dropped, since a captured graph may launch it again.
struct Tables {
  DeviceMemory memory;
  Job job{};
  char* scratch = nullptr;
  i64 program = 0;
  i64 is_ll = 0;
};

struct Rank {
  i64 rank = 0, n_ranks = 0;
  DeviceMemory memory;
  Memory* rows[2] = {};  // with the staging of Simple, and of LL
  u64* launches = nullptr;
  char* lines = nullptr;  // its own staging of LL
  Failure* failure = nullptr;
  Told* told = nullptr;  // the host's memory
  Told* told_there = nullptr;
  cudaStream_t copies{};
  cudaEvent_t ended{};
  cudaStream_t last{};
  bool has_last = false;

  ~Rank() {
    if (told) cudaFreeHost(told);
    if (copies) cudaStreamDestroy(copies);
    if (ended) cudaEventDestroy(ended);
  }
};

inline void upload(Rank& rank, DeviceMemory& memory, const void* from, i64 bytes, const void** to) {
  char* room = memory.allocate(bytes);
  if (bytes)
    check(cudaMemcpyAsync(room, from, std::size_t(bytes), cudaMemcpyHostToDevice, rank.copies), "copy to the GPU");
  *to = room;
}

template <class Row>
void upload_rows(Rank& rank, DeviceMemory& memory, const Row*& rows, i64 count) {
  const void* found = nullptr;
  upload(rank, memory, rows, count * i64(sizeof(Row)), &found);
  rows = static_cast<const Row*>(found);
}

inline std::unique_ptr<Rank> open_rank(i64 number, i64 n_ranks, const i64* blocks, i64 ll_at, i64 flags_at) {
  auto rank = std::make_unique<Rank>();
  rank->rank = number;
  rank->n_ranks = n_ranks;
  rank->lines = reinterpret_cast<char*>(blocks[number] + ll_at);
  check(cudaStreamCreateWithFlags(&rank->copies, cudaStreamNonBlocking), "a stream");
  check(cudaEventCreateWithFlags(&rank->ended, cudaEventDisableTiming), "an event");
  check(cudaHostAlloc(reinterpret_cast<void**>(&rank->told), sizeof(Told), cudaHostAllocMapped), "the host's memory");
  std::memset(rank->told, 0, sizeof(Told));
  check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&rank->told_there), rank->told, 0), "the host's memory");
  for (int is_ll = 0; is_ll < 2; ++is_ll) {
    std::vector<Memory> rows(static_cast<std::size_t>(n_ranks));
    for (i64 peer = 0; peer < n_ranks; ++peer) {
      if (!blocks[peer]) continue;  // no address reaches it: a network does
      rows[std::size_t(peer)].staging = reinterpret_cast<char*>(blocks[peer] + (is_ll ? ll_at : 0));
      rows[std::size_t(peer)].flags = reinterpret_cast<u64*>(blocks[peer] + flags_at);
    }
    rank->rows[is_ll] = rank->memory.copied(rows.data(), n_ranks);
  }
  const u64 none[2] = {0, 0};
  rank->launches = rank->memory.copied(none, 2);
  const Failure well{};
  rank->failure = rank->memory.copied(&well, 1);
  return rank;
}

inline std::unique_ptr<Tables> prepare(Rank& rank, const Job& given, i64 program, i64 is_ll, i64 scratch_bytes) {
  const WhileCaptured allowed;
  auto tables = std::make_unique<Tables>();
  Job& job = tables->job = given;
  upload_rows(rank, tables->memory, job.operations, job.n_operations);
  upload_rows(rank, tables->memory, job.puts, job.n_puts);
  upload_rows(rank, tables->memory, job.waits, job.n_waits);
  upload_rows(rank, tables->memory, job.raises, job.n_raises);
  upload_rows(rank, tables->memory, job.lanes, job.n_lanes);
  upload_rows(rank, tables->memory, job.groups, job.n_groups);
  upload_rows(rank, tables->memory, job.members, job.n_members);
  tables->scratch = tables->memory.allocate(scratch_bytes);
  check(cudaStreamSynchronize(rank.copies), "copy to the GPU");
  tables->program = program;
  tables->is_ll = is_ll;
  job.memory = rank.rows[is_ll];
  job.failure = rank.failure;
  job.n_ranks = rank.n_ranks;
  job.launch = 0;  // it is counted on the GPU
  return tables;
}

// Behind the launch before, on whatever stream that was. What is captured is behind what was captured before it; the
// order of graphs and other calls is the caller's, as for every library.
inline void follow(Rank& rank, cudaStream_t stream, bool is_captured) {
  if (is_captured || !rank.has_last || rank.last == stream) return;
  check(cudaStreamWaitEvent(stream, rank.ended, 0), "the launch before");
}

// Where a launch's INPUT and OUTPUT are, as Python writes it (rank_lanes.py): in what blocks peers reach them, if they do,
// and what is copied to INPUT before and from OUTPUT after.
struct Places {
  char* buffers[2];
  Window windows[2];
  const char* given;
  i64 given_bytes;
  char* wanted;
  i64 wanted_bytes;
  u64 signature;
};

inline void copy(char* to, const char* from, i64 bytes, cudaStream_t stream) {
  if (bytes)
    check(cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyDeviceToDevice, stream), "a copy in the stream");
}

// Behind the launch before and with copies; `start` puts the lanes on the stream.
template <class Start>
void launch(Rank& rank, const Tables& tables, const Places& places, cudaStream_t stream, Start start) {
  cudaStreamCaptureStatus capture{};
  check(cudaStreamIsCapturing(stream, &capture), "the stream");
  const bool is_captured = capture != cudaStreamCaptureStatusNone;
  follow(rank, stream, is_captured);
  const Local local{rank.rank,     {places.buffers[0], places.buffers[1], tables.scratch},
                    {places.windows[0], places.windows[1]},
                    places.signature,
                    rank.launches, rank.told_there,
                    tables.program, rank.lines};
  copy(places.buffers[0], places.given, places.given_bytes, stream);
  check(cudaError_t(start(tables.job, local)), "a launch of all lanes at once");
  copy(places.wanted, places.buffers[1], places.wanted_bytes, stream);
  if (is_captured) return;
  check(cudaEventRecord(rank.ended, stream), "an event");
  rank.last = stream;
  rank.has_last = true;
}

}  // namespace treadle
