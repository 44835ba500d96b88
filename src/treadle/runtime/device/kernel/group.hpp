// Memory of all ranks around a switch at once: read as a sum, and written in one store, by the multimem instructions of
// sm_90 and later where there is an address that reaches all, else rank by rank.
#pragma once

#include "elements.hpp"

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

// One place in a buffer at every rank of a group; no members: there is none.
struct GroupPlace {
  char* all;  // reaches all of them; null where nothing does
  const i64* members;
  i64 n_members, buffer, at;

  TREADLE_DEVICE char* of(const Job& job, i64 member) const { return job.memory[members[member]].buffers[buffer] + at; }

  // Whether it is read or written 16 bytes at once: on a GPU where multimem does it, for threads where all are aligned.
  template <bool has_instruction>
  TREADLE_DEVICE bool takes_vectors(const Job& job) const {
#ifdef __CUDACC__
    (void)job;
    return !n_members || (has_instruction && all && reinterpret_cast<std::uintptr_t>(all) % sizeof(Vector) == 0);
#else
    std::uintptr_t bits = 0;
    for (i64 member = 0; member < n_members; ++member) bits |= reinterpret_cast<std::uintptr_t>(of(job, member));
    return bits % sizeof(Vector) == 0;
#endif
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

#elif defined(__CUDACC__)

TREADLE_DEVICE void switch_store(char*, const Vector&) {}  // before sm_90 nothing has an address that reaches all

#endif

// Word `index` of a place, combined over all ranks of its group one after the other; types of 2 bytes are rounded once.
template <class Element, class Combine, class Word>
TREADLE_DEVICE Word summed_by_rank(const Job& job, const GroupPlace& place, i64 index) {
  constexpr int count = sizeof(Word) / sizeof(Element);
  Word word = loaded<Word>(place.of(job, 0), index);
  Element parts[count];
  memcpy(parts, &word, sizeof(Word));
  decltype(wide(Element())) total[count];
  for (int i = 0; i < count; ++i) total[i] = wide(parts[i]);
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (i64 member = 1; member < place.n_members; ++member) {
    word = loaded<Word>(place.of(job, member), index);
    memcpy(parts, &word, sizeof(Word));
    for (int i = 0; i < count; ++i) total[i] = Combine()(total[i], wide(parts[i]));
  }
  for (int i = 0; i < count; ++i) narrow(total[i], parts[i]);
  memcpy(&word, parts, sizeof(Word));
  return word;
}

template <class Word>
TREADLE_DEVICE void copied_by_rank(const Job& job, const GroupPlace& place, i64 index, const Word& word) {
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (i64 member = 0; member < place.n_members; ++member) stored<Word>(place.of(job, member), index, word);
}

#ifdef __CUDACC__
constexpr bool in_switch = true;  // 16 bytes at once; what is left, element by element
#else
constexpr bool in_switch = false;
TREADLE_DEVICE void switch_store(char*, const Vector&) {}
#endif

template <class Element, class Combine, class Word>
TREADLE_DEVICE Word summed(const Job& job, const GroupPlace& place, i64 index) {
  if constexpr (in_switch && sizeof(Word) == sizeof(Vector))
    return SwitchSum<Element, Combine>::load(place.all + index * i64(sizeof(Vector)));
  else
    return summed_by_rank<Element, Combine, Word>(job, place, index);
}

// Stores a word at all ranks of a group.
template <class Word>
TREADLE_DEVICE void copied(const Job& job, const GroupPlace& place, i64 index, const Word& word) {
  if constexpr (in_switch && sizeof(Word) == sizeof(Vector))
    switch_store(place.all + index * i64(sizeof(Vector)), word);
  else
    copied_by_rank<Word>(job, place, index, word);
}

}  // namespace treadle
