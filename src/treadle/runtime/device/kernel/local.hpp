// One rank in a launch of its own.
#pragma once

#include "tables.hpp"

namespace treadle {

// In memory of the host, which it reads without waiting for the GPU: the first failure, and whose launch it was.
struct Told {
  Failure failure;
  i64 program;
};

// What a rank adds to a job whose memory is that of all ranks as this process sees them.
struct Local {
  i64 rank;          // NONE: all ranks are in this launch, and nothing here is used
  char* buffers[3];  // other ones at each call
  u64* launches;     // done so far, and blocks that have ended in this one
  Told* told;
  i64 program;
};

}  // namespace treadle
