// What a launch reads: rows of 64-bit integers, as Python writes them (sized_lanes.py has the same columns).
#pragma once

#include <cstdint>

namespace treadle {

using i64 = std::int64_t;
using u64 = std::uint64_t;
using u32 = std::uint32_t;

enum Action : i64 { PUT, TAKE, REDUCE, COPY, AWAIT, FINISH, SUM, EXPOSE, RECLAIM };

constexpr i64 NONE = -1;
constexpr i64 STAGING = 3;  // as a buffer; 0 to 2 are INPUT, OUTPUT and SCRATCH
constexpr int MOST_PUTS = 4;
constexpr u64 ALL_SLICES = (u64(1) << 20) - 1;  // more slices would run into the numbers of the next launch
constexpr i64 LL_BYTES = i64(1) << 24;          // of a rank's staging of LL; its halves are used in turns

// Places are bytes in a buffer, length and slice are elements.
struct Operation {
  i64 action, stage, length, slice;
  i64 source, source_at, target, target_at;
  i64 message_at, message_slots, message_stride;
  i64 first_put, n_puts, first_wait, n_waits, first_raise, n_raises;
  i64 sums, multicast, copied_to, copied_at;  // groups, and where at all ranks of the second is stored
};

// Ranks around a switch that copies and adds up: `count` of Job::members.
struct Group {
  i64 first, count;
};

struct Put {
  i64 rank, buffer, at, slots, stride;
};

struct Wait {
  i64 flag, slices, launches;
};

struct Raise {
  i64 rank, flag;
};

struct Lane {
  i64 rank, first, count, first_enter, n_enters;
};

// A rank's memory as the lanes of this process see it: its own, or a peer's that is mapped here.
struct Memory {
  char* buffers[3];
  char* staging;
  u64* flags;
};

// The first wait that was given up; `is_set` is written last.
struct Failure {
  i64 is_set, rank, lane, operation, wait;
};

struct Job {
  const Operation* operations;
  const Put* puts;
  const Wait* waits;
  const Raise* raises;
  const Lane* lanes;
  const Group* groups;
  const i64* members;
  char* const* multicast;  // of each group three addresses, one for each buffer, that reach all its ranks, or null
  const Memory* memory;
  Failure* failure;
  i64 n_operations, n_puts, n_waits, n_raises, n_groups, n_members;
  i64 n_lanes, n_ranks, n_slices;
  i64 limit_ns;
  u64 launch;     // from 1 on
  u64 signature;  // of a launch of one rank: what all ranks must call alike; 0: nobody asks
};

// In place of the flag of a failed wait: the peer of that number is in a launch of another signature.
constexpr i64 UNLIKE = -2;

}  // namespace treadle
