// A rank's side of lanes over NCCL's windows for Python: communicator, windows, device communicator, launches.
// Compiled against the headers of NCCL 2.29 or later where they are (`make gpu`); never run.
#include "network.hpp"
#include "rank_host.hpp"

#include <map>

extern "C" int treadle_nccl_lanes_launch(const treadle::Job* job, const treadle::Local* local,
                                         const treadle::Network* network, treadle::i64 element, treadle::i64 reduction,
                                         int threads, cudaStream_t stream, treadle::i64* room);

namespace treadle {

inline void check_nccl(ncclResult_t status, const char* doing) {
  if (status != ncclSuccess) throw std::runtime_error(std::string(doing) + ": " + ncclGetErrorString(status));
}

constexpr u64 ENTERED_BEFORE = ALL_SLICES;  // of launch 0, as flags are before the first launch

// All that a rank has of NCCL; given back in the order that NCCL asks for.
struct Communicator {
  ncclComm_t comm = nullptr;
  ncclDevComm device{};
  bool has_device = false;
  std::vector<ncclWindow_t> windows;
  std::vector<void*> owned;
  Network network{};
  DeviceMemory memory;
  std::map<i64, u64*> raised;  // of each program

  ~Communicator() {
    if (has_device) ncclDevCommDestroy(comm, &device);
    for (ncclWindow_t one : windows) ncclCommWindowDeregister(comm, one);
    for (void* one : owned) ncclMemFree(one);
    if (comm) ncclCommDestroy(comm);
  }
};

inline ncclCommProperties_t properties_of(const Communicator& own) {
  ncclCommProperties_t found = NCCL_COMM_PROPERTIES_INITIALIZER;
  check_nccl(ncclCommQueryProperties(own.comm, &found), "ncclCommQueryProperties");
  return found;
}

inline void join(Communicator& own, const char* id, i64 rank, i64 n_ranks) {
  ncclUniqueId given;
  std::memcpy(&given, id, sizeof(given));
  check_nccl(ncclCommInitRank(&own.comm, int(n_ranks), given, int(rank)), "ncclCommInitRank");
  const ncclCommProperties_t found = properties_of(own);
  if (!found.deviceApiSupport) throw std::runtime_error("this communicator of NCCL's has no device API");
  if (found.nLsaTeams > 1 && found.ginConnectionType != NCCL_GIN_CONNECTION_FULL)
    throw std::runtime_error("NCCL has no network (GIN) that connects all ranks with all");
}

// Memory of zeros in a window, the same size at all ranks; its address here.
inline char* add_window(Communicator& own, i64 bytes) {
  void* found = nullptr;
  check_nccl(ncclMemAlloc(&found, std::size_t(bytes)), "ncclMemAlloc");
  own.owned.push_back(found);
  check(cudaMemset(found, 0, std::size_t(bytes)), "memory of the GPU");
  check(cudaDeviceSynchronize(), "memory of the GPU");
  ncclWindow_t window = nullptr;
  check_nccl(ncclCommWindowRegister(own.comm, found, std::size_t(bytes), &window, NCCL_WIN_COLL_SYMMETRIC),
             "ncclCommWindowRegister");
  own.windows.push_back(window);
  return static_cast<char*>(found);
}

// Addresses of the newest window at all ranks, 0 where only the network reaches it, and one that reaches all of the box.
inline void find_addresses(const Communicator& own, i64* addresses, i64* multicast) {
  const ncclWindow_t window = own.windows.back();
  const ncclTeam_t world = ncclTeamWorld(own.comm), box = ncclTeamLsa(own.comm);
  for (int rank = 0; rank < world.nRanks; ++rank) {
    void* found = nullptr;
    if (ncclTeamRankIsMember(box, world, rank))
      check_nccl(ncclGetLsaDevicePointer(window, 0, ncclTeamRankToTeam(box, world, rank), &found),
                 "ncclGetLsaDevicePointer");
    addresses[rank] = i64(reinterpret_cast<std::intptr_t>(found));
  }
  void* all = nullptr;
  if (properties_of(own).multimemSupport)
    check_nccl(ncclGetLsaMultimemDevicePointer(window, 0, &all), "ncclGetLsaMultimemDevicePointer");
  *multicast = i64(reinterpret_cast<std::intptr_t>(all));
}

// The device communicator, once the first window (staging and flags) and the second (the outbox) are there.
inline void connect(Communicator& own, i64 n_ranks, i64 flags_at) {
  const ncclCommProperties_t found = properties_of(own);
  ncclDevCommRequirements_t wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  wanted.lsaMultimem = found.multimemSupport;
  if (found.nLsaTeams > 1) wanted.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
  check_nccl(ncclDevCommCreate(own.comm, &wanted, &own.device), "ncclDevCommCreate");
  own.has_device = true;
  own.network.comm = own.device;
  own.network.buffers[STAGING] = WindowPlace{own.windows[0], 0};
  own.network.flags = WindowPlace{own.windows[0], flags_at};
  own.network.outbox = WindowPlace{own.windows[1], 0};
  const std::vector<u64> entered(std::size_t(n_ranks), ENTERED_BEFORE);
  own.network.signals.entered = own.memory.copied(entered.data(), n_ranks);
}

// Where a launch's INPUT and OUTPUT lie, as Python writes it: numbers of windows, -1 for none, and bytes from their start.
struct WindowNumbers {
  i64 windows[2], at[2];
  i64 outbox_bytes;
};

inline Network network_of(Communicator& own, const Tables& tables, const WindowNumbers& numbers) {
  Network found = own.network;
  for (int buffer = 0; buffer < 2; ++buffer)
    if (numbers.windows[buffer] >= 0)
      found.buffers[buffer] = WindowPlace{own.windows.at(std::size_t(numbers.windows[buffer])), numbers.at[buffer]};
  found.slot_bytes = numbers.outbox_bytes / (tables.job.n_lanes * MOST_PUTS) / 256 * 256;
  u64*& raised = own.raised[tables.program];
  if (!raised) {
    const WhileCaptured allowed;
    const std::vector<u64> none(std::size_t(tables.job.n_raises), 0);
    raised = own.memory.copied(none.data(), tables.job.n_raises);
  }
  found.signals.raised = raised;
  return found;
}

}  // namespace treadle

using treadle::Communicator;
using treadle::i64;
using treadle::told;

extern "C" i64 treadle_nccl_id_bytes() { return i64(sizeof(ncclUniqueId)); }

extern "C" i64 treadle_nccl_id(char* id, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    ncclUniqueId found;
    treadle::check_nccl(ncclGetUniqueId(&found), "ncclGetUniqueId");
    std::memcpy(id, &found, sizeof(found));
    return i64(0);
  });
}

extern "C" void* treadle_nccl_open(const char* id, i64 rank, i64 n_ranks, char* words, i64 room) {
  return told<void*>(words, room, nullptr, [&] {
    auto made = std::make_unique<Communicator>();
    treadle::join(*made, id, rank, n_ranks);
    return static_cast<void*>(made.release());
  });
}

extern "C" void treadle_nccl_close(void* comm) { delete static_cast<Communicator*>(comm); }

extern "C" char* treadle_nccl_window(void* comm, i64 bytes, char* words, i64 room) {
  return told<char*>(words, room, nullptr, [&] { return treadle::add_window(*static_cast<Communicator*>(comm), bytes); });
}

extern "C" i64 treadle_nccl_addresses(void* comm, i64* addresses, i64* multicast, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    treadle::find_addresses(*static_cast<Communicator*>(comm), addresses, multicast);
    return i64(0);
  });
}

extern "C" i64 treadle_nccl_connect(void* comm, i64 n_ranks, i64 flags_at, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    treadle::connect(*static_cast<Communicator*>(comm), n_ranks, flags_at);
    return i64(0);
  });
}

extern "C" i64 treadle_nccl_room(i64 n_ranks, i64 element, i64 threads, char* words, i64 room) {
  return told<i64>(words, room, -1, [&] {
    treadle::Job job{};
    job.n_ranks = n_ranks;
    const treadle::Local local{};
    const treadle::Network network{};
    i64 found = 0;
    treadle::check(cudaError_t(treadle_nccl_lanes_launch(&job, &local, &network, element, element == 5 ? 2 : 0,
                                                         int(threads), nullptr, &found)),
                   "the blocks that a GPU has room for");
    return found;
  });
}

// As treadle_rank_launch, with what the network needs.
extern "C" i64 treadle_nccl_launch(void* comm, void* rank, void* tables, const treadle::Places* places,
                                   const treadle::WindowNumbers* numbers, i64 element, i64 reduction, i64 threads,
                                   void* stream, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    const treadle::Tables& own = *static_cast<treadle::Tables*>(tables);
    const treadle::Network network = treadle::network_of(*static_cast<Communicator*>(comm), own, *numbers);
    const auto to = static_cast<cudaStream_t>(stream);
    treadle::launch(*static_cast<treadle::Rank*>(rank), own, *places, to,
                    [&](const treadle::Job& job, const treadle::Local& local) {
                      return treadle_nccl_lanes_launch(&job, &local, &network, element, reduction, int(threads), to,
                                                       nullptr);
                    });
    return i64(0);
  });
}
