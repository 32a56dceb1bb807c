// Exceptions stop at the C ABI: a code goes out, and the message waits for the thread that asks.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace specdec {

enum Code { kDone = 0, kBadArgument = 1, kNoMemory = 2, kFailed = 3 };

// The message of the last failed call of this thread.
inline std::string& last_error() {
  static thread_local std::string message;
  return message;
}

inline int failed(Code code, const char* message) noexcept {
  try {
    last_error() = message;
  } catch (...) {
    last_error().clear();  // no memory even for the message: the code stands alone
  }
  return code;
}

// Runs `body`; 0, or the code of what it threw. Every entry point of the ABI that can fail is one.
template <typename Body>
int guarded(Body&& body) noexcept {
  try {
    body();
    return kDone;
  } catch (const std::bad_alloc&) {
    return failed(kNoMemory, "out of memory");
  } catch (const std::invalid_argument& error) {
    return failed(kBadArgument, error.what());
  } catch (const std::exception& error) {
    return failed(kFailed, error.what());
  } catch (...) {
    return failed(kFailed, "unknown exception");
  }
}

// std::invalid_argument with this message unless `held`.
inline void require(bool held, const char* message) {
  if (!held) throw std::invalid_argument(message);
}
inline void require(bool held, const std::string& message) { require(held, message.c_str()); }

// Counts and positions that callers give: larger ones would overflow what is computed of them.
constexpr int64_t kMost = int64_t{1} << 24;

// A caller's number of things as an int; std::invalid_argument unless least <= count < kMost.
inline int bounded(int64_t count, int64_t least, const char* message) {
  require(count >= least && count < kMost, message);
  return static_cast<int>(count);
}

}  // namespace specdec
