/** One block of zeroed, 256-byte aligned memory whose size the plan knew before. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tabgpt/layout.hpp"

namespace tabgpt {

/** Bytes of memory that the machine has; 0 where it does not say. */
uint64_t physical_memory();

/** Bytes that the process has allocated and not freed; NaN where its C library does not say. */
double heap_bytes();

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { release(); }

  /** Errors (false): no such memory; the text names `role` and the bytes. What was held before is released.
   */
  bool allocate(const char* role, uint64_t bytes);
  void release();

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  float* floats() const { return as<float>(); }

 private:
  void* data_ = nullptr;
};

/** One range of floats in arenas of `piece_floats` each: more than one allocation may give. */
class Pieces {
 public:
  /** Errors (false): as Arena::allocate. What was held before is released. */
  bool allocate(const char* role, uint64_t floats, uint64_t piece_floats);
  /** The float at an offset from the start of the first piece. */
  float* at(uint64_t offset) const {
    return pieces_[static_cast<size_t>(offset / piece_floats_)].floats() + offset % piece_floats_;
  }

 private:
  std::unique_ptr<Arena[]> pieces_;
  uint64_t piece_floats_ = 1;
};

/**
 * Hands out aligned pieces of an arena in order. Without an arena it only
 * counts, so that one function both measures a structure and lays it out.
 */
class Carver {
 public:
  explicit Carver(void* base = nullptr) : base_(static_cast<char*>(base)) {}

  template <typename T>
  T* take(uint64_t count) {
    char* piece = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += align_bytes(count * sizeof(T));
    return reinterpret_cast<T*>(piece);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  char* base_;
  uint64_t bytes_ = 0;
};

}  // namespace tabgpt
