#include "tabgpt/arena.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tabgpt/error.hpp"

namespace tabgpt {

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
