// What lanes over NCCL's windows have besides: a device communicator, and in which windows memory lies.
#pragma once

#include <nccl.h>
#include <nccl_device.h>

#include "signals.hpp"

namespace treadle {

// A place in a window, the same at all ranks.
struct WindowPlace {
  ncclWindow_t window;
  i64 at;
};

struct Network {
  ncclDevComm comm;
  WindowPlace buffers[4];  // INPUT, OUTPUT, SCRATCH (no window: peers do not reach it) and staging
  WindowPlace flags, outbox;
  i64 slot_bytes;  // of the outbox; each lane has MOST_PUTS slots
  Signals signals;
};

}  // namespace treadle
