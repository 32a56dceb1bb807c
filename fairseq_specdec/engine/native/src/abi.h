// What the shared object shows of itself; all else is hidden.
#pragma once

#define SPECDEC_API __attribute__((visibility("default")))

// Raised with every change of an entry point; library.py holds the same number.
#define SPECDEC_ABI 1

#if !defined(SPECDEC_STAMP)
#define SPECDEC_STAMP "unversioned"  // setup.py defines it
#endif
