#include "tabgpt/arena.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#if defined(__linux__) || defined(__APPLE__)
#include <unistd.h>
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

void Arena::release() {
  std::free(data_);
  data_ = nullptr;
}

}  // namespace tabgpt
