// Aligned buffers. Every allocation failure is a std::bad_alloc, which the ABI turns into a code.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace specdec {

// `count` zeroed numbers of type T, aligned to a cache line; large ones lie on huge pages where the
// system gives them (a product over 16 MB of weights spends a tenth of its time on the page table
// otherwise).
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t count) : count_(count) {
    if (count == 0) return;
    if (count > static_cast<size_t>(-1) / 2 / sizeof(T)) throw std::bad_alloc();
    constexpr size_t kLine = 64, kHugePage = size_t{2} << 20;
    size_t bytes = (count * sizeof(T) + kLine - 1) / kLine * kLine;
    const bool large = bytes >= kHugePage;
    void* data = nullptr;
    if (posix_memalign(&data, large ? kHugePage : kLine, bytes) != 0) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    if (large) madvise(data, bytes, MADV_HUGEPAGE);
#endif
    std::memset(data, 0, bytes);
    data_ = static_cast<T*>(data);
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
    if (owned_) std::free(data_);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }

  // At least `count` numbers, of any value where it had to grow.
  T* reserve(size_t count) {
    if (count > count_) *this = Buffer(count);
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
