// As much of CUDA's runtime as gpu_host.cpp calls, on memory of the host: it tells device memory from the host's, and
// refuses what a GPU would.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>

using cudaError_t = int;
using cudaStream_t = void*;
using cudaEvent_t = std::chrono::steady_clock::time_point*;
enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorInvalidValue = 1, cudaErrorCooperativeLaunchTooLarge = 82 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
struct cudaDeviceProp {
  char name[256];
};

namespace fake_cuda {

inline std::map<const char*, std::size_t>& live() {
  static std::map<const char*, std::size_t> found;
  return found;
}

// Whether a range lies in what was allocated and not freed.
inline bool is_ours(const void* at, std::size_t bytes) {
  const char* begin = static_cast<const char*>(at);
  auto next = live().upper_bound(begin);
  if (next == live().begin()) return false;
  --next;
  return begin + bytes <= next->first + next->second;
}

}  // namespace fake_cuda

inline cudaError_t cudaMalloc(void** to, std::size_t bytes) {
  if (bytes > (std::size_t(1) << 33)) return cudaErrorMemoryAllocation;
  *to = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*to, 0xA5, bytes);
  fake_cuda::live()[static_cast<const char*>(*to)] = bytes;
  return cudaSuccess;
}

inline cudaError_t cudaFree(void* at) {
  fake_cuda::live().erase(static_cast<const char*>(at));
  std::free(at);
  return cudaSuccess;
}

inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (fake_cuda::is_ours(to, bytes) != (kind != cudaMemcpyDeviceToHost)) return cudaErrorInvalidValue;
  if (fake_cuda::is_ours(from, bytes) != (kind != cudaMemcpyHostToDevice)) return cudaErrorInvalidValue;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}

inline cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (!fake_cuda::is_ours(to, bytes)) return cudaErrorInvalidValue;
  std::memset(to, value, bytes);
  return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(to, value, bytes);
}

inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return *stream = nullptr, cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return *event = new std::chrono::steady_clock::time_point(), cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return *event = std::chrono::steady_clock::now(), cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float* to, cudaEvent_t begin, cudaEvent_t end) {
  *to = std::chrono::duration<float, std::milli>(*end - *begin).count();
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t status) {
  return status == cudaErrorCooperativeLaunchTooLarge ? "too many blocks in cooperative launch" : "invalid argument";
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int) {
  return std::strcpy(to->name, "threads of this host"), cudaSuccess;
}
