// Memory of all ranks around a switch at once: read as a sum, and written in one store, by the multimem instructions of
// sm_90 and later where there is an address that reaches all, else rank by rank.
#pragma once

#include "elements.hpp"

#include <type_traits>

namespace treadle {

struct alignas(16) Vector {
  u64 low, high;
};

template <class Word>
TREADLE_DEVICE Word loaded(const char* base, i64 index) {
  return reinterpret_cast<const Word*>(base)[index];
}

template <class Word>
TREADLE_DEVICE void stored(char* base, i64 index, Word value) {
  reinterpret_cast<Word*>(base)[index] = value;
}

// As `loaded` and `stored`, at any place of elements: a vector that lies across bounds of 16 bytes element by element.
template <class Element, class Word>
TREADLE_DEVICE Word loaded_at(const char* base, i64 index) {
  if constexpr (sizeof(Word) > sizeof(Element)) {
    if (reinterpret_cast<std::uintptr_t>(base) % sizeof(Word)) {
      constexpr int count = sizeof(Word) / sizeof(Element);
      Element parts[count];
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int i = 0; i < count; ++i) parts[i] = loaded<Element>(base, index * count + i);
      Word word;
      memcpy(&word, parts, sizeof(Word));
      return word;
    }
  }
  return loaded<Word>(base, index);
}

template <class Element, class Word>
TREADLE_DEVICE void stored_at(char* base, i64 index, const Word& word) {
  if constexpr (sizeof(Word) > sizeof(Element)) {
    if (reinterpret_cast<std::uintptr_t>(base) % sizeof(Word)) {
      constexpr int count = sizeof(Word) / sizeof(Element);
      Element parts[count];
      memcpy(parts, &word, sizeof(Word));
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int i = 0; i < count; ++i) stored<Element>(base, index * count + i, parts[i]);
      return;
    }
  }
  stored<Word>(base, index, word);
}

// One place in a buffer at every rank of a group; no members: there is none.
struct GroupPlace {
  char* all;  // reaches all of them; null where nothing does
  const i64* members;
  i64 n_members, buffer, at;

  TREADLE_DEVICE char* of(const Job& job, i64 member) const { return job.memory[members[member]].buffers[buffer] + at; }

  TREADLE_DEVICE const char* begin(const Job& job) const { return all ? all : of(job, 0); }

  TREADLE_DEVICE GroupPlace behind(i64 bytes) const {
    return {all ? all + bytes : nullptr, members, n_members, buffer, at + bytes};
  }

  // Whether it is read or written 16 bytes at once: on a GPU where multimem does it, for threads where all are aligned.
  template <bool has_instruction>
  TREADLE_DEVICE bool takes_vectors(const Job& job) const {
#ifdef __CUDACC__
    constexpr bool is_gpu = true;
#else
    constexpr bool is_gpu = false;
#endif
    if (!n_members) return true;
    if (is_gpu || all)
      return has_instruction && all && reinterpret_cast<std::uintptr_t>(all) % sizeof(Vector) == 0;
    std::uintptr_t bits = 0;
    for (i64 member = 0; member < n_members; ++member) bits |= reinterpret_cast<std::uintptr_t>(of(job, member));
    return bits % sizeof(Vector) == 0;
  }
};

TREADLE_DEVICE GroupPlace group_place(const Job& job, i64 group, i64 buffer, i64 at) {
  GroupPlace place{nullptr, nullptr, 0, buffer, at};
  if (group == NONE) return place;
  place.members = job.members + job.groups[group].first;
  place.n_members = job.groups[group].count;
  char* all = job.multicast ? job.multicast[3 * group + buffer] : nullptr;
  place.all = all ? all + at : nullptr;
  return place;
}

// Orders accesses by a rank's own addresses and by those that reach all of a group, which are the same memory under
// two names.
TREADLE_DEVICE void switch_fence() {
#ifdef __CUDACC__
  asm volatile("fence.proxy.alias;" ::: "memory");
  __threadfence_system();
#endif
}

#ifdef __CUDACC__

// What a switch combines 16 bytes of: `load` where there is an instruction for it. float32 has sums only.
template <class Element, class Combine>
struct SwitchSum {
  static constexpr bool exists = false;
  static TREADLE_DEVICE Vector load(const char*) { return Vector{0, 0}; }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

#define TREADLE_SWITCH_FOUR(Element, Combine, words)                                             \
  template <>                                                                                    \
  struct SwitchSum<Element, Combine> {                                                           \
    static constexpr bool exists = true;                                                         \
    static TREADLE_DEVICE Vector load(const char* from) {                                        \
      u32 a, b, c, d;                                                                            \
      asm volatile("multimem.ld_reduce.relaxed.sys.global." words " {%0,%1,%2,%3}, [%4];"        \
                   : "=r"(a), "=r"(b), "=r"(c), "=r"(d)                                          \
                   : "l"(from)                                                                   \
                   : "memory");                                                                  \
      return Vector{a | u64(b) << 32, c | u64(d) << 32};                                         \
    }                                                                                            \
  };

TREADLE_SWITCH_FOUR(Half, Sum, "add.acc::f32.v4.f16x2")
TREADLE_SWITCH_FOUR(Half, Least, "min.v4.f16x2")
TREADLE_SWITCH_FOUR(Half, Most, "max.v4.f16x2")
TREADLE_SWITCH_FOUR(Brain, Sum, "add.acc::f32.v4.bf16x2")
TREADLE_SWITCH_FOUR(Brain, Least, "min.v4.bf16x2")
TREADLE_SWITCH_FOUR(Brain, Most, "max.v4.bf16x2")
#undef TREADLE_SWITCH_FOUR

template <>
struct SwitchSum<float, Sum> {
  static constexpr bool exists = true;
  static TREADLE_DEVICE Vector load(const char* from) {
    float a, b, c, d;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
                 : "l"(from)
                 : "memory");
    return Vector{__float_as_uint(a) | u64(__float_as_uint(b)) << 32,
                  __float_as_uint(c) | u64(__float_as_uint(d)) << 32};
  }
};

// Integers one by one: there are no vectors of them.
#define TREADLE_SWITCH_INTEGERS(Element, Combine, Word, constraint, words)                                   \
  template <>                                                                                                \
  struct SwitchSum<Element, Combine> {                                                                       \
    static constexpr bool exists = true;                                                                     \
    static TREADLE_DEVICE Vector load(const char* from) {                                                    \
      constexpr int count = sizeof(Vector) / sizeof(Word);                                                   \
      Word parts[count];                                                                                     \
      _Pragma("unroll") for (int i = 0; i < count; ++i)                                                      \
          asm volatile("multimem.ld_reduce.relaxed.sys.global." words " %0, [%1];"                           \
                       : "=" constraint(parts[i])                                                            \
                       : "l"(from + i * sizeof(Word))                                                        \
                       : "memory");                                                                          \
      Vector result;                                                                                         \
      memcpy(&result, parts, sizeof(Vector));                                                                \
      return result;                                                                                         \
    }                                                                                                        \
  };

TREADLE_SWITCH_INTEGERS(std::int32_t, Sum, u32, "r", "add.u32")
TREADLE_SWITCH_INTEGERS(std::int32_t, Least, u32, "r", "min.s32")
TREADLE_SWITCH_INTEGERS(std::int32_t, Most, u32, "r", "max.s32")
TREADLE_SWITCH_INTEGERS(i64, Sum, u64, "l", "add.u64")
TREADLE_SWITCH_INTEGERS(i64, Least, u64, "l", "min.s64")
TREADLE_SWITCH_INTEGERS(i64, Most, u64, "l", "max.s64")
#undef TREADLE_SWITCH_INTEGERS

TREADLE_DEVICE void switch_store(char* to, const Vector& value) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to),
               "f"(__uint_as_float(u32(value.low))), "f"(__uint_as_float(u32(value.low >> 32))),
               "f"(__uint_as_float(u32(value.high))), "f"(__uint_as_float(u32(value.high >> 32)))
               : "memory");
}

#else

TREADLE_DEVICE void switch_store(char*, const Vector&) {}  // before sm_90 nothing has an address that reaches all

#endif

// Words of 16 bytes are only asked for where there is an address: see takes_vectors.
TREADLE_DEVICE constexpr bool by_switch(const GroupPlace&) { return true; }

#else

inline bool by_switch(const GroupPlace& place) { return place.all; }

#endif

// A word of which `address(member)` are several, combined one after the other; types of 2 bytes are rounded once.
template <class Element, class Combine, class Word, class Address>
TREADLE_DEVICE Word combined_over(i64 n_members, Address address) {
  constexpr int count = sizeof(Word) / sizeof(Element);
  Word word = loaded<Word>(address(0), 0);
  Element parts[count];
  memcpy(parts, &word, sizeof(Word));
  decltype(wide(Element())) total[count];
  for (int i = 0; i < count; ++i) total[i] = wide(parts[i]);
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (i64 member = 1; member < n_members; ++member) {
    word = loaded<Word>(address(member), 0);
    memcpy(parts, &word, sizeof(Word));
    for (int i = 0; i < count; ++i) total[i] = Combine()(total[i], wide(parts[i]));
  }
  for (int i = 0; i < count; ++i) narrow(total[i], parts[i]);
  memcpy(&word, parts, sizeof(Word));
  return word;
}

template <class Element, class Combine, class Word>
TREADLE_DEVICE Word summed_by_rank(const Job& job, const GroupPlace& place, i64 index) {
  return combined_over<Element, Combine, Word>(
      place.n_members, [&](i64 member) { return place.of(job, member) + index * i64(sizeof(Word)); });
}

template <class Word>
TREADLE_DEVICE void copied_by_rank(const Job& job, const GroupPlace& place, i64 index, const Word& word) {
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (i64 member = 0; member < place.n_members; ++member) stored<Word>(place.of(job, member), index, word);
}

#ifndef __CUDACC__

// Threads have no switch. Where memory has addresses that reach several ranks, who made it says which bytes they mean:
// it fills `members` and returns how many there are.
constexpr i64 MOST_MEMBERS = 64;
using SwitchMembers = i64 (*)(const char* all, char** members);
inline SwitchMembers switch_members = nullptr;

// float32 has sums only, and bytes are but copied, as on a GPU.
template <class Element, class Combine>
struct SwitchSum {
  static constexpr bool exists = std::is_same_v<Element, float> ? std::is_same_v<Combine, Sum>
                                                                : !std::is_same_v<Element, std::uint8_t>;
  static Vector load(const char* from) {
    char* members[MOST_MEMBERS];
    const i64 count = switch_members(from, members);
    return combined_over<Element, Combine, Vector>(count, [&](i64 member) { return members[member]; });
  }
};

inline void switch_store(char* to, const Vector& value) {
  char* members[MOST_MEMBERS];
  const i64 count = switch_members(to, members);
  for (i64 member = 0; member < count; ++member) stored<Vector>(members[member], 0, value);
}

#endif

// 16 bytes at once by the address that reaches all; what is left, element by element.
template <class Element, class Combine, class Word>
TREADLE_DEVICE Word summed(const Job& job, const GroupPlace& place, i64 index) {
  if constexpr (sizeof(Word) == sizeof(Vector))
    if (by_switch(place)) return SwitchSum<Element, Combine>::load(place.all + index * i64(sizeof(Vector)));
  return summed_by_rank<Element, Combine, Word>(job, place, index);
}

// Stores a word at all ranks of a group.
template <class Word>
TREADLE_DEVICE void copied(const Job& job, const GroupPlace& place, i64 index, const Word& word) {
  if constexpr (sizeof(Word) == sizeof(Vector))
    if (by_switch(place)) return switch_store(place.all + index * i64(sizeof(Vector)), word);
  copied_by_rank<Word>(job, place, index, word);
}

}  // namespace treadle
