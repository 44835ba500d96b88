// Flags that others raise by adding to them: what each was last told, so that a launch adds what is new.
#pragma once

#include "machine.hpp"

namespace treadle {

struct Signals {
  u64* entered;  // of each rank: its flag of this rank's entering, which launches of all programs raise
  u64* raised;   // of each row of Job::raises: its flag, which that row alone raises

  // What to add so that a flag becomes `value`. Flags of who has entered stand first.
  TREADLE_DEVICE u64 step(const Raise& raise, i64 row, i64 n_ranks, u64 value) const {
    u64& told = raise.flag < n_ranks ? entered[raise.rank] : raised[row];
    const u64 more = value - told;
    told = value;
    return more;
  }
};

}  // namespace treadle
