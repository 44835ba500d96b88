// Lanes in one launch: a persistent kernel under nvcc, threads under a C++ compiler. Both run run_lane of lane.hpp.
#include "lane.hpp"

#ifdef __CUDACC__

namespace treadle {

template <class Element, class Combine, bool is_ll>
__global__ void __launch_bounds__(512, 1) lanes_kernel(const Job job, i64 first_lane) {
  run_lane<Element, Combine, is_ll>(job, Block{int(threadIdx.x), int(blockDim.x)}, first_lane + blockIdx.x,
                                    Mapped());
}

// A launch's blocks wait for each other and for other ranks': all must be resident, which a cooperative launch
// makes sure of or refuses.
template <class Element, class Combine, bool is_ll>
cudaError_t start(Job job, i64 first_lane, i64 n_lanes, int threads, cudaStream_t stream) {
  void* arguments[] = {&job, &first_lane};
  return cudaLaunchCooperativeKernel(reinterpret_cast<void*>(&lanes_kernel<Element, Combine, is_ll>),
                                     dim3(unsigned(n_lanes)), dim3(unsigned(threads)), arguments, 0, stream);
}

template <class Element, class Combine>
cudaError_t start_protocol(const Job& job, bool is_ll, i64 first_lane, i64 n_lanes, int threads, cudaStream_t stream) {
  return is_ll ? start<Element, Combine, true>(job, first_lane, n_lanes, threads, stream)
               : start<Element, Combine, false>(job, first_lane, n_lanes, threads, stream);
}

#else

#include <atomic>
#include <cstring>
#include <system_error>
#include <vector>

#include "user.hpp"

namespace treadle {

inline void fill(const User& user, const Memory& memory, i64 launch) {
  if (!user.is_in_place || user.output_bytes > user.input_bytes)
    std::memset(memory.buffers[1], 0xFF, std::size_t(user.output_bytes));
  std::memset(memory.buffers[2], 0xFF, std::size_t(user.scratch_bytes));
  if (user.input_bytes) std::memcpy(memory.buffers[0], user.inputs[launch], std::size_t(user.input_bytes));
}

inline void keep(const User& user, const Memory& memory, i64 launch) {
  if (user.output_bytes) std::memcpy(user.outputs[launch], memory.buffers[1], std::size_t(user.output_bytes));
}

// How the threads of a rank's lanes meet for it.
struct RankThreads {
  Meeting meeting;
  int threads = 0;
};

// All launches at one thread of a lane: ranks go from launch to launch by themselves, as streams do.
template <class Element, class Combine, bool is_ll>
void run_thread(Job job, const User& user, RankThreads& together, Block block, i64 lane, i64 launches, bool is_first) {
  const Memory& memory = job.memory[job.lanes[lane].rank];
  for (i64 launch = 0; launch < launches; ++launch, ++job.launch) {
    if (is_first) fill(user, memory, launch);
    meet(together.meeting, together.threads);
    run_lane<Element, Combine, is_ll>(job, block, lane, Mapped());
    meet(together.meeting, together.threads);
    if (is_first) keep(user, memory, launch);
  }
}

template <class Element, class Combine, bool is_ll>
i64 start(const Job& job, const User* users, i64 launches, int threads) {
  std::vector<RankThreads> together(std::size_t(job.n_ranks));
  std::vector<Meeting> meetings(std::size_t(job.n_lanes));
  std::vector<bool> has_first(std::size_t(job.n_ranks), false);
  for (i64 lane = 0; lane < job.n_lanes; ++lane) together[std::size_t(job.lanes[lane].rank)].threads += threads;
  // a thread that cannot start would leave the others waiting; they begin when all are there
  std::atomic<int> go{0};
  std::vector<std::thread> running;
  running.reserve(std::size_t(job.n_lanes) * std::size_t(threads));
  bool is_complete = true;
  for (i64 lane = 0; lane < job.n_lanes && is_complete; ++lane) {
    const std::size_t rank = std::size_t(job.lanes[lane].rank);
    for (int thread = 0; thread < threads && is_complete; ++thread) {
      const bool is_first = !has_first[rank];
      has_first[rank] = true;
      const Block block{thread, threads, &meetings[std::size_t(lane)]};
      try {
        running.emplace_back([&, rank, block, lane, is_first] {
          for (int tries = 0; go.load(std::memory_order_acquire) == 0; ++tries) rest(tries);
          if (go.load(std::memory_order_acquire) > 0)
            run_thread<Element, Combine, is_ll>(job, users[rank], together[rank], block, lane, launches, is_first);
        });
      } catch (const std::system_error&) {
        is_complete = false;
      }
    }
  }
  go.store(is_complete ? 1 : -1, std::memory_order_release);
  for (std::thread& one : running) one.join();
  return is_complete ? 0 : 1;
}

template <class Element, class Combine>
i64 start_protocol(const Job& job, bool is_ll, const User* users, i64 launches, int threads) {
  return is_ll ? start<Element, Combine, true>(job, users, launches, threads)
               : start<Element, Combine, false>(job, users, launches, threads);
}

#endif

// The kernel of an element type and a reduction; what no kernel is for is `refused`.
template <class Result, class... Rest>
Result start_kernel(i64 element, i64 reduction, Result refused, Rest... rest) {
#define TREADLE_REDUCTIONS(Element)                                             \
  switch (reduction) {                                                          \
    case 0: return start_protocol<Element, Sum>(rest...);                       \
    case 1: return start_protocol<Element, Least>(rest...);                     \
    case 2: return start_protocol<Element, Most>(rest...);                      \
    default: return refused;                                                    \
  }
  switch (element) {
    case 0: TREADLE_REDUCTIONS(float)
    case 1: TREADLE_REDUCTIONS(Half)
    case 2: TREADLE_REDUCTIONS(Brain)
    case 3: TREADLE_REDUCTIONS(std::int32_t)
    case 4: TREADLE_REDUCTIONS(i64)
    case 5: return start_protocol<std::uint8_t, Most>(rest...);  // bytes: copied only
    default: return refused;
  }
#undef TREADLE_REDUCTIONS
}

}  // namespace treadle

#ifdef __CUDACC__

extern "C" int treadle_lanes_launch(const treadle::Job* job, treadle::i64 element, treadle::i64 reduction,
                                    treadle::i64 is_ll, treadle::i64 first_lane, treadle::i64 n_lanes, int threads,
                                    cudaStream_t stream) {
  return int(treadle::start_kernel<cudaError_t>(element, reduction, cudaErrorInvalidValue, *job, is_ll != 0,
                                                first_lane, n_lanes, threads, stream));
}

#else

extern "C" treadle::i64 treadle_lanes_emulate(const treadle::Job* job, treadle::i64 element, treadle::i64 reduction,
                                              treadle::i64 is_ll, const treadle::User* users,
                                              treadle::i64 launches, treadle::i64 threads) {
  return treadle::start_kernel<treadle::i64>(element, reduction, treadle::i64(2), *job, is_ll != 0, users, launches,
                                             int(threads));
}

#endif
