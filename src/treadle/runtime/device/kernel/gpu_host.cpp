// All ranks of a launch on one GPU: their memory, and launches one after another in a stream.
#include <memory>

#include "host.hpp"
#include "user.hpp"

namespace treadle {

class Stream {
 public:
  Stream() { check(cudaStreamCreate(&stream), "a stream"); }
  ~Stream() { cudaStreamDestroy(stream); }
  cudaStream_t stream{};
};

class Event {
 public:
  Event() { check(cudaEventCreate(&event), "an event"); }
  ~Event() { cudaEventDestroy(event); }
  cudaEvent_t event{};
};

// Staging and flags of all ranks, which launches leave to the next.
struct Ranks {
  DeviceMemory memory;
  std::vector<Memory> rows;
};

// A rank's buffers on the GPU; in place, INPUT and OUTPUT lie in one as they do on the host.
inline void place_buffers(DeviceMemory& memory, const Memory& host, const User& user, Memory& row) {
  if (user.is_in_place && user.input_bytes && user.output_bytes) {
    const char* begin = std::min(host.buffers[0], host.buffers[1]);
    const char* end = std::max(host.buffers[0] + user.input_bytes, host.buffers[1] + user.output_bytes);
    char* shared = memory.allocate(end - begin);
    for (int buffer = 0; buffer < 2; ++buffer) row.buffers[buffer] = shared + (host.buffers[buffer] - begin);
  } else {
    row.buffers[0] = memory.allocate(user.input_bytes);
    row.buffers[1] = memory.allocate(user.output_bytes);
  }
  row.buffers[2] = memory.allocate(user.scratch_bytes);
}

// What the user does before a launch: rubbish in OUTPUT and SCRATCH, then the next input.
inline void fill(const User& user, const Memory& row, i64 launch, cudaStream_t stream) {
  if (!user.is_in_place || user.output_bytes > user.input_bytes)
    check(cudaMemsetAsync(row.buffers[1], 0xFF, std::size_t(user.output_bytes), stream), "OUTPUT");
  check(cudaMemsetAsync(row.buffers[2], 0xFF, std::size_t(user.scratch_bytes), stream), "SCRATCH");
  if (user.input_bytes)
    check(cudaMemcpyAsync(row.buffers[0], user.inputs[launch], std::size_t(user.input_bytes),
                          cudaMemcpyHostToDevice, stream),
          "INPUT");
}

inline void keep(const User& user, const Memory& row, i64 launch, cudaStream_t stream) {
  if (user.output_bytes)
    check(cudaMemcpyAsync(user.outputs[launch], row.buffers[1], std::size_t(user.output_bytes),
                          cudaMemcpyDeviceToHost, stream),
          "OUTPUT");
}

// The launches; milliseconds of all kernels together.
inline double run(Ranks& ranks, Job job, i64 element, i64 reduction, i64 is_ll, const User* users, i64 launches,
                  int threads) {
  DeviceMemory memory;
  std::vector<Memory> rows = ranks.rows;
  for (i64 rank = 0; rank < job.n_ranks; ++rank)
    place_buffers(memory, job.memory[rank], users[rank], rows[std::size_t(rank)]);
  Failure* host_failure = job.failure;
  job.operations = memory.copied(job.operations, job.n_operations);
  job.puts = memory.copied(job.puts, job.n_puts);
  job.waits = memory.copied(job.waits, job.n_waits);
  job.raises = memory.copied(job.raises, job.n_raises);
  job.lanes = memory.copied(job.lanes, job.n_lanes);
  job.groups = memory.copied(job.groups, job.n_groups);
  job.members = memory.copied(job.members, job.n_members);
  job.memory = memory.copied(rows.data(), job.n_ranks);
  job.failure = memory.copied(host_failure, 1);
  const Local nobody{NONE, {}, {}, 0, nullptr, nullptr, 0, nullptr};
  Stream stream;
  std::vector<std::unique_ptr<Event>> events;
  for (i64 launch = 0; launch < launches; ++launch, ++job.launch) {
    for (i64 rank = 0; rank < job.n_ranks; ++rank) fill(users[rank], rows[std::size_t(rank)], launch, stream.stream);
    for (int i = 0; i < 2; ++i) events.push_back(std::make_unique<Event>());
    check(cudaEventRecord(events[events.size() - 2]->event, stream.stream), "an event");
    check(cudaError_t(treadle_lanes_launch(&job, &nobody, element, reduction, is_ll, threads, stream.stream, nullptr)),
          "a launch of all lanes at once");
    check(cudaEventRecord(events.back()->event, stream.stream), "an event");
    for (i64 rank = 0; rank < job.n_ranks; ++rank) keep(users[rank], rows[std::size_t(rank)], launch, stream.stream);
  }
  check(cudaStreamSynchronize(stream.stream), "lanes");
  check(cudaMemcpy(host_failure, job.failure, sizeof(Failure), cudaMemcpyDeviceToHost), "what failed");
  double total = 0;
  for (std::size_t i = 0; i < events.size(); i += 2) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events[i]->event, events[i + 1]->event), "an event");
    total += milliseconds;
  }
  return total;
}

// Seconds of a copy within the GPU, the best of some.
inline double copy_seconds(i64 bytes) {
  DeviceMemory memory;
  char *from = memory.allocate(bytes), *to = memory.allocate(bytes);
  Stream stream;
  Event begin, end;
  double best = 0;
  for (int turn = 0; turn < 6; ++turn) {
    check(cudaEventRecord(begin.event, stream.stream), "an event");
    check(cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyDeviceToDevice, stream.stream), "a copy");
    check(cudaEventRecord(end.event, stream.stream), "an event");
    check(cudaStreamSynchronize(stream.stream), "a copy");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event, end.event), "an event");
    if (turn == 1 || (turn > 1 && milliseconds < best * 1e3)) best = milliseconds / 1e3;  // the first warms up
  }
  return best;
}

}  // namespace treadle

using treadle::i64;

extern "C" void* treadle_gpu_open(i64 n_ranks, i64 staging_bytes, const i64* n_flags, const treadle::u64* const* flags,
                                  char* words, i64 room) {
  return treadle::told<void*>(words, room, nullptr, [&] {
    auto ranks = std::make_unique<treadle::Ranks>();
    for (i64 rank = 0; rank < n_ranks; ++rank) {
      treadle::Memory row{};
      row.staging = ranks->memory.allocate(staging_bytes);
      treadle::check(cudaMemset(row.staging, 0, std::size_t(staging_bytes)), "staging");
      row.flags = ranks->memory.copied(flags[rank], n_flags[rank]);
      ranks->rows.push_back(row);
    }
    return static_cast<void*>(ranks.release());
  });
}

extern "C" void treadle_gpu_close(void* ranks) { delete static_cast<treadle::Ranks*>(ranks); }

extern "C" double treadle_gpu_run(void* ranks, const treadle::Job* job, i64 element, i64 reduction, i64 is_ll,
                                  const treadle::User* users, i64 launches, i64 threads, char* words, i64 room) {
  return treadle::told<double>(words, room, -1.0, [&] {
    return treadle::run(*static_cast<treadle::Ranks*>(ranks), *job, element, reduction, is_ll, users, launches,
                        int(threads));
  });
}

extern "C" double treadle_gpu_copy_seconds(i64 bytes, char* words, i64 room) {
  return treadle::told<double>(words, room, -1.0, [&] { return treadle::copy_seconds(bytes); });
}

extern "C" i64 treadle_gpu_name(char* words, i64 room) {
  return treadle::told<i64>(words, room, 1, [&] {
    cudaDeviceProp found{};
    treadle::check(cudaGetDeviceProperties(&found, 0), "the GPU");
    std::snprintf(words, std::size_t(room), "%s", found.name);
    return i64(0);
  });
}
