// Memory that was freed goes back to the system. glibc serves arrays of less than 32 MB from its heaps once some were
// freed, and keeps the pages: after a search over millions of paths those are more than what is still in use.
#pragma once
#include <cstdlib>  // says whether it is glibc

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace treadle {

// Whether anything was given back.
inline bool release_memory() {
#if defined(__GLIBC__)
    return malloc_trim(0) != 0;
#else
    return false;
#endif
}

}  // namespace treadle
