// Lanes over NCCL's windows: memory of the box by load, store and multimem, other hosts by GIN put and signal.
// Compiled against the headers of NCCL 2.28.7 or later where they are (`make gpu`); never run.
#include <nccl.h>
#include <nccl_device.h>

#include "lane.hpp"

namespace treadle {

// Where the lanes' memory lies in windows, at the same place at every rank; `buffers` in the order of Memory, then
// staging. `raised` has for each row of Job::raises the last value that was told.
struct Windows {
  ncclWindow_t buffers[4];
  i64 at[4];
  ncclWindow_t flags;
  i64 flags_at;
  ncclWindow_t outbox;
  i64 outbox_at, slot_bytes;
  u64* raised;
};

// Ranks of other hosts: a slice is left in an outbox of this rank's own window and put from there. A signal with
// an address adds to the flag there once all puts before it have settled.
struct Gin {
  static constexpr bool sends = true;
  const ncclDevComm& comm;
  const Windows& windows;

  // Made anew at each use, so that a lane keeps no registers for it.
  TREADLE_DEVICE ncclGin gin() const { return ncclGin(comm, 0); }

  TREADLE_DEVICE size_t outbox_at(i64 slot) const {
    return size_t(windows.outbox_at + (i64(blockIdx.x) * MOST_PUTS + slot) * windows.slot_bytes);
  }

  TREADLE_DEVICE char* outbox(i64 slot) const {
    return static_cast<char*>(ncclGetLocalPointer(windows.outbox, outbox_at(slot)));
  }

  TREADLE_DEVICE void put(i64 rank, i64 buffer, i64 at, i64 slot, i64 bytes) {
    if (bytes == 0) return;
    gin().put(ncclTeamWorld(comm), int(rank), windows.buffers[buffer], size_t(windows.at[buffer] + at), windows.outbox,
              outbox_at(slot), size_t(bytes));
  }

  TREADLE_DEVICE void raise(const Raise& raise, i64 row, u64 value) {
    const size_t at = size_t(windows.flags_at + raise.flag * i64(sizeof(u64)));
    gin().signal(ncclTeamWorld(comm), int(raise.rank),
               ncclGin_StrongVASignalAdd{windows.flags, at, value - windows.raised[row]});
    windows.raised[row] = value;
  }

  TREADLE_DEVICE void finish() { gin().flush(ncclCoopThread()); }
};

// Rows of Job::memory, and of Job::multicast for one group: the ranks of this box; a thread for each rank.
__global__ void find_memory(const ncclDevComm comm, const Windows windows, Memory* rows, char** multicast) {
  const ncclTeam world = ncclTeamWorld(comm), box = ncclTeamLsa(comm);
  const int rank = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (rank >= world.nRanks) return;
  Memory row{};
  if (ncclTeamRankIsMember(box, world, rank)) {
    const int peer = ncclTeamRankToLsa(comm, world, rank);
    for (int buffer = 0; buffer < 3; ++buffer)
      row.buffers[buffer] =
          static_cast<char*>(ncclGetLsaPointer(windows.buffers[buffer], size_t(windows.at[buffer]), peer));
    row.staging = static_cast<char*>(ncclGetLsaPointer(windows.buffers[3], size_t(windows.at[3]), peer));
    row.flags = static_cast<u64*>(ncclGetLsaPointer(windows.flags, size_t(windows.flags_at), peer));
  }
  rows[rank] = row;
  if (rank == 0 && multicast)
    for (int buffer = 0; buffer < 3; ++buffer)
      multicast[buffer] = static_cast<char*>(
          ncclGetLsaMultimemPointer(windows.buffers[buffer], size_t(windows.at[buffer]), comm));
}

template <class Element, class Combine>
__global__ void __launch_bounds__(256, 1)
    nccl_lanes_kernel(const Job job, i64 first_lane, const ncclDevComm comm, const Windows windows) {
  run_lane<Element, Combine, false>(job, Block{int(threadIdx.x), int(blockDim.x)}, first_lane + blockIdx.x,
                                    Gin{comm, windows});
}

#define TREADLE_REDUCTIONS(Element)                                                                      \
  template __global__ void nccl_lanes_kernel<Element, Sum>(Job, i64, ncclDevComm, Windows);               \
  template __global__ void nccl_lanes_kernel<Element, Least>(Job, i64, ncclDevComm, Windows);             \
  template __global__ void nccl_lanes_kernel<Element, Most>(Job, i64, ncclDevComm, Windows);
TREADLE_REDUCTIONS(float)
TREADLE_REDUCTIONS(Half)
TREADLE_REDUCTIONS(Brain)
TREADLE_REDUCTIONS(std::int32_t)
TREADLE_REDUCTIONS(i64)
#undef TREADLE_REDUCTIONS

}  // namespace treadle
