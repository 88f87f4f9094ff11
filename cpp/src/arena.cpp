#include "tabgpt/arena.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#if defined(__linux__) || defined(__APPLE__)
#include <unistd.h>
#endif
#if defined(__EMSCRIPTEN__) || defined(__GLIBC__)
#include <malloc.h>
#endif

#include "tabgpt/error.hpp"

namespace tabgpt {

uint64_t physical_memory() {
#if defined(__linux__) || defined(__APPLE__)
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
#else
  return 0;
#endif
}

double heap_bytes() {
#if defined(__EMSCRIPTEN__)
  return static_cast<double>(static_cast<size_t>(mallinfo().uordblks));
#elif defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<double>(heap.uordblks) + static_cast<double>(heap.hblkhd);
#else
  return std::numeric_limits<double>::quiet_NaN();
#endif
}

bool Arena::allocate(const char* role, uint64_t bytes) {
  release();
  const uint64_t aligned = align_bytes(bytes);
  if (aligned == 0) return true;
  if (aligned <= PTRDIFF_MAX) data_ = std::aligned_alloc(kAlignmentBytes, static_cast<size_t>(aligned));
  if (data_ == nullptr) {
    return fail(
        "no memory for %s: %llu bytes asked for; use a smaller model or batch_size, or a build with more "
        "memory",
        role, static_cast<unsigned long long>(aligned));
  }
  std::memset(data_, 0, static_cast<size_t>(aligned));
  return true;
}

bool Pieces::allocate(const char* role, uint64_t floats, uint64_t piece_floats) {
  const uint64_t count = (floats + piece_floats - 1) / piece_floats;
  pieces_.reset(new (std::nothrow) Arena[static_cast<size_t>(count)]);
  if (pieces_ == nullptr) {
    return fail("no memory for the list of %s; use a smaller model or batch_size", role);
  }
  piece_floats_ = piece_floats;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t size = std::min(piece_floats, floats - i * piece_floats);
    if (!pieces_[static_cast<size_t>(i)].allocate(role, size * sizeof(float))) return false;
  }
  return true;
}

void Arena::release() {
  std::free(data_);
  data_ = nullptr;
}

}  // namespace tabgpt
