// A launch of the fake GPU: the lanes as threads, where all of a launch's tables and memory lie on it.
#include "cuda.h"
#include "local.hpp"
#include "user.hpp"
#ifdef FAKE_NETWORK
#include "fake_network.hpp"
#endif

#include <vector>

using treadle::i64;

extern "C" i64 treadle_lanes_emulate(const treadle::Job* job, i64 element, i64 reduction, i64 is_ll,
                                     const treadle::User* users, i64 launches, i64 threads);
extern "C" i64 treadle_rank_emulate(const treadle::Job* job, const treadle::Local* local, i64 element, i64 reduction,
                                    i64 is_ll, i64 threads);

// Threads ask the fake GPU what an address of a multicast object means.
extern "C" void treadle_lanes_switch(i64 (*members)(const char* all, char** members));
static const bool has_switch = [] { return treadle_lanes_switch(&fake_cuda::members), true; }();

static bool has_tables(const treadle::Job& job) {
  using fake_cuda::is_ours;
  return has_switch && is_ours(job.operations, std::size_t(job.n_operations) * sizeof(treadle::Operation)) &&
         is_ours(job.puts, std::size_t(job.n_puts) * sizeof(treadle::Put)) &&
         is_ours(job.waits, std::size_t(job.n_waits) * sizeof(treadle::Wait)) &&
         is_ours(job.raises, std::size_t(job.n_raises) * sizeof(treadle::Raise)) &&
         is_ours(job.lanes, std::size_t(job.n_lanes) * sizeof(treadle::Lane)) &&
         is_ours(job.groups, std::size_t(job.n_groups) * sizeof(treadle::Group)) &&
         is_ours(job.members, std::size_t(job.n_members) * sizeof(i64)) &&
         is_ours(job.memory, std::size_t(job.n_ranks) * sizeof(treadle::Memory)) &&
         is_ours(job.failure, sizeof(treadle::Failure));
}

static int launch_all(const treadle::Job& job, i64 element, i64 reduction, i64 is_ll, int threads) {
  using fake_cuda::is_ours;
  bool all = true;
  for (i64 rank = 0; all && rank < job.n_ranks; ++rank) {
    const treadle::Memory& row = job.memory[rank];
    all = is_ours(row.staging, 1) && is_ours(row.flags, 8);
    for (const char* buffer : row.buffers) all = all && is_ours(buffer, 1);
  }
  if (!all) return cudaErrorInvalidValue;
  const std::vector<treadle::User> nobody(std::size_t(job.n_ranks), treadle::User{});
  return treadle_lanes_emulate(&job, element, reduction, is_ll, nobody.data(), 1, threads) ? cudaErrorInvalidValue
                                                                                           : cudaSuccess;
}

// A rank's buffers may be the host's where tensors in its memory stand for tensors of a GPU.
static int launch_rank(const treadle::Job& job, const treadle::Local& local, i64 element, i64 reduction, i64 is_ll,
                       int threads) {
  bool all = fake_cuda::is_ours(local.launches, 16) && fake_cuda::is_in(fake_cuda::world().pinned, local.told, 1);
  for (i64 rank = 0; all && rank < job.n_ranks; ++rank)
    all = fake_cuda::is_ours(job.memory[rank].staging, 1) && fake_cuda::is_ours(job.memory[rank].flags, 8);
  for (const treadle::Window& window : local.windows) {
    if (!window.table) continue;
    all = all && fake_cuda::is_ours(window.table, std::size_t(job.n_ranks + job.n_groups) * sizeof(char*));
    for (i64 rank = 0; all && rank < job.n_ranks; ++rank) all = fake_cuda::is_ours(window.table[rank] + window.at, 0);
  }
  if (!std::getenv("FAKE_CUDA_ANY_MEMORY"))
    for (const char* buffer : local.buffers) all = all && (!buffer || fake_cuda::is_ours(buffer, 1));
  if (!all) return cudaErrorInvalidValue;
#ifdef FAKE_NETWORK
  if (const char* box = std::getenv("FAKE_CUDA_BOX")) {
    if (element || reduction || is_ll) return cudaErrorInvalidValue;
    return fake_network::launch(job, local, threads, std::atol(box));
  }
#endif
  return treadle_rank_emulate(&job, &local, element, reduction, is_ll, threads) ? cudaErrorInvalidValue : cudaSuccess;
}

extern "C" int treadle_lanes_launch(const treadle::Job* job, const treadle::Local* local, i64 element, i64 reduction,
                                    i64 is_ll, int threads, cudaStream_t, i64* room) {
  const char* most = std::getenv("FAKE_CUDA_BLOCKS");
  const i64 blocks = most ? std::atol(most) : 4096;
  if (room) return *room = blocks, cudaSuccess;
  if (job->n_lanes > blocks) return cudaErrorCooperativeLaunchTooLarge;
  if (!has_tables(*job)) return cudaErrorInvalidValue;
  if (local->rank == treadle::NONE) return launch_all(*job, element, reduction, is_ll, threads);
  const auto run = [job = *job, local = *local, element, reduction, is_ll, threads] {
    return launch_rank(job, local, element, reduction, is_ll, threads);
  };
  if (!fake_cuda::world().is_capturing) return run();
  fake_cuda::world().captured.push_back(run);  // with its arguments of now
  return cudaSuccess;
}

// What torch.cuda.graph does: launches of what follows are kept, not done.
extern "C" void fake_cuda_capture() {
  fake_cuda::world().captured.clear();
  fake_cuda::world().is_capturing = true;
}
extern "C" void fake_cuda_end_capture() { fake_cuda::world().is_capturing = false; }
extern "C" int fake_cuda_replay() {
  for (const auto& one : fake_cuda::world().captured)
    if (const int status = one()) return status;
  return cudaSuccess;
}

extern "C" i64 fake_cuda_live() {
  return i64(fake_cuda::world().live.size() + fake_cuda::world().pinned.size());
}
