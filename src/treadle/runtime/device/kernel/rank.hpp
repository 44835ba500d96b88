// The lanes of one rank in a launch of their own: its buffers come with the call, the number of the launch lies in
// its memory, so that a launch that is repeated (of a captured graph) counts on; the last block to end counts it.
#pragma once

#include "lane.hpp"
#include "local.hpp"

namespace treadle {

// Bytes that a block shares in such a launch: a row for each rank, and three addresses for each group.
inline std::size_t shared_bytes(const Job& job) {
  return std::size_t(job.n_ranks) * sizeof(Memory) + std::size_t(3 * job.n_groups) * sizeof(char*);
}

#ifdef __CUDACC__
// How many blocks of a kernel the GPU has room for at once.
inline cudaError_t count_room(const void* kernel, int threads, std::size_t shared, i64& room) {
  int device = 0, processors = 0, blocks = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (status == cudaSuccess) status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared);
  room = i64(processors) * blocks;
  return status;
}
#endif

// Entry `number` of a buffer's table, with the buffer's place in the block.
TREADLE_DEVICE char* reached(const Local& local, int buffer, i64 number) {
  if (buffer == 2 || !local.windows[buffer].table) return nullptr;
  char* begin = local.windows[buffer].table[number];
  return begin ? begin + local.windows[buffer].at : nullptr;
}

// `rows` is that memory.
template <class Element, class Combine, bool is_ll, class Network>
TREADLE_DEVICE void run_rank_lane(const Job& job, const Local& local, const Block& block, i64 lane, Memory* rows,
                                  Network network) {
  Job own = job;
  if (local.rank != NONE) {
    for (i64 rank = block.thread; rank < job.n_ranks; rank += block.threads) {
      rows[rank] = job.memory[rank];
      for (int buffer = 0; buffer < 3; ++buffer)
        rows[rank].buffers[buffer] = rank == local.rank ? local.buffers[buffer] : reached(local, buffer, rank);
    }
    char** multicast = reinterpret_cast<char**>(rows + job.n_ranks);
    for (i64 i = block.thread; i < 3 * job.n_groups; i += block.threads)
      multicast[i] = reached(local, int(i % 3), job.n_ranks + i / 3);
    own.memory = rows;
    own.multicast = multicast;
    own.launch = local.launches[0] + 1;
    own.signature = local.signature;
    block.sync();
  }
  // all ranks in one launch: staging is that of the protocol
  char* lines = local.rank != NONE ? local.lines : is_ll ? job.memory[job.lanes[lane].rank].staging : nullptr;
  run_lane<Element, Combine, is_ll>(own, block, lane, lines, network);
  if (local.rank == NONE) return;
  if (load_failed(&job.failure->is_set)) tell_peers(own, block, local.rank, network);
  block.sync();
  if (block.thread || count_one(local.launches + 1) + 1 < u64(job.n_lanes)) return;
  // all blocks have read the number by now, and all that they stored is to be seen
  local.launches[1] = 0;
  local.launches[0] = own.launch;
  if (!load_failed(&job.failure->is_set) || load_failed(&local.told->failure.is_set)) return;
  local.told->program = local.program;
  tell(*job.failure, local.told->failure);
}

}  // namespace treadle
