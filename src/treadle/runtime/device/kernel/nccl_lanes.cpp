// Lanes over NCCL's windows: memory of the box by load, store and multimem, other hosts by GIN put and signal.
// Compiled against the headers of NCCL 2.29 or later where they are (`make gpu`); never run.
#include "network.hpp"
#include "rank.hpp"

namespace treadle {

// Ranks of other hosts, whose memory has no address here: a slice is left in an outbox of this rank's own window and
// put from there. A signal with an address adds to the flag there once all puts before it of the same context, to the
// same peer, have settled: a lane keeps to one context.
struct Gin {
  static constexpr bool sends = true;
  const Network& own;

  // Made anew at each use, so that a lane keeps no registers for it.
  TREADLE_DEVICE ncclGin gin() const { return ncclGin(own.comm, int(blockIdx.x % own.comm.ginContextCount)); }

  TREADLE_DEVICE size_t outbox_at(i64 slot) const {
    return size_t(own.outbox.at + (i64(blockIdx.x) * MOST_PUTS + slot) * own.slot_bytes);
  }

  TREADLE_DEVICE char* outbox(i64 slot) const {
    return static_cast<char*>(ncclGetLocalPointer(own.outbox.window, outbox_at(slot)));
  }

  TREADLE_DEVICE void put(i64 rank, i64 buffer, i64 at, i64 slot, i64 bytes) {
    if (bytes == 0) return;
    const WindowPlace& to = own.buffers[buffer];
    gin().put(ncclTeamWorld(own.comm), int(rank), to.window, size_t(to.at + at), own.outbox.window, outbox_at(slot),
              size_t(bytes));
  }

  TREADLE_DEVICE size_t flag_at(i64 flag) const { return size_t(own.flags.at + flag * i64(sizeof(u64))); }

  TREADLE_DEVICE void raise(const Raise& raise, i64 row, u64 value) {
    const u64 more = own.signals.step(raise, row, own.comm.nRanks, value);
    gin().signal(ncclTeamWorld(own.comm), int(raise.rank),
                 ncclGin_StrongVASignalAdd{own.flags.window, flag_at(raise.flag), more});
  }

  TREADLE_DEVICE void sign(i64 rank, i64 flag, u64 signature) {
    gin().putValue(ncclTeamWorld(own.comm), int(rank), own.flags.window, flag_at(flag), signature);
  }

  TREADLE_DEVICE void finish() { gin().flush(ncclCoopThread()); }
};

template <class Element, class Combine>
__global__ void __launch_bounds__(256, 1)
    nccl_lanes_kernel(const __grid_constant__ Job job, const __grid_constant__ Local local,
                      const __grid_constant__ Network network) {
  extern __shared__ Memory rows[];
  run_rank_lane<Element, Combine, false>(job, local, Block{int(threadIdx.x), int(blockDim.x)}, blockIdx.x, rows,
                                         Gin{network});
}

static_assert(sizeof(Job) + sizeof(Local) + sizeof(Network) <= 4096, "arguments of a kernel");

struct NetworkLaunch {
  const Job* job;
  const Local* local;
  const Network* network;
  int threads;
  cudaStream_t stream;
  i64* room;
};

template <class Element, class Combine>
cudaError_t start(const NetworkLaunch& launch) {
  void* kernel = reinterpret_cast<void*>(&nccl_lanes_kernel<Element, Combine>);
  const std::size_t shared = shared_bytes(*launch.job);
  if (launch.room) return count_room(kernel, launch.threads, shared, *launch.room);
  Job job = *launch.job;
  Local local = *launch.local;
  Network network = *launch.network;
  void* arguments[] = {&job, &local, &network};
  return cudaLaunchCooperativeKernel(kernel, dim3(unsigned(job.n_lanes)), dim3(unsigned(launch.threads)), arguments,
                                     shared, launch.stream);
}

}  // namespace treadle

// As treadle_lanes_launch, of protocol Simple and at most 256 threads a block.
extern "C" int treadle_nccl_lanes_launch(const treadle::Job* job, const treadle::Local* local,
                                         const treadle::Network* network, treadle::i64 element, treadle::i64 reduction,
                                         int threads, cudaStream_t stream, treadle::i64* room) {
  using namespace treadle;
  const NetworkLaunch launch{job, local, network, threads, stream, room};
#define TREADLE_REDUCTIONS(Element)                      \
  switch (reduction) {                                   \
    case 0: return int(start<Element, Sum>(launch));     \
    case 1: return int(start<Element, Least>(launch));   \
    case 2: return int(start<Element, Most>(launch));    \
    default: return int(cudaErrorInvalidValue);          \
  }
  switch (element) {
    case 0: TREADLE_REDUCTIONS(float)
    case 1: TREADLE_REDUCTIONS(Half)
    case 2: TREADLE_REDUCTIONS(Brain)
    case 3: TREADLE_REDUCTIONS(std::int32_t)
    case 4: TREADLE_REDUCTIONS(i64)
    case 5: return int(start<std::uint8_t, Most>(launch));  // bytes: copied only
    default: return int(cudaErrorInvalidValue);
  }
#undef TREADLE_REDUCTIONS
}
