// What a thread block does in a launch: its operations, wave by wave, each as wait, move, raise.
#pragma once

#include "group.hpp"

namespace treadle {

// Where one slice of an operation is read and written; null where it is not.
struct Places {
  const char* source;
  char* message;
  char* target;
  char* puts[MOST_PUTS];
  i64 count;  // elements
};

// The places at all ranks of groups that an operation reads and writes besides.
struct SwitchPlaces {
  GroupPlace sums, copied;
};

TREADLE_DEVICE void note_failure(const Job& job, i64 lane, i64 operation, i64 wait) {
  if (!claim(&job.failure->is_set)) return;
  job.failure->rank = job.lanes[lane].rank;
  job.failure->lane = lane;
  job.failure->operation = operation;
  job.failure->wait = wait;
}

// In place of the flag of a failed wait, as UNLIKE: the peer of that number gave up before, and said so.
TREADLE_DEVICE i64 gave_up_before(i64 n_ranks, i64 peer) { return UNLIKE - n_ranks - peer; }

// Flags of a rank in launches of one rank: who has entered, the signatures of their launches, and here who gave up,
// plus 1; then those of programs.
TREADLE_DEVICE i64 given_up_flag(i64 n_ranks) { return 2 * n_ranks; }

// Another wait failed, a peer gave up, or this wait takes too long: it ends, and the launch with it.
TREADLE_DEVICE bool gives_up(const Job& job, i64 begun, i64 lane, i64 operation, i64 wait) {
  if (load_failed(&job.failure->is_set)) return true;
  if (job.signature) {
    const u64 peer = load_signature(job.memory[job.lanes[lane].rank].flags + given_up_flag(job.n_ranks));
    if (peer) {
      note_failure(job, lane, operation, gave_up_before(job.n_ranks, i64(peer) - 1));
      return true;
    }
  }
  if (now_ns() - begun < job.limit_ns) return false;
  note_failure(job, lane, operation, wait);
  return true;
}

// Whether a peer that has entered this launch calls something else. Its signature stands for this launch: it cannot
// end it before it has what it is waited for here. First flags of a rank say who has entered; signatures are next.
TREADLE_DEVICE bool is_unlike(const Job& job, const Wait& wait, const u64* flag, i64 lane, i64 operation) {
  if (!job.signature || wait.flag >= job.n_ranks || wait.launches) return false;
  if (load_signature(flag + job.n_ranks) == job.signature) return false;
  note_failure(job, lane, operation, UNLIKE - wait.flag);
  return true;
}

// False: what it should wait for has not come, and nothing may be moved.
TREADLE_DEVICE bool wait_for(const Job& job, i64 lane, i64 operation, i64 number, i64 slice) {
  const Wait& wait = job.waits[number];
  const i64 done = slice + 1 - wait.slices;
  if (done <= 0) return true;
  const u64 value = ((job.launch - u64(wait.launches)) << 20) + u64(done);
  u64* flag = job.memory[job.lanes[lane].rank].flags + wait.flag;
  if (acquire(flag) >= value) return !is_unlike(job, wait, flag, lane, operation);
  const i64 begun = now_ns();
  for (Tries tries = 0; acquire(flag) < value; ++tries) {
    if (tries % 64 == 63 && gives_up(job, begun, lane, operation, wait.flag)) return false;
    rest(tries);
  }
  return !is_unlike(job, wait, flag, lane, operation);
}

template <bool is_ll>
TREADLE_DEVICE char* slot(char* staging, i64 at, i64 slots, i64 stride, u64 turn) {
  return staging + at + i64(turn % u64(slots)) * stride;
}

// Where every rank's memory is mapped: nothing goes through a network. Others say so by `sends`.
struct Mapped {
  static constexpr bool sends = false;
};

template <class Element, bool is_ll, class Network>
TREADLE_DEVICE Places places_of(const Job& job, const Memory& own, const Operation& operation, i64 slice,
                                const Network& network) {
  Places places;
  const i64 begin = slice * operation.slice, rest = operation.length - begin;
  places.count = rest < 0 ? 0 : rest < operation.slice ? rest : operation.slice;
  const i64 skipped = begin * i64(sizeof(Element));
  const u64 turn = is_ll ? job.launch : u64(slice);
  const bool takes = operation.action == TAKE || operation.action == REDUCE;
  places.source = operation.source == NONE ? nullptr : own.buffers[operation.source] + operation.source_at + skipped;
  places.message = !takes ? nullptr
                          : slot<is_ll>(own.staging, operation.message_at, operation.message_slots,
                                        operation.message_stride, turn);
  const bool stores = operation.target != NONE && operation.action != AWAIT;
  places.target = stores ? own.buffers[operation.target] + operation.target_at + skipped : nullptr;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int i = 0; i < MOST_PUTS; ++i) {
    places.puts[i] = nullptr;
    if (i >= operation.n_puts) continue;
    const Put& put = job.puts[operation.first_put + i];
    const Memory& peer = job.memory[put.rank];
    if constexpr (Network::sends)
      if (!peer.flags) {
        places.puts[i] = network.outbox(i);
        continue;
      }
    places.puts[i] = put.buffer == STAGING ? slot<is_ll>(peer.staging, put.at, put.slots, put.stride, turn)
                                           : peer.buffers[put.buffer] + put.at + skipped;
  }
  return places;
}

// Words `first` to `past` - 1 of all places; four at a time are under way in a thread.
template <class Element, class Combine, class Word>
TREADLE_DEVICE void move_words(const Places& places, const Block& block, i64 first, i64 past) {
  constexpr int MANY = 4;
  for (i64 base = first + block.thread; base < past; base += i64(block.threads) * MANY) {
    Word words[MANY];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int i = 0; i < MANY; ++i) {
      const i64 index = base + i64(i) * block.threads;
      if (index < past)
        words[i] = loaded_at<Element, Word>(places.message ? places.message : places.source, index);
    }
    if (places.message && places.source) {
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int i = 0; i < MANY; ++i) {
        const i64 index = base + i64(i) * block.threads;
        if (index < past)
          words[i] = combined_words<Element, Combine, Word>(loaded_at<Element, Word>(places.source, index), words[i]);
      }
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int i = 0; i < MANY; ++i) {
      const i64 index = base + i64(i) * block.threads;
      if (index >= past) continue;
      if (places.target) stored_at<Element, Word>(places.target, index, words[i]);
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int put = 0; put < MOST_PUTS; ++put)
        if (places.puts[put]) stored_at<Element, Word>(places.puts[put], index, words[i]);
    }
  }
}

// Elements before the first bound of 16 bytes at the place that gains most by whole vectors: a peer's, else where
// this rank stores, else where it reads. Places off that bound are read and written in pieces.
template <class Element>
TREADLE_DEVICE i64 head_of(const Places& places, const char* asked) {
  const char* first = places.source ? places.source : places.message;
  if (places.target) first = places.target;
  for (int i = 0; i < MOST_PUTS; ++i)
    if (places.puts[i]) first = places.puts[i];
  if (asked) first = asked;
  const i64 missing = i64(-reinterpret_cast<std::uintptr_t>(first) % sizeof(Vector)) / i64(sizeof(Element));
  return missing < places.count ? missing : places.count;
}

TREADLE_DEVICE Places behind(Places places, i64 bytes) {
  if (places.source) places.source += bytes;
  if (places.message) places.message += bytes;
  if (places.target) places.target += bytes;
  for (int i = 0; i < MOST_PUTS; ++i)
    if (places.puts[i]) places.puts[i] += bytes;
  return places;
}

#ifndef __CUDACC__
inline i64 aligned_places(const Places& places) {
  const char* others[] = {places.source, places.message, places.target};
  const auto is_aligned = [](const char* one) {
    return one && reinterpret_cast<std::uintptr_t>(one) % sizeof(Vector) == 0;
  };
  i64 count = 0;
  for (const char* one : others) count += is_aligned(one);
  for (const char* one : places.puts) count += is_aligned(one);
  return count;
}
#endif

template <class Element, class Combine>
TREADLE_DEVICE void move_simple(const Places& places, const Block& block) {
  if (!places.source && !places.message) return;
  constexpr i64 per_vector = sizeof(Vector) / sizeof(Element);
  const i64 head = head_of<Element>(places, nullptr);
  move_words<Element, Combine, Element>(places, block, 0, head);
  const Places rest = behind(places, head * i64(sizeof(Element)));
  const i64 count = places.count - head, vectors = count / per_vector;
#ifndef __CUDACC__
  if (block.thread == 0) vectors_moved += vectors * aligned_places(rest);
#endif
  move_words<Element, Combine, Vector>(rest, block, 0, vectors);
  move_words<Element, Combine, Element>(rest, block, vectors * per_vector, count);
}

// As move_words, of what a switch adds up or copies.
template <class Element, class Combine, class Word>
TREADLE_DEVICE void ask_words(const Job& job, const Places& places, const SwitchPlaces& asked, const Block& block,
                              i64 first, i64 past) {
  constexpr int MANY = sizeof(Word) == sizeof(Vector) ? 4 : 1;
  for (i64 base = first + block.thread; base < past; base += i64(block.threads) * MANY) {
    Word words[MANY];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int i = 0; i < MANY; ++i) {
      const i64 index = base + i64(i) * block.threads;
      if (index >= past) continue;
      const char* from = places.message ? places.message : places.source;
      words[i] = asked.sums.n_members ? summed<Element, Combine, Word>(job, asked.sums, index)
                                      : loaded_at<Element, Word>(from, index);
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int i = 0; i < MANY; ++i) {
      const i64 index = base + i64(i) * block.threads;
      if (index >= past) continue;
      Word word = words[i];
      if (places.message && places.source)
        word = combined_words<Element, Combine, Word>(loaded_at<Element, Word>(places.source, index), word);
      if (places.target) stored_at<Element, Word>(places.target, index, word);
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int put = 0; put < MOST_PUTS; ++put)
        if (places.puts[put]) stored_at<Element, Word>(places.puts[put], index, word);
      if (asked.copied.n_members) copied<Word>(job, asked.copied, index, word);
    }
  }
}

template <class Element, class Combine>
TREADLE_DEVICE void ask_switch(const Job& job, const Operation& operation, const Places& places, const Block& block,
                               i64 slice) {
  constexpr i64 per_vector = sizeof(Vector) / sizeof(Element);
  const i64 skipped = slice * operation.slice * i64(sizeof(Element));
  const SwitchPlaces asked{group_place(job, operation.sums, operation.source, operation.source_at + skipped),
                           group_place(job, operation.multicast, operation.copied_to, operation.copied_at + skipped)};
  const char* first = asked.copied.n_members ? asked.copied.begin(job) : asked.sums.begin(job);
  const i64 head = head_of<Element>(places, first), gone = head * i64(sizeof(Element));
  const Places rest = behind(places, gone);
  const SwitchPlaces rest_asked{asked.sums.behind(gone), asked.copied.behind(gone)};
  const bool is_wide = rest_asked.sums.takes_vectors<SwitchSum<Element, Combine>::exists>(job) &&
                       rest_asked.copied.takes_vectors<true>(job);
  const i64 count = places.count - head, vectors = is_wide ? count / per_vector : 0;
  switch_fence();  // what other addresses stored before is seen through those of groups
  ask_words<Element, Combine, Element>(job, places, asked, block, 0, head);
  ask_words<Element, Combine, Vector>(job, rest, rest_asked, block, 0, vectors);
  ask_words<Element, Combine, Element>(job, rest, rest_asked, block, vectors * per_vector, count);
  switch_fence();
}

// 8 bytes of elements, or as many of them as there are; what is missing is 0.
template <class Element>
TREADLE_DEVICE u64 load_unit(const char* from, i64 count) {
  constexpr i64 per_unit = sizeof(u64) / sizeof(Element);
  if (count >= per_unit && reinterpret_cast<std::uintptr_t>(from) % sizeof(u64) == 0)
    return loaded<u64>(from, 0);
  Element parts[per_unit] = {};
#ifdef __CUDACC__
#pragma unroll
#endif
  for (i64 i = 0; i < per_unit; ++i)
    if (i < count) parts[i] = loaded<Element>(from, i);
  u64 result;
  memcpy(&result, parts, sizeof(u64));
  return result;
}

template <class Element>
TREADLE_DEVICE void store_unit(char* to, i64 count, u64 value) {
  constexpr i64 per_unit = sizeof(u64) / sizeof(Element);
  if (count >= per_unit && reinterpret_cast<std::uintptr_t>(to) % sizeof(u64) == 0) {
    stored<u64>(to, 0, value);
    return;
  }
  Element parts[per_unit];
  memcpy(parts, &value, sizeof(u64));
#ifdef __CUDACC__
#pragma unroll
#endif
  for (i64 i = 0; i < per_unit; ++i)
    if (i < count) stored<Element>(to, i, parts[i]);
}

// Lines of a launch have its number as their flag; 0 is that of memory that was never written. The numbers begin again
// after as many launches as there are flags, and then a line from before may have the flag of one that is to come.
constexpr u64 LINE_FLAGS = 0xFFFFFFFFu;
TREADLE_DEVICE u32 line_flag(u64 launch) {
  return launch <= LINE_FLAGS ? u32(launch) : u32((launch - 1) % LINE_FLAGS) + 1;
}

// So both halves of the lines are cleared when the numbers begin again, each in the launch before the one that uses it,
// and before any peer hears that this rank has entered, which peers wait for before they put the next launch's lines.
TREADLE_DEVICE void clear_lines(char* lines, u64 launch, const Block& block) {
  const u32 flag = line_flag(launch);
  if (!lines || launch < LINE_FLAGS || (flag != 1 && flag != LINE_FLAGS)) return;
  char* half = lines + i64((launch + 1) % 2) * (LL_BYTES / 2);
  for (i64 i = block.thread; i < LL_BYTES / 2 / i64(sizeof(Vector)); i += block.threads)
    stored<Vector>(half, i, Vector{0, 0});
  block.sync();
}

// `is_sound` gets false if the line has not come.
TREADLE_DEVICE u64 take_line(const Job& job, const Line* from, u32 flag, i64 lane, i64 operation, bool& is_sound) {
  Line line = load_line(from);
  if (line.flag_low == flag && line.flag_high == flag) return line.data_low | u64(line.data_high) << 32;
  const i64 begun = now_ns();
  for (Tries tries = 0; line.flag_low != flag || line.flag_high != flag; ++tries) {
    if (tries % 64 == 63 && gives_up(job, begun, lane, operation, NONE)) {
      is_sound = false;
      break;
    }
    rest(tries);
    line = load_line(from);
  }
  return line.data_low | u64(line.data_high) << 32;
}

template <class Element, class Combine>
TREADLE_DEVICE void move_ll(const Job& job, const Places& places, const Block& block, i64 lane, i64 operation) {
  constexpr i64 per_unit = sizeof(u64) / sizeof(Element);
  const u32 flag = line_flag(job.launch);
  bool is_sound = !load_failed(&job.failure->is_set);  // lines are flags, too: see raise_flags
  for (i64 unit = block.thread; unit * per_unit < places.count; unit += block.threads) {
    const i64 count = places.count - unit * per_unit, at = unit * i64(sizeof(u64));
    u64 value = places.source ? load_unit<Element>(places.source + at, count) : 0;
    if (places.message) {
      const auto* line = reinterpret_cast<const Line*>(places.message) + unit;
      const u64 taken = take_line(job, line, flag, lane, operation, is_sound);
      value = places.source ? combined_words<Element, Combine, u64>(value, taken) : taken;
    }
    if (places.target) store_unit<Element>(places.target + at, count, value);
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int put = 0; put < MOST_PUTS; ++put)
      if (places.puts[put] && is_sound) store_line(reinterpret_cast<Line*>(places.puts[put]) + unit, value, flag);
  }
}

template <class Element>
TREADLE_DEVICE void divide(const Places& places, const Block& block, i64 n) {
  for (i64 i = block.thread; i < places.count; i += block.threads) {
    Element result;
    narrow(quotient(wide(loaded<Element>(places.target, i)), n), result);
    stored<Element>(places.target, i, result);
  }
}

// Raises flags of ranks that are mapped; others are told by the network, in one thread after what was put there.
// A rank that gave up raises none from then on: what it has may be wrong, and its peers have to give up as well.
template <class Network>
TREADLE_DEVICE void raise_flags(const Job& job, const Block& block, i64 first, i64 count, u64 value, Network& network) {
  if (load_failed(&job.failure->is_set)) return;
  for (i64 i = block.thread; i < count; i += block.threads) {
    const Raise& raise = job.raises[first + i];
    if (!Network::sends || job.memory[raise.rank].flags) release(job.memory[raise.rank].flags + raise.flag, value);
  }
  if constexpr (Network::sends) {
    if (block.thread != 0) return;
    for (i64 i = 0; i < count; ++i) {
      const Raise& raise = job.raises[first + i];
      if (!job.memory[raise.rank].flags) network.raise(raise, first + i, value);
    }
  }
}

// Sends what an operation has left in the outbox for ranks that are not mapped.
template <class Element, class Network>
TREADLE_DEVICE void send_puts(const Job& job, const Operation& operation, i64 slice, i64 count, Network& network) {
  for (i64 i = 0; i < operation.n_puts; ++i) {
    const Put& put = job.puts[operation.first_put + i];
    if (job.memory[put.rank].flags) continue;
    const i64 skipped = slice * operation.slice * i64(sizeof(Element));
    const i64 at = put.buffer == STAGING ? put.at + slice % put.slots * put.stride : put.at + skipped;
    network.put(put.rank, put.buffer, at, i, count * i64(sizeof(Element)));
  }
}

// False: a wait was given up, and the lane has to end.
template <class Element, class Combine, bool is_ll, class Network>
TREADLE_DEVICE bool run_event(const Job& job, const Block& block, i64 lane, i64 number, i64 slice, Network& network) {
  const Operation& operation = job.operations[number];
  bool has_failed = false;
  for (i64 i = block.thread; i < operation.n_waits; i += block.threads)
    has_failed |= !wait_for(job, lane, number, operation.first_wait + i, slice);
  if (block.any(has_failed)) return false;  // it would read what is not there, or write where peers do not expect it
  const Places places =
      places_of<Element, is_ll>(job, job.memory[job.lanes[lane].rank], operation, slice, network);
  if (operation.action == FINISH)
    divide<Element>(places, block, job.n_ranks);
  else if (is_ll)
    move_ll<Element, Combine>(job, places, block, lane, number);
  else if (operation.sums != NONE || operation.multicast != NONE)
    ask_switch<Element, Combine>(job, operation, places, block, slice);
  else
    move_simple<Element, Combine>(places, block);
  block.sync();
  if constexpr (Network::sends)
    if (block.thread == 0) send_puts<Element>(job, operation, slice, places.count, network);
  raise_flags(job, block, operation.first_raise, operation.n_raises, (job.launch << 20) + u64(slice) + 1, network);
  if constexpr (Network::sends) {
    if (block.thread == 0) network.finish();  // the outbox is used again
    block.sync();
  }
  return true;
}

// Tells all ranks what this one calls, before they hear that it has entered.
template <class Network>
TREADLE_DEVICE void sign_all(const Job& job, const Block& block, const Lane& lane, Network& network) {
  if (!job.signature) return;
  const i64 at = job.n_ranks + lane.rank;
  for (i64 i = block.thread; i < lane.n_enters; i += block.threads) {
    u64* flags = job.memory[job.raises[lane.first_enter + i].rank].flags;
    if (!Network::sends || flags) store_signature(flags + at, job.signature);
  }
  if constexpr (Network::sends)
    for (i64 i = 0; block.thread == 0 && i < lane.n_enters; ++i) {
      const i64 rank = job.raises[lane.first_enter + i].rank;
      if (!job.memory[rank].flags) network.sign(rank, at, job.signature);
    }
}

// Tells all ranks that this one gave up, so that none waits for it until its own limit.
template <class Network>
TREADLE_DEVICE void tell_peers(const Job& job, const Block& block, i64 rank, Network& network) {
  const i64 at = given_up_flag(job.n_ranks);
  const u64 own = u64(rank) + 1;
  for (i64 peer = block.thread; peer < job.n_ranks; peer += block.threads) {
    u64* flags = job.memory[peer].flags;
    if (peer != rank && flags) store_signature(flags + at, own);
  }
  if constexpr (Network::sends)
    for (i64 peer = 0; block.thread == 0 && peer < job.n_ranks; ++peer)
      if (!job.memory[peer].flags) network.sign(peer, at, own);
}

// Operations stand by rising stage, so that those with a slice in this wave stand together.
template <class Element, class Combine, bool is_ll, class Network>
TREADLE_DEVICE void run_lane(const Job& job, const Block& block, i64 number, char* lines, Network& network) {
  const Lane& lane = job.lanes[number];
  if (lane.n_enters) clear_lines(lines, job.launch, block);
  sign_all(job, block, lane, network);
  raise_flags(job, block, lane.first_enter, lane.n_enters, (job.launch << 20) + ALL_SLICES, network);
  const i64 end = lane.first + lane.count;
  i64 low = lane.first;
  for (i64 wave = 0; low < end; ++wave) {
    for (i64 operation = low; operation < end; ++operation) {
      const i64 slice = wave - job.operations[operation].stage;
      if (slice < 0) break;
      if (!run_event<Element, Combine, is_ll>(job, block, number, operation, slice, network)) return;
      // the first with this as its last slice are done; none stands before them
      if (slice == job.n_slices - 1) low = operation + 1;
    }
  }
}

}  // namespace treadle
