// As much of CUDA's driver as memory by descriptors and multicast need: memory is a file in memory, a multicast object a
// file with the list of what is bound to it, so that both go from process to process by descriptors.
#pragma once

#include "cuda_runtime.h"

#include <cstdint>
#include <string>

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_INVALID_DEVICE = 101, CUDA_ERROR_ILLEGAL_STATE = 401 };
enum CUdevice_attribute { CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132 };
enum CUmemAllocationType { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemAllocationHandleType { CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1 };
enum CUmemLocationType { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum CUmemAccess_flags { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum CUmemAllocationGranularity_flags { CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1 };
enum CUmulticastGranularity_flags { CU_MULTICAST_GRANULARITY_RECOMMENDED = 1 };
struct CUmemLocation {
  CUmemLocationType type;
  int id;
};
struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};
struct CUmulticastObjectProp {
  unsigned numDevices;
  std::size_t size;
  unsigned long long handleTypes;
  unsigned long long flags;
};

namespace fake_cuda {

constexpr std::size_t PAGE = 65536, SWITCH_PAGE = 2 * PAGE;

struct Bound {
  int device, is_there;
  char path[64];
};

// What a multicast object's file holds.
struct Switch {
  unsigned n_devices;
  std::size_t size;
  int lock, n_added, added[64];
  Bound bound[64];
};

struct Object {
  int file = -1, device = 0;
  std::size_t size = 0;
  Switch* multicast = nullptr;
  std::map<int, char*> members;  // of a multicast object: memory of devices, mapped where it is used

  ~Object() {
    for (auto& [number, at] : members) munmap(at, size);
    if (multicast) munmap(multicast, sizeof(Switch));
    if (file >= 0) close(file);
  }
};

class Held {
 public:
  explicit Held(Switch& one) : one_(one) {
    while (__atomic_exchange_n(&one_.lock, 1, __ATOMIC_ACQUIRE)) usleep(10);
  }
  ~Held() { __atomic_store_n(&one_.lock, 0, __ATOMIC_RELEASE); }

 private:
  Switch& one_;
};

inline Object* object(CUmemGenericAllocationHandle handle) { return reinterpret_cast<Object*>(handle); }
inline bool is_on_page(std::size_t bytes, bool is_switch) { return bytes && bytes % (is_switch ? SWITCH_PAGE : PAGE) == 0; }

inline CUresult error_string(CUresult status, const char** words) {
  *words = status == CUDA_ERROR_ILLEGAL_STATE ? "illegal state" : cudaGetErrorString(status);
  return CUDA_SUCCESS;
}

inline CUresult attribute(int* found, CUdevice_attribute, CUdevice) {
  return *found = !std::getenv("FAKE_CUDA_NO_MULTICAST"), CUDA_SUCCESS;
}

inline CUresult granularity(std::size_t* found, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  return *found = PAGE, CUDA_SUCCESS;
}

inline CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* kind,
                       unsigned long long) {
  if (!is_on_page(bytes, false) || kind->location.id >= devices()) return CUDA_ERROR_INVALID_VALUE;
  auto* made = new Object;
  made->file = memfd_create("fake-memory", 0);
  made->size = bytes;
  made->device = kind->location.id;
  if (ftruncate(made->file, off_t(bytes))) return CUDA_ERROR_INVALID_VALUE;
  return *handle = CUmemGenericAllocationHandle(made), CUDA_SUCCESS;
}

inline CUresult release(CUmemGenericAllocationHandle handle) { return delete object(handle), CUDA_SUCCESS; }

inline CUresult export_handle(void* to, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                              unsigned long long) {
  const int made = dup(object(handle)->file);
  std::memcpy(to, &made, sizeof(made));
  return made < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

inline Switch* switch_in(int file) {
  void* found = mmap(nullptr, sizeof(Switch), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return found == MAP_FAILED ? nullptr : static_cast<Switch*>(found);
}

inline CUresult import_handle(CUmemGenericAllocationHandle* handle, void* given, CUmemAllocationHandleType) {
  const int file = dup(int(std::intptr_t(given)));
  char path[64], name[64] = {};
  std::snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  if (file < 0 || readlink(path, name, sizeof(name) - 1) < 0) return CUDA_ERROR_INVALID_VALUE;
  auto* made = new Object;
  made->file = file;
  made->size = std::size_t(lseek(file, 0, SEEK_END));
  if (std::strstr(name, "fake-switch")) {
    made->multicast = switch_in(file);
    made->size = made->multicast->size;
  }
  return *handle = CUmemGenericAllocationHandle(made), CUDA_SUCCESS;
}

inline CUresult reserve(CUdeviceptr* at, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  void* found = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return found == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : (*at = CUdeviceptr(found), CUDA_SUCCESS);
}

inline CUresult free_address(CUdeviceptr at, std::size_t bytes) {
  return munmap(reinterpret_cast<void*>(at), bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Addresses of a multicast object stay such that plain loads and stores fail.
inline CUresult map(CUdeviceptr at, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long) {
  Object& one = *object(handle);
  char* begin = reinterpret_cast<char*>(at);
  if (offset || bytes != one.size) return CUDA_ERROR_INVALID_VALUE;
  if (one.multicast) {
    if (one.multicast->n_added != int(one.multicast->n_devices)) return CUDA_ERROR_ILLEGAL_STATE;
    const std::lock_guard<std::mutex> held(world().lock);
    world().switches[begin] = {bytes, &one};
    return CUDA_SUCCESS;
  }
  if (mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, one.file, 0) == MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> held(world().lock);
  world().live[begin] = Range{bytes, -1};
  return CUDA_SUCCESS;
}

inline CUresult unmap(CUdeviceptr at, std::size_t) {
  const char* begin = reinterpret_cast<const char*>(at);
  const std::lock_guard<std::mutex> held(world().lock);
  return world().switches.erase(begin) + world().live.erase(begin) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

inline CUresult set_access(CUdeviceptr, std::size_t, const CUmemAccessDesc* access, std::size_t) {
  return access->location.id == device() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

inline CUresult switch_create(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* kind) {
  if (!is_on_page(kind->size, true) || kind->numDevices < 2 || kind->numDevices > 64) return CUDA_ERROR_INVALID_VALUE;
  auto* made = new Object;
  made->file = memfd_create("fake-switch", 0);
  made->size = kind->size;
  if (ftruncate(made->file, sizeof(Switch))) return CUDA_ERROR_INVALID_VALUE;
  made->multicast = switch_in(made->file);
  made->multicast->n_devices = kind->numDevices;
  made->multicast->size = kind->size;
  return *handle = CUmemGenericAllocationHandle(made), CUDA_SUCCESS;
}

inline CUresult switch_add(CUmemGenericAllocationHandle handle, CUdevice device) {
  Switch& one = *object(handle)->multicast;
  const Held held(one);
  for (int i = 0; i < one.n_added; ++i)
    if (one.added[i] == device) return CUDA_ERROR_INVALID_DEVICE;
  if (one.n_added == int(one.n_devices)) return CUDA_ERROR_INVALID_DEVICE;
  return one.added[one.n_added++] = device, CUDA_SUCCESS;
}

// CUDA waits here until all GPUs have been added; who relies on that is told so.
inline CUresult switch_bind(CUmemGenericAllocationHandle handle, std::size_t at, CUmemGenericAllocationHandle memory,
                            std::size_t memory_at, std::size_t bytes, unsigned long long) {
  Switch& one = *object(handle)->multicast;
  const Object& own = *object(memory);
  const Held held(one);
  if (one.n_added != int(one.n_devices)) return CUDA_ERROR_ILLEGAL_STATE;
  if (at || memory_at || bytes != one.size || own.size < bytes) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < one.n_added; ++i)
    if (one.added[i] == own.device && !one.bound[i].is_there) {
      one.bound[i] = Bound{own.device, 1, {}};
      std::snprintf(one.bound[i].path, 64, "/proc/%ld/fd/%d", long(getpid()), own.file);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_DEVICE;
}

inline CUresult switch_unbind(CUmemGenericAllocationHandle handle, CUdevice device, std::size_t, std::size_t) {
  Switch& one = *object(handle)->multicast;
  const Held held(one);
  for (int i = 0; i < one.n_added; ++i)
    if (one.added[i] == device && one.bound[i].is_there) return one.bound[i].is_there = 0, CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_DEVICE;
}

inline CUresult switch_granularity(std::size_t* found, const CUmulticastObjectProp*, CUmulticastGranularity_flags) {
  return *found = SWITCH_PAGE, CUDA_SUCCESS;
}

// The bytes that an address of a multicast object means: of memory of all its devices. Ends the process where it means
// none, or not all devices have theirs bound.
inline std::int64_t members(const char* all, char** to) {
  const std::lock_guard<std::mutex> held(world().lock);
  auto next = world().switches.upper_bound(all);
  if (next == world().switches.begin()) std::abort();
  --next;
  auto& [bytes, one] = next->second;
  if (all + 16 > next->first + bytes) std::abort();
  for (int i = 0; i < one->multicast->n_added; ++i) {
    if (!one->multicast->bound[i].is_there) std::abort();
    if (!one->members.count(i)) {
      const int file = open(one->multicast->bound[i].path, O_RDWR);
      void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      close(file);
      if (found == MAP_FAILED) std::abort();
      one->members[i] = static_cast<char*>(found);
    }
    to[i] = one->members[i] + (all - next->first);
  }
  return one->multicast->n_added;
}

}  // namespace fake_cuda

// Types of the functions, as `decltype` wants them; they are found by name.
CUresult cuGetErrorString(CUresult, const char**);
CUresult cuDeviceGetAttribute(int*, CUdevice_attribute, CUdevice);
CUresult cuMemGetAllocationGranularity(std::size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags);
CUresult cuMemCreate(CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*, unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemExportToShareableHandle(void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType);
CUresult cuMemAddressReserve(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, std::size_t);
CUresult cuMemMap(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, std::size_t);
CUresult cuMemSetAccess(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t);
CUresult cuMulticastCreate(CUmemGenericAllocationHandle*, const CUmulticastObjectProp*);
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle, std::size_t, CUmemGenericAllocationHandle, std::size_t,
                            std::size_t, unsigned long long);
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, std::size_t, std::size_t);
CUresult cuMulticastGetGranularity(std::size_t*, const CUmulticastObjectProp*, CUmulticastGranularity_flags);

inline cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** to, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* result) {
  using namespace fake_cuda;
  static const std::map<std::string, void*> functions{
      {"cuGetErrorString", reinterpret_cast<void*>(&error_string)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(&attribute)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&granularity)},
      {"cuMemCreate", reinterpret_cast<void*>(&create)},
      {"cuMemRelease", reinterpret_cast<void*>(&release)},
      {"cuMemExportToShareableHandle", reinterpret_cast<void*>(&export_handle)},
      {"cuMemImportFromShareableHandle", reinterpret_cast<void*>(&import_handle)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&free_address)},
      {"cuMemMap", reinterpret_cast<void*>(&map)},
      {"cuMemUnmap", reinterpret_cast<void*>(&unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&set_access)},
      {"cuMulticastCreate", reinterpret_cast<void*>(&switch_create)},
      {"cuMulticastAddDevice", reinterpret_cast<void*>(&switch_add)},
      {"cuMulticastBindMem", reinterpret_cast<void*>(&switch_bind)},
      {"cuMulticastUnbind", reinterpret_cast<void*>(&switch_unbind)},
      {"cuMulticastGetGranularity", reinterpret_cast<void*>(&switch_granularity)},
  };
  const auto found = functions.find(name);
  *result = found == functions.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  *to = found == functions.end() ? nullptr : found->second;
  return cudaSuccess;
}
