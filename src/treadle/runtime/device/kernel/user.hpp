// What the user does at a rank between launches.
#pragma once

#include "tables.hpp"

namespace treadle {

struct User {
  const char* const* inputs;  // of each launch
  char* const* outputs;
  i64 input_bytes, output_bytes, scratch_bytes, is_in_place;
};

}  // namespace treadle
