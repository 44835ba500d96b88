// One rank's side on its own GPU for Python: memory that peers reach, tables and launches.
#include "rank_host.hpp"

namespace treadle {

inline i64 found_room(const Rank& rank, i64 element, i64 is_ll, int threads) {
  Job job{};
  job.n_ranks = rank.n_ranks;
  const Local local{rank.rank, {}, {}, 0, nullptr, nullptr, 0, nullptr};
  i64 room = 0;
  // reductions take as many registers as one another, near enough: a copy of bytes has but one
  check(cudaError_t(treadle_lanes_launch(&job, &local, element, element == 5 ? 2 : 0, is_ll, threads, nullptr, &room)),
        "the blocks that a GPU has room for");
  return room;
}

}  // namespace treadle

using treadle::i64;
using treadle::told;

// Memory that other processes may open; zeroed.
extern "C" char* treadle_peer_allocate(i64 bytes, char* words, i64 room) {
  return told<char*>(words, room, nullptr, [&] {
    void* found = nullptr;
    treadle::check(cudaMalloc(&found, std::size_t(bytes)), "memory of the GPU");
    treadle::check(cudaMemset(found, 0, std::size_t(bytes)), "memory of the GPU");
    return static_cast<char*>(found);
  });
}

extern "C" void treadle_peer_free(void* memory) { cudaFree(memory); }

extern "C" i64 treadle_peer_write(char* to, const char* from, i64 bytes, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    treadle::check(cudaMemcpy(to, from, std::size_t(bytes), cudaMemcpyHostToDevice), "copy to the GPU");
    return i64(0);
  });
}

extern "C" i64 treadle_peer_read(char* to, const char* from, i64 bytes, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    treadle::check(cudaMemcpy(to, from, std::size_t(bytes), cudaMemcpyDeviceToHost), "copy from the GPU");
    return i64(0);
  });
}

extern "C" i64 treadle_peer_zero(char* at, i64 bytes, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    treadle::check(cudaMemset(at, 0, std::size_t(bytes)), "memory of the GPU");
    treadle::check(cudaStreamSynchronize(nullptr), "memory of the GPU");
    return i64(0);
  });
}

extern "C" i64 treadle_peer_handle_bytes() { return i64(sizeof(cudaIpcMemHandle_t)); }

extern "C" i64 treadle_peer_export(void* memory, char* handle, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    cudaIpcMemHandle_t found;
    treadle::check(cudaIpcGetMemHandle(&found, memory), "a handle of memory for other processes");
    std::memcpy(handle, &found, sizeof(found));
    return i64(0);
  });
}

extern "C" char* treadle_peer_open(const char* handle, char* words, i64 room) {
  return told<char*>(words, room, nullptr, [&] {
    cudaIpcMemHandle_t given;
    std::memcpy(&given, handle, sizeof(given));
    void* found = nullptr;
    treadle::check(cudaIpcOpenMemHandle(&found, given, cudaIpcMemLazyEnablePeerAccess), "a peer's memory");
    return static_cast<char*>(found);
  });
}

extern "C" void treadle_peer_close(void* memory) { cudaIpcCloseMemHandle(memory); }

extern "C" i64 treadle_peer_device(i64 device, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    treadle::check(cudaSetDevice(int(device)), "the GPU");
    return i64(0);
  });
}

extern "C" void* treadle_rank_open(i64 rank, i64 n_ranks, const i64* blocks, i64 ll_at, i64 flags_at,
                                   char* words, i64 room) {
  return told<void*>(words, room, nullptr, [&] {
    return static_cast<void*>(treadle::open_rank(rank, n_ranks, blocks, ll_at, flags_at).release());
  });
}

extern "C" void treadle_rank_close(void* rank) { delete static_cast<treadle::Rank*>(rank); }

// Addresses on the GPU, as long as the rank is there.
extern "C" void* treadle_rank_table(void* rank, const i64* addresses, i64 count, char* words, i64 room) {
  return told<void*>(words, room, nullptr, [&] {
    const treadle::WhileCaptured allowed;
    treadle::Rank& own = *static_cast<treadle::Rank*>(rank);
    const void* found = nullptr;
    treadle::upload(own, own.memory, addresses, count * i64(sizeof(i64)), &found);
    treadle::check(cudaStreamSynchronize(own.copies), "copy to the GPU");
    return const_cast<void*>(found);
  });
}

extern "C" void* treadle_rank_prepare(void* rank, const treadle::Job* job, i64 program, i64 is_ll,
                                      i64 scratch_bytes, char* words, i64 room) {
  return told<void*>(words, room, nullptr, [&] {
    treadle::Rank& own = *static_cast<treadle::Rank*>(rank);
    return static_cast<void*>(treadle::prepare(own, *job, program, is_ll, scratch_bytes).release());
  });
}

extern "C" void treadle_rank_drop(void* tables) { delete static_cast<treadle::Tables*>(tables); }

extern "C" i64 treadle_rank_room(void* rank, i64 element, i64 is_ll, i64 threads, char* words, i64 room) {
  return told<i64>(words, room, -1, [&] {
    return treadle::found_room(*static_cast<treadle::Rank*>(rank), element, is_ll, int(threads));
  });
}

extern "C" i64 treadle_rank_launch(void* rank, void* tables, const treadle::Places* places, i64 element,
                                   i64 reduction, i64 threads, void* stream, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    const treadle::Tables& own = *static_cast<treadle::Tables*>(tables);
    const auto to = static_cast<cudaStream_t>(stream);
    treadle::launch(*static_cast<treadle::Rank*>(rank), own, *places, to,
                    [&](const treadle::Job& job, const treadle::Local& local) {
                      return treadle_lanes_launch(&job, &local, element, reduction, own.is_ll, int(threads), to,
                                                  nullptr);
                    });
    return i64(0);
  });
}

// Program, rank, lane, operation and flag of a wait that was given up; 0 where there is none so far.
extern "C" i64 treadle_rank_failed(void* rank, i64* where) {
  const treadle::Told* told = static_cast<treadle::Rank*>(rank)->told;
  if (!__atomic_load_n(&told->failure.is_set, __ATOMIC_ACQUIRE)) return 0;
  const i64 found[] = {told->program, told->failure.rank, told->failure.lane, told->failure.operation, told->failure.wait};
  std::memcpy(where, found, sizeof(found));
  return 1;
}
