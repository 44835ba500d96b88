// A launch of the fake GPU: the lanes as threads, where all of a launch's tables and memory lie on it.
#include "cuda_runtime.h"
#include "tables.hpp"
#include "user.hpp"

#include <vector>

using treadle::i64;

extern "C" i64 treadle_lanes_emulate(const treadle::Job* job, i64 element, i64 reduction, i64 is_ll,
                                     const treadle::User* users, i64 launches, i64 threads);

extern "C" int treadle_lanes_launch(const treadle::Job* job, i64 element, i64 reduction, i64 is_ll, i64 first_lane,
                                    i64 n_lanes, int threads, cudaStream_t) {
  const char* most = std::getenv("FAKE_CUDA_BLOCKS");
  if (most && n_lanes > std::atol(most)) return cudaErrorCooperativeLaunchTooLarge;
  if (first_lane || n_lanes != job->n_lanes) return cudaErrorInvalidValue;
  using fake_cuda::is_ours;
  bool all = is_ours(job->operations, std::size_t(job->n_operations) * sizeof(treadle::Operation)) &&
             is_ours(job->puts, std::size_t(job->n_puts) * sizeof(treadle::Put)) &&
             is_ours(job->waits, std::size_t(job->n_waits) * sizeof(treadle::Wait)) &&
             is_ours(job->raises, std::size_t(job->n_raises) * sizeof(treadle::Raise)) &&
             is_ours(job->lanes, std::size_t(job->n_lanes) * sizeof(treadle::Lane)) &&
             is_ours(job->memory, std::size_t(job->n_ranks) * sizeof(treadle::Memory)) &&
             is_ours(job->failure, sizeof(treadle::Failure));
  for (i64 rank = 0; all && rank < job->n_ranks; ++rank) {
    const treadle::Memory& row = job->memory[rank];
    all = is_ours(row.staging, 1) && is_ours(row.flags, 8);
    for (const char* buffer : row.buffers) all = all && is_ours(buffer, 1);
  }
  if (!all) return cudaErrorInvalidValue;
  const std::vector<treadle::User> nobody(std::size_t(job->n_ranks), treadle::User{});
  return treadle_lanes_emulate(job, element, reduction, is_ll, nobody.data(), 1, threads) ? cudaErrorInvalidValue
                                                                                          : cudaSuccess;
}

extern "C" i64 fake_cuda_live() { return i64(fake_cuda::live().size()); }
