/** Where results are sampled, and the constants of their bounds (tests/bounds.py derives these). */
#pragma once

#include <cstdint>
#include <vector>

namespace tabgpt::gpu {

constexpr double kEps = 0x1p-23;       ///< twice the error of one rounding
constexpr double kExp = 4 * kEps;      ///< relative error allowed to a kernel's exp
constexpr double kLeastBound = 1e-30;  ///< where all terms of a sum are zero

constexpr uint64_t kTile = 64;       ///< a multiple or a divisor of every kernel's tiles
constexpr size_t kMostColumns = 16;  ///< each is as long as a result has rows

/** Of `count` rows: each tile's first, its last and one within, and every third of the first tile. */
std::vector<uint64_t> sampled_lines(uint64_t count);

}  // namespace tabgpt::gpu
