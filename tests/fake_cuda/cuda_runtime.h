// As much of CUDA's runtime as the host's parts call, on memory of the host: it tells device memory from the host's,
// refuses what a GPU would, and shares memory between processes by handles.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

using cudaError_t = int;
using cudaStream_t = void*;
using cudaEvent_t = std::chrono::steady_clock::time_point*;
enum {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorCooperativeLaunchTooLarge = 82,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidContext = 201,
  cudaErrorStreamCaptureUnsupported = 900
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocMapped = 2, cudaIpcMemLazyEnablePeerAccess = 1 };
#define CUDART_VERSION 13000
enum { cudaEnableDefault = 0 };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
struct cudaDeviceProp {
  char name[256];
};
struct cudaIpcMemHandle_t {
  char reserved[64];
};

namespace fake_cuda {

struct Range {
  std::size_t bytes;
  int file;  // -1: another process's, opened here
};

struct Object;

struct World {
  std::mutex lock;
  std::map<const char*, Range> live, pinned;
  std::vector<std::function<int()>> captured;
  std::map<const char*, std::pair<std::size_t, Object*>> switches;  // addresses that reach several ranks
  bool is_capturing = false;
};

inline World& world() {
  static World found;
  return found;
}

inline cudaStreamCaptureMode& mode() {
  static thread_local cudaStreamCaptureMode found = cudaStreamCaptureModeGlobal;
  return found;
}

// What CUDA refuses while a stream is captured, unless this thread has said that it knows.
inline bool is_unsafe() { return world().is_capturing && mode() != cudaStreamCaptureModeRelaxed; }

// Whether a range lies in what was allocated and not freed.
inline bool is_in(const std::map<const char*, Range>& all, const void* at, std::size_t bytes) {
  const std::lock_guard<std::mutex> held(world().lock);
  const char* begin = static_cast<const char*>(at);
  auto next = all.upper_bound(begin);
  if (next == all.begin()) return false;
  --next;
  return begin + bytes <= next->first + next->second.bytes;
}

inline bool is_ours(const void* at, std::size_t bytes) { return is_in(world().live, at, bytes); }

inline bool map_file(int file, std::size_t bytes, bool is_peer, void** to) {
  void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (found == MAP_FAILED) return false;
  const std::lock_guard<std::mutex> held(world().lock);
  world().live[static_cast<const char*>(*to = found)] = Range{bytes, is_peer ? -1 : file};
  return true;
}

inline cudaError_t forget(void* at, bool is_peer) {
  if (!at) return cudaSuccess;
  const std::lock_guard<std::mutex> held(world().lock);
  auto found = world().live.find(static_cast<const char*>(at));
  if (found == world().live.end() || (found->second.file < 0) != is_peer) return cudaErrorInvalidValue;
  munmap(at, found->second.bytes);
  if (!is_peer) close(found->second.file);
  world().live.erase(found);
  return cudaSuccess;
}

}  // namespace fake_cuda

inline cudaError_t cudaMalloc(void** to, std::size_t bytes) {
  if (fake_cuda::is_unsafe()) return cudaErrorStreamCaptureUnsupported;
  if (!bytes || bytes > (std::size_t(1) << 33)) return cudaErrorMemoryAllocation;
  const int file = memfd_create("fake-cuda", 0);
  if (file < 0 || ftruncate(file, off_t(bytes)) || !fake_cuda::map_file(file, bytes, false, to))
    return cudaErrorMemoryAllocation;
  std::memset(*to, 0xA5, bytes < 65536 ? bytes : 65536);
  return cudaSuccess;
}

inline cudaError_t cudaFree(void* at) { return fake_cuda::forget(at, false); }

inline cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* at) {
  const std::lock_guard<std::mutex> held(fake_cuda::world().lock);
  auto found = fake_cuda::world().live.find(static_cast<const char*>(at));
  if (found == fake_cuda::world().live.end() || found->second.file < 0) return cudaErrorInvalidValue;
  std::snprintf(handle->reserved, 64, "%ld %d %zu", long(getpid()), found->second.file, found->second.bytes);
  return cudaSuccess;
}

inline cudaError_t cudaIpcOpenMemHandle(void** to, cudaIpcMemHandle_t handle, unsigned) {
  long process = 0;
  int number = 0;
  std::size_t bytes = 0;
  if (std::sscanf(handle.reserved, "%ld %d %zu", &process, &number, &bytes) != 3) return cudaErrorInvalidValue;
  if (process == long(getpid())) return cudaErrorInvalidContext;  // as CUDA: of other processes only
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%ld/fd/%d", process, number);
  const int file = open(path, O_RDWR);
  if (file < 0) return cudaErrorInvalidValue;
  const bool is_there = fake_cuda::map_file(file, bytes, true, to);
  close(file);
  return is_there ? cudaSuccess : cudaErrorMemoryAllocation;
}

inline cudaError_t cudaIpcCloseMemHandle(void* at) { return fake_cuda::forget(at, true); }

inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (fake_cuda::is_unsafe()) return cudaErrorStreamCaptureUnsupported;
  if (fake_cuda::is_ours(to, bytes) != (kind != cudaMemcpyDeviceToHost)) return cudaErrorInvalidValue;
  if (fake_cuda::is_ours(from, bytes) != (kind != cudaMemcpyHostToDevice)) return cudaErrorInvalidValue;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  if (kind != cudaMemcpyDeviceToDevice) return cudaMemcpy(to, from, bytes, kind);
  const bool is_any = std::getenv("FAKE_CUDA_ANY_MEMORY");  // tensors of the host stand for a GPU's
  if (!is_any && !(fake_cuda::is_ours(to, bytes) && fake_cuda::is_ours(from, bytes))) return cudaErrorInvalidValue;
  const auto copy = [=] { return std::memcpy(to, from, bytes), int(cudaSuccess); };
  if (!fake_cuda::world().is_capturing) return copy();
  fake_cuda::world().captured.push_back(copy);
  return cudaSuccess;
}

inline cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (fake_cuda::is_unsafe()) return cudaErrorStreamCaptureUnsupported;
  if (!fake_cuda::is_ours(to, bytes)) return cudaErrorInvalidValue;
  // pages that nobody has touched are zeros already
  std::memset(to, value, !value && bytes > 65536 ? 65536 : bytes);
  return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(to, value, bytes);
}

inline cudaError_t cudaHostAlloc(void** to, std::size_t bytes, unsigned) {
  *to = std::calloc(1, bytes);
  const std::lock_guard<std::mutex> held(fake_cuda::world().lock);
  fake_cuda::world().pinned[static_cast<const char*>(*to)] = fake_cuda::Range{bytes, -1};
  return cudaSuccess;
}

inline cudaError_t cudaHostGetDevicePointer(void** to, void* from, unsigned) {
  return *to = from, fake_cuda::is_in(fake_cuda::world().pinned, from, 1) ? cudaSuccess : cudaErrorInvalidValue;
}

inline cudaError_t cudaFreeHost(void* at) {
  const std::lock_guard<std::mutex> held(fake_cuda::world().lock);
  fake_cuda::world().pinned.erase(static_cast<const char*>(at));
  std::free(at);
  return cudaSuccess;
}

// One device, or as many as FAKE_CUDA_DEVICES says; each thread has a current one.
namespace fake_cuda {
inline int& device() {
  static thread_local int found = 0;
  return found;
}
inline int devices() {
  const char* said = std::getenv("FAKE_CUDA_DEVICES");
  return said ? std::atoi(said) : 1;
}
}  // namespace fake_cuda

inline cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= fake_cuda::devices()) return cudaErrorInvalidDevice;
  return fake_cuda::device() = device, cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) { return *device = fake_cuda::device(), cudaSuccess; }
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return std::swap(*mode, fake_cuda::mode()), cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = fake_cuda::world().is_capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return *stream = nullptr, cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return fake_cuda::is_unsafe() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return *event = new std::chrono::steady_clock::time_point(), cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return *event = std::chrono::steady_clock::now(), cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float* to, cudaEvent_t begin, cudaEvent_t end) {
  *to = std::chrono::duration<float, std::milli>(*end - *begin).count();
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaErrorCooperativeLaunchTooLarge: return "too many blocks in cooperative launch";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorInvalidContext: return "invalid device context";
    default: return "invalid argument";
  }
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int) {
  return std::strcpy(to->name, "threads of this host"), cudaSuccess;
}
