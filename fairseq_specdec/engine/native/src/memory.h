// Aligned buffers. Every allocation failure is a std::bad_alloc, which the ABI turns into a code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace specdec {

// Zeroed bytes, aligned to a cache line. Large blocks lie outside the heap, which blocks of ever new
// sizes would leave in pieces, and on huge pages where the system gives them (a product over 16 MB of
// weights spends a tenth of its time on the page table otherwise).
#if defined(__linux__)
constexpr size_t kHugePage = size_t{2} << 20;

inline void* map(size_t bytes) {
  // Whole huge pages, one more than needed: what lies before the first and behind the last returns.
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* whole = mmap(nullptr, rounded + kHugePage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED) throw std::bad_alloc();
  const size_t before = -reinterpret_cast<uintptr_t>(whole) % kHugePage;
  char* data = static_cast<char*>(whole) + before;
  if (before > 0) munmap(whole, before);
  munmap(data + rounded, kHugePage - before);
  madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}
#endif

inline void* allocate(size_t bytes) {
#if defined(__linux__)
  if (bytes >= kHugePage) return map(bytes);
#endif
  void* data = nullptr;
  if (posix_memalign(&data, 64, (bytes + 63) / 64 * 64) != 0) throw std::bad_alloc();
  return std::memset(data, 0, bytes);
}

inline void release(void* data, size_t bytes) {
#if defined(__linux__)
  if (bytes >= kHugePage) {
    munmap(data, (bytes + kHugePage - 1) / kHugePage * kHugePage);
    return;
  }
#endif
  std::free(data);
}

// `count` zeroed numbers of type T.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t count) {
    if (count == 0) return;
    if (count > static_cast<size_t>(-1) / 2 / sizeof(T)) throw std::bad_alloc();
    data_ = static_cast<T*>(allocate(count * sizeof(T)));
    count_ = count;
  }
  // Memory of somebody else, who keeps it longer than the buffer; it is only read.
  static Buffer borrowed(const T* data, size_t count) {
    Buffer buffer;
    buffer.data_ = const_cast<T*>(data);
    buffer.count_ = count;
    buffer.owned_ = false;
    return buffer;
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (owned_ && data_ != nullptr) release(data_, count_ * sizeof(T));
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }

  // At least `count` numbers, of any value where it had to grow.
  T* reserve(size_t count) {
    if (count > count_) {
      *this = Buffer();
      *this = Buffer(count);
    }
    return data_;
  }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(owned_, other.owned_);
  }
  T* data_ = nullptr;
  size_t count_ = 0;
  bool owned_ = true;
};

}  // namespace specdec
