// What the shared object shows of itself; all else is hidden.
#pragma once

#define SPECDEC_API __attribute__((visibility("default")))
