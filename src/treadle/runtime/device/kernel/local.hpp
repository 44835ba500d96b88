// One rank in a launch of its own.
#pragma once

#include "tables.hpp"

namespace treadle {

// In memory of the host, which it reads without waiting for the GPU: the first failure, and whose launch it was.
struct Told {
  Failure failure;
  i64 program;
};

// Where a buffer lies in a block of memory at each rank: addresses of the block at all ranks, then those that reach it
// at all ranks of each of the job's groups, or null. No table: only the rank itself reaches its buffer.
struct Window {
  char* const* table;
  i64 at;
};

// What a rank adds to a job whose memory is that of all ranks as this process sees them.
struct Local {
  i64 rank;           // NONE: all ranks are in this launch, and nothing here is used
  char* buffers[3];   // other ones at each call
  Window windows[2];  // of INPUT and OUTPUT
  u64 signature;      // as Job's
  u64* launches;     // done so far, and blocks that have ended in this one
  Told* told;
  i64 program;
  char* lines;  // the rank's staging of LL
};

}  // namespace treadle
