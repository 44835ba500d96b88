// What the host's parts share: memory of the GPU, errors in words, the launch.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "local.hpp"

// Puts the lanes of a job on a stream, or says in `room`, where it is, how many blocks can be resident.
extern "C" int treadle_lanes_launch(const treadle::Job* job, const treadle::Local* local, treadle::i64 element,
                                    treadle::i64 reduction, treadle::i64 is_ll, int threads, cudaStream_t stream,
                                    treadle::i64* room);

namespace treadle {

inline void check(cudaError_t status, const char* doing) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(doing) + ": " + cudaGetErrorString(status));
}

// Memory of the GPU, freed at the end.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    for (void* one : owned_) cudaFree(one);
  }

  char* allocate(i64 bytes) {
    void* found = nullptr;
    check(cudaMalloc(&found, std::size_t(std::max<i64>(bytes, 16))), "memory of the GPU");
    owned_.push_back(found);
    return static_cast<char*>(found);
  }

  template <class Value>
  Value* copied(const Value* from, i64 count) {
    char* to = allocate(count * i64(sizeof(Value)));
    if (count)
      check(cudaMemcpy(to, from, std::size_t(count) * sizeof(Value), cudaMemcpyHostToDevice), "copy to the GPU");
    return reinterpret_cast<Value*>(to);
  }

 private:
  std::vector<void*> owned_;
};

// What `work` returns, or `otherwise` with the reason in `words`.
template <class Result, class Work>
Result told(char* words, i64 room, Result otherwise, Work work) {
  try {
    return work();
  } catch (const std::exception& error) {
    std::snprintf(words, std::size_t(room), "%s", error.what());
    return otherwise;
  }
}

}  // namespace treadle
