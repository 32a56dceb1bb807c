// What Python asks before anything else: is this the object that belongs to these sources?
#include "abi.h"

#include "errors.h"
#include "pool.h"

extern "C" {

// The package's version and the variant this was compiled for, "1.2.0 avx512".
SPECDEC_API const char* specdec_stamp() { return SPECDEC_STAMP; }

// How many threads share a large product from now on.
SPECDEC_API int specdec_set_threads(int count) {
  return specdec::guarded([&] {
    specdec::require(count > 0 && count <= 1024, "threads: choose 1 to 1024");
    specdec::Pool::set_threads(count);
  });
}

// The message of the last failed call of this thread; valid until the thread's next failed call.
SPECDEC_API const char* specdec_error() { return specdec::last_error().c_str(); }
}
