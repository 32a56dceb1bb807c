// What the shared object shows of itself; all else is hidden.
#pragma once

#define SPECDEC_API __attribute__((visibility("default")))

#if !defined(SPECDEC_STAMP)
#define SPECDEC_STAMP "unversioned"  // setup.py defines it
#endif
