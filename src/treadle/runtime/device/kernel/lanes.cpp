// Lanes in one launch: a persistent kernel under nvcc, threads under a C++ compiler. Both run run_lane of lane.hpp.
#include "rank.hpp"

#ifdef __CUDACC__

namespace treadle {

template <class Element, class Combine, bool is_ll>
__global__ void __launch_bounds__(512, 1) lanes_kernel(const Job job, const Local local) {
  extern __shared__ Memory rows[];
  run_rank_lane<Element, Combine, is_ll>(job, local, Block{int(threadIdx.x), int(blockDim.x)}, blockIdx.x, rows,
                                        Mapped());
}

// A launch; or, where `room` is, only how many of its blocks can be on the GPU at once.
struct Launch {
  const Job* job;
  Local local;
  int threads;
  cudaStream_t stream;
  i64* room;
};

// A launch's blocks wait for each other and for other ranks': all must be resident, which a cooperative launch
// makes sure of or refuses.
template <class Element, class Combine, bool is_ll>
cudaError_t start(const Launch& launch) {
  void* kernel = reinterpret_cast<void*>(&lanes_kernel<Element, Combine, is_ll>);
  const std::size_t shared = launch.local.rank == NONE ? 0 : shared_bytes(*launch.job);
  if (launch.room) return count_room(kernel, launch.threads, shared, *launch.room);
  Job job = *launch.job;
  Local local = launch.local;
  void* arguments[] = {&job, &local};
  return cudaLaunchCooperativeKernel(kernel, dim3(unsigned(job.n_lanes)), dim3(unsigned(launch.threads)), arguments,
                                     shared, launch.stream);
}

template <class Element, class Combine>
cudaError_t start_protocol(bool is_ll, const Launch& launch) {
  return is_ll ? start<Element, Combine, true>(launch) : start<Element, Combine, false>(launch);
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
    Mapped mapped;
    run_lane<Element, Combine, is_ll>(job, block, lane, is_ll ? memory.staging : nullptr, mapped);
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

// One launch of one rank's lanes.
template <class Element, class Combine, bool is_ll>
i64 start_rank(const Job& job, const Local& local, int threads) {
  std::vector<Meeting> meetings(std::size_t(job.n_lanes));
  const std::size_t shared = (shared_bytes(job) + sizeof(Memory) - 1) / sizeof(Memory);
  std::vector<std::vector<Memory>> rows(std::size_t(job.n_lanes), std::vector<Memory>(shared));
  std::vector<std::thread> running;
  for (i64 lane = 0; lane < job.n_lanes; ++lane)
    for (int thread = 0; thread < threads; ++thread)
      running.emplace_back([&, lane, thread] {
        const Block block{thread, threads, &meetings[std::size_t(lane)]};
        run_rank_lane<Element, Combine, is_ll>(job, local, block, lane, rows[std::size_t(lane)].data(),
                                               Mapped());
      });
  for (std::thread& one : running) one.join();
  return 0;
}

template <class Element, class Combine>
i64 start_protocol(const Job& job, bool is_ll, const Local& local, int threads) {
  return is_ll ? start_rank<Element, Combine, true>(job, local, threads)
               : start_rank<Element, Combine, false>(job, local, threads);
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

extern "C" int treadle_lanes_launch(const treadle::Job* job, const treadle::Local* local, treadle::i64 element,
                                    treadle::i64 reduction, treadle::i64 is_ll, int threads, cudaStream_t stream,
                                    treadle::i64* room) {
  const treadle::Launch launch{job, *local, threads, stream, room};
  return int(treadle::start_kernel<cudaError_t>(element, reduction, cudaErrorInvalidValue, is_ll != 0, launch));
}

#else

extern "C" treadle::i64 treadle_lanes_emulate(const treadle::Job* job, treadle::i64 element, treadle::i64 reduction,
                                              treadle::i64 is_ll, const treadle::User* users,
                                              treadle::i64 launches, treadle::i64 threads) {
  return treadle::start_kernel<treadle::i64>(element, reduction, treadle::i64(2), *job, is_ll != 0, users, launches,
                                             int(threads));
}

// For memory with addresses that reach several ranks: a function that says which ranks' bytes such an address means.
extern "C" void treadle_lanes_switch(treadle::SwitchMembers members) { treadle::switch_members = members; }

extern "C" treadle::i64 treadle_vectors_moved() { return treadle::vectors_moved.load(); }

extern "C" treadle::i64 treadle_rank_emulate(const treadle::Job* job, const treadle::Local* local,
                                             treadle::i64 element, treadle::i64 reduction, treadle::i64 is_ll,
                                             treadle::i64 threads) {
  return treadle::start_kernel<treadle::i64>(element, reduction, treadle::i64(2), *job, is_ll != 0, *local,
                                             int(threads));
}

#endif
