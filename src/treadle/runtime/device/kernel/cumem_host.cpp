// Memory by CUDA's functions for virtual memory, which goes to other processes as file descriptors, and multicast
// objects: an address whose stores reach the memory of several GPUs, and whose loads may add it up. Never run on a GPU.
#include <cuda.h>

#include <cstdint>
#include <memory>

#include "host.hpp"

namespace treadle {

// The driver's functions, found at run time: what has no GPU has no library of the driver.
struct Driver {
  decltype(&cuGetErrorString) error_string;
  decltype(&cuDeviceGetAttribute) attribute;
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemExportToShareableHandle) export_handle;
  decltype(&cuMemImportFromShareableHandle) import_handle;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free_address;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
};

struct Multicast {
  decltype(&cuMulticastCreate) create;
  decltype(&cuMulticastAddDevice) add;
  decltype(&cuMulticastBindMem) bind;
  decltype(&cuMulticastUnbind) unbind;
  decltype(&cuMulticastGetGranularity) granularity;
};

constexpr unsigned MEMORY_VERSION = 12010;  // of CUDA, whose form of the functions is meant
constexpr CUmemAllocationHandleType FILES = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

template <class Function>
void find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion(name, &found, MEMORY_VERSION, cudaEnableDefault, &result), name);
#else
  check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result), name);
#endif
  if (result != cudaDriverEntryPointSuccess || !found) throw std::runtime_error(std::string("the driver has no ") + name);
  function = reinterpret_cast<Function>(found);
}

inline const Driver& driver() {
  static const Driver found = [] {
    Driver made{};
    find("cuGetErrorString", made.error_string);
    find("cuDeviceGetAttribute", made.attribute);
    find("cuMemGetAllocationGranularity", made.granularity);
    find("cuMemCreate", made.create);
    find("cuMemRelease", made.release);
    find("cuMemExportToShareableHandle", made.export_handle);
    find("cuMemImportFromShareableHandle", made.import_handle);
    find("cuMemAddressReserve", made.reserve);
    find("cuMemAddressFree", made.free_address);
    find("cuMemMap", made.map);
    find("cuMemUnmap", made.unmap);
    find("cuMemSetAccess", made.set_access);
    return made;
  }();
  return found;
}

inline const Multicast& multicast() {
  static const Multicast found = [] {
    Multicast made{};
    find("cuMulticastCreate", made.create);
    find("cuMulticastAddDevice", made.add);
    find("cuMulticastBindMem", made.bind);
    find("cuMulticastUnbind", made.unbind);
    find("cuMulticastGetGranularity", made.granularity);
    return made;
  }();
  return found;
}

inline void must(CUresult status, const char* doing) {
  if (status == CUDA_SUCCESS) return;
  const char* words = nullptr;
  if (driver().error_string(status, &words) != CUDA_SUCCESS || !words) words = "unknown error of the driver";
  throw std::runtime_error(std::string(doing) + ": " + words);
}

// Ordinals of CUDA's runtime and of its driver are the same.
inline int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "the GPU");
  check(cudaFree(nullptr), "the GPU");  // its context, which the driver's functions need
  return device;
}

inline CUmemAllocationProp memory_of(int device) {
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.requestedHandleTypes = FILES;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = device;
  return kind;
}

inline CUmulticastObjectProp object_of(i64 devices, i64 bytes) {
  CUmulticastObjectProp kind{};
  kind.numDevices = unsigned(devices);
  kind.size = std::size_t(bytes);
  kind.handleTypes = FILES;
  return kind;
}

// Memory, or a multicast object, and where this process has it mapped.
struct Shared {
  CUmemGenericAllocationHandle handle{};
  i64 bytes = 0;
  int device = 0;
  CUdeviceptr address = 0;
  bool is_mapped = false, is_bound = false;

  Shared() = default;
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    if (is_bound) multicast().unbind(handle, device, 0, std::size_t(bytes));
    if (is_mapped) driver().unmap(address, std::size_t(bytes));
    if (address) driver().free_address(address, std::size_t(bytes));
    if (handle) driver().release(handle);
  }
};

inline std::unique_ptr<Shared> sized(i64 bytes) {
  auto made = std::make_unique<Shared>();
  made->bytes = bytes;
  made->device = current_device();
  return made;
}

inline i64 attribute(CUdevice_attribute which) {
  int found = 0;
  must(driver().attribute(&found, which, current_device()), "the GPU");
  return found;
}

inline std::size_t allocation_granularity() {
  const CUmemAllocationProp kind = memory_of(current_device());
  std::size_t found = 0;
  must(driver().granularity(&found, &kind, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), "memory of the GPU");
  return found;
}

// Bytes rounded up to what can be allocated, and bound to a multicast object of so many GPUs.
inline i64 rounded(i64 bytes, i64 devices) {
  std::size_t unit = allocation_granularity();
  if (devices > 1) {
    const CUmulticastObjectProp kind = object_of(devices, (bytes + i64(unit) - 1) / i64(unit) * i64(unit));
    std::size_t found = 0;
    must(multicast().granularity(&found, &kind, CU_MULTICAST_GRANULARITY_RECOMMENDED), "multicast");
    unit = std::max(unit, found);  // both are powers of two
  }
  return (bytes + i64(unit) - 1) / i64(unit) * i64(unit);
}

inline i64 mapped(Shared& shared) {
  must(driver().reserve(&shared.address, std::size_t(shared.bytes), 0, 0, 0), "addresses");
  must(driver().map(shared.address, std::size_t(shared.bytes), 0, shared.handle, 0), "mapping");
  shared.is_mapped = true;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = shared.device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  must(driver().set_access(shared.address, std::size_t(shared.bytes), &access, 1),
       "access of this GPU, by NVLink or PCIe");
  return i64(shared.address);
}

}  // namespace treadle

using treadle::i64;
using treadle::told;

// 1 where the driver and this GPU have multicast; else why not in words, and -1.
extern "C" i64 treadle_cumem_has_multicast(char* words, i64 room) {
  return told<i64>(words, room, -1, [&] {
    if (!treadle::attribute(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED))
      throw std::runtime_error("this GPU has no multicast: that takes NVSwitch with SHARP, and its fabric manager");
    treadle::multicast();
    return i64(1);
  });
}

extern "C" i64 treadle_cumem_size(i64 bytes, i64 devices, char* words, i64 room) {
  return told<i64>(words, room, -1, [&] { return treadle::rounded(bytes, devices); });
}

extern "C" void* treadle_cumem_create(i64 bytes, char* words, i64 room) {
  return told<void*>(words, room, nullptr, [&] {
    auto made = treadle::sized(bytes);
    const CUmemAllocationProp kind = treadle::memory_of(made->device);
    treadle::must(treadle::driver().create(&made->handle, std::size_t(bytes), &kind, 0), "memory of the GPU");
    return static_cast<void*>(made.release());
  });
}

// A multicast object of so many GPUs; as yet of none.
extern "C" void* treadle_cumem_multicast(i64 bytes, i64 devices, char* words, i64 room) {
  return told<void*>(words, room, nullptr, [&] {
    auto made = treadle::sized(bytes);
    const CUmulticastObjectProp kind = treadle::object_of(devices, bytes);
    treadle::must(treadle::multicast().create(&made->handle, &kind), "a multicast object");
    return static_cast<void*>(made.release());
  });
}

// A file descriptor, which the caller closes.
extern "C" i64 treadle_cumem_export(void* shared, char* words, i64 room) {
  return told<i64>(words, room, -1, [&] {
    int descriptor = -1;
    const treadle::Shared& own = *static_cast<treadle::Shared*>(shared);
    treadle::must(treadle::driver().export_handle(&descriptor, own.handle, treadle::FILES, 0),
                  "a descriptor for other processes");
    return i64(descriptor);
  });
}

extern "C" void* treadle_cumem_import(i64 descriptor, i64 bytes, char* words, i64 room) {
  return told<void*>(words, room, nullptr, [&] {
    auto made = treadle::sized(bytes);
    void* given = reinterpret_cast<void*>(std::uintptr_t(descriptor));
    treadle::must(treadle::driver().import_handle(&made->handle, given, treadle::FILES), "a peer's memory");
    return static_cast<void*>(made.release());
  });
}

extern "C" char* treadle_cumem_map(void* shared, char* words, i64 room) {
  return told<char*>(words, room, nullptr, [&] {
    return reinterpret_cast<char*>(treadle::mapped(*static_cast<treadle::Shared*>(shared)));
  });
}

// This rank's GPU becomes one of a multicast object's.
extern "C" i64 treadle_cumem_add(void* shared, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    const treadle::Shared& object = *static_cast<treadle::Shared*>(shared);
    treadle::must(treadle::multicast().add(object.handle, object.device), "a GPU more in a multicast object");
    return i64(0);
  });
}

// This rank's memory becomes what the object's address reaches on its GPU; once all GPUs have been added.
extern "C" i64 treadle_cumem_bind(void* shared, void* memory, char* words, i64 room) {
  return told<i64>(words, room, 1, [&] {
    treadle::Shared& object = *static_cast<treadle::Shared*>(shared);
    const treadle::Shared& own = *static_cast<treadle::Shared*>(memory);
    treadle::must(treadle::multicast().bind(object.handle, 0, own.handle, 0, std::size_t(object.bytes), 0),
                  "memory in a multicast object");
    object.is_bound = true;
    return i64(0);
  });
}

extern "C" void treadle_cumem_free(void* shared) { delete static_cast<treadle::Shared*>(shared); }
