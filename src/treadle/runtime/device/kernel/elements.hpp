// Element types, and how two of them are combined. Types of 2 bytes are combined as floats and rounded once:
// 24 bits of a float are enough for that to be the correctly rounded sum.
#pragma once

#include "machine.hpp"

#include <cstring>
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace treadle {

struct Half {
  std::uint16_t bits;
};

struct Brain {
  std::uint16_t bits;
};

template <class To, class From>
TREADLE_DEVICE To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

#ifdef __CUDACC__
TREADLE_DEVICE float wide(Half value) { return __half2float(bits_as<__half>(value)); }
TREADLE_DEVICE float wide(Brain value) { return __bfloat162float(bits_as<__nv_bfloat16>(value)); }
TREADLE_DEVICE void narrow(float value, Half& result) { result = bits_as<Half>(__float2half_rn(value)); }
TREADLE_DEVICE void narrow(float value, Brain& result) { result = bits_as<Brain>(__float2bfloat16_rn(value)); }
#else
inline float wide(Half value) {
  const u32 sign = u32(value.bits & 0x8000u) << 16, magnitude = value.bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return bits_as<float>(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
  if (magnitude >= 0x400u) return bits_as<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float tiny = float(magnitude) * (1.0f / 16777216.0f);  // subnormal: units of 2^-24
  return sign ? -tiny : tiny;
}

inline void narrow(float value, Half& result) {
  const u32 bits = bits_as<u32>(value), sign = bits >> 16 & 0x8000u;
  u32 magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    result.bits = std::uint16_t(sign | 0x7E00u);
  } else if (magnitude >= 0x477FF000u) {  // 65520 and more round to infinity
    result.bits = std::uint16_t(sign | 0x7C00u);
  } else if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 leaves units of 2^-24 in the low bits, rounded
    result.bits = std::uint16_t(sign | (bits_as<u32>(bits_as<float>(magnitude) + 0.5f) - 0x3F000000u));
  } else {
    magnitude += 0xFFFu + (magnitude >> 13 & 1u);
    result.bits = std::uint16_t(sign | ((magnitude - (112u << 23)) >> 13));
  }
}

inline float wide(Brain value) { return bits_as<float>(u32(value.bits) << 16); }

inline void narrow(float value, Brain& result) {
  const u32 bits = bits_as<u32>(value);
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  result.bits = std::uint16_t(is_nan ? bits >> 16 | 0x40u : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
#endif

template <class T>
TREADLE_DEVICE T wide(T value) {
  return value;
}
template <class T>
TREADLE_DEVICE void narrow(T value, T& result) {
  result = value;
}

struct Sum {
  template <class T>
  TREADLE_DEVICE T operator()(T one, T other) const {
    return one + other;
  }
  // signed overflow wraps, as on the device
  TREADLE_DEVICE std::int32_t operator()(std::int32_t one, std::int32_t other) const {
    return std::int32_t(u32(one) + u32(other));
  }
  TREADLE_DEVICE i64 operator()(i64 one, i64 other) const { return i64(u64(one) + u64(other)); }
};

struct Least {
  template <class T>
  TREADLE_DEVICE T operator()(T one, T other) const {
    return other < one ? other : one;
  }
};

struct Most {
  template <class T>
  TREADLE_DEVICE T operator()(T one, T other) const {
    return one < other ? other : one;
  }
};

template <class Element, class Combine>
TREADLE_DEVICE Element combined(Element one, Element other) {
  Element result;
  narrow(Combine()(wide(one), wide(other)), result);
  return result;
}

template <class T>
TREADLE_DEVICE T quotient(T sum, i64 n) {
  return sum / T(n);
}
template <class T>
TREADLE_DEVICE T floored(T sum, T n) {
  return sum / n - (sum % n != 0 && sum < 0);
}
TREADLE_DEVICE std::int32_t quotient(std::int32_t sum, i64 n) { return floored(sum, std::int32_t(n)); }
TREADLE_DEVICE i64 quotient(i64 sum, i64 n) { return floored(sum, n); }

// A word of several elements, combined one by one.
template <class Element, class Combine, class Word>
TREADLE_DEVICE Word combined_words(Word one, Word other) {
  constexpr int count = sizeof(Word) / sizeof(Element);
  Element a[count], b[count];
  memcpy(a, &one, sizeof(Word));
  memcpy(b, &other, sizeof(Word));
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int i = 0; i < count; ++i) a[i] = combined<Element, Combine>(a[i], b[i]);
  memcpy(&one, a, sizeof(Word));
  return one;
}

}  // namespace treadle
