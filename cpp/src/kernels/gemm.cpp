/**
 * matmul: packed panels and a register tile (Goto & van de Geijn 2008).
 *
 * For each block of N, of K and of M: all threads pack op(A) into panels of tile_rows and op(B) into panels
 * of tile_columns (so NN, NT and TN differ only in how a panel is filled), then run a grid of tasks, each a
 * rectangle of register tiles. An output tile belongs to one task and sums its K blocks in order, so the
 * result is the same for any number of threads. Panels are padded with zeros: edge tiles run the same code
 * into a buffer. A few rows take a way of their own (gemm_few.hpp).
 */
#include "gemm_few.hpp"
#include "gemm_pack.hpp"
#include "isa.hpp"
#include "masks.hpp"
#include "math.hpp"
#include "micro.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

static_assert(tile_rows <= panel_limit && tile_columns <= panel_limit);

namespace {

/** n cut into equal blocks of at most `limit`, each but the last a multiple of `multiple`. */
size_t even_block(size_t n, size_t limit, size_t multiple) {
  const size_t count = divide_up(n, limit);
  return round_up(divide_up(n, count), multiple);
}

/** The rectangle of register tiles that is one task. */
struct Grid {
  size_t rows, columns;            ///< of one task
  size_t row_tasks, column_tasks;  ///< in the block
};

/** Rectangles as large as cache allows, but at least 16 of them where there is work for that many. */
Grid task_grid(size_t m, size_t n) {
  size_t rows = smaller(round_up(m, tile_rows), 16 * tile_rows);
  size_t columns = smaller(round_up(n, tile_columns), round_up(256, tile_columns));
  while (divide_up(m, rows) * divide_up(n, columns) < 16) {
    if (columns >= 64 && columns > tile_columns) {
      columns = round_up(columns / 2, tile_columns);
    } else if (rows > 4 * tile_rows) {
      rows = round_up(rows / 2, tile_rows);
    } else {
      break;
    }
  }
  return {rows, columns, divide_up(m, rows), divide_up(n, columns)};
}

/** bias, GELU, dropout, residual, factor on the rows x columns of out that start at (row, column). */
void apply_epilogue(const Epilogue& e, float* out, size_t N, size_t row, size_t column, size_t rows,
                    size_t columns) {
  for (size_t i = row; i < row + rows; i++) {
    float* const y = out + i * N + column;
    const float* const residual = e.residual == nullptr ? nullptr : e.residual + i * N + column;
    float* const pre_gelu = e.pre_gelu == nullptr ? nullptr : e.pre_gelu + i * N + column;
    float* const slope = e.slope == nullptr ? nullptr : e.slope + i * N + column;
    float* const pre_factor = e.pre_factor == nullptr ? nullptr : e.pre_factor + i * N + column;
    const float* const factor = e.factor == nullptr ? nullptr : e.factor + i * N + column;
    float factors[mask_group];
    for (size_t j0 = 0; j0 < columns; j0 += mask_group) {
      const size_t count = smaller(mask_group, columns - j0);
      const bool masked = e.dropout != nullptr && e.dropout->threshold != 0;
      if (masked) dropout_factors(factors, uint64_t{i} * N + column + j0, count, *e.dropout);
      for_vectors(count, [&](size_t jj, auto n) {
        const size_t j = j0 + jj;
        vf x = load_n(y + j, n);
        if (e.bias != nullptr) x = x + load_n(e.bias + column + j, n);
        if (e.gelu != Gelu::none) {
          if (pre_gelu != nullptr) store_n(pre_gelu + j, x, n);
          const GeluValue value = gelu_value(x, e.gelu);
          if (slope != nullptr) store_n(slope + j, value.slope, n);
          x = value.y;
        }
        if (masked) x = x * load_n(factors + jj, n);
        if (residual != nullptr) x = x + load_n(residual + j, n);
        if (factor != nullptr) {
          if (pre_factor != nullptr) store_n(pre_factor + j, x, n);
          x = x * load_n(factor + j, n);
        }
        store_n(y + j, x, n);
      });
    }
  }
}

/**
 * out[rows, columns] (+)= packed a . packed b over k: whole register tiles, the cut ones through a buffer.
 * Asks meanwhile for the same places of `operand` (or null), which the epilogue will read: it lies beyond L2.
 */
void multiply_panels(size_t rows, size_t columns, size_t k, const float* a, const float* b, float* out,
                     size_t ldc, bool accumulate, const float* operand) {
  for (size_t j = 0; j < columns; j += tile_columns) {
    for (size_t i = 0; i < rows; i += tile_rows) {
      if (operand != nullptr)
        for (size_t ii = i; ii < smaller(i + tile_rows, rows); ii++)
          __builtin_prefetch(operand + ii * ldc + j);
      const auto tile = multiply_packed<tile_rows, tile_vectors>(k, a + i * k, b + j * k);
      float* const c = out + i * ldc + j;
      const size_t m = smaller(tile_rows, rows - i), n = smaller(tile_columns, columns - j);
      if (m == tile_rows && n == tile_columns) {
        put(tile, c, ldc, accumulate);
        continue;
      }
      float buffer[tile_rows * tile_columns];
      put(tile, buffer, tile_columns, false);
      for (size_t ii = 0; ii < m; ii++)
        for (size_t jj = 0; jj < n; jj++) {
          const float x = buffer[ii * tile_columns + jj];
          c[ii * ldc + jj] = accumulate ? c[ii * ldc + jj] + x : x;
        }
    }
  }
}

}  // namespace

void matmul(Pool& pool, void* workspace, Trans trans, size_t M, size_t N, size_t K, const float* A,
            const float* B, float* out, const Epilogue& epilogue) {
  if (M == 0 || N == 0) return;
  const Strided a = trans == Trans::TN ? Strided{A, 1, M} : Strided{A, K, 1};
  const Strided b =
      trans == Trans::NT ? Strided{B, K, 1} : Strided{B, 1, N};  // "row" of b: a column of op(B)
  const float* const operand = epilogue.factor != nullptr ? epilogue.factor : epilogue.residual;
  const bool has_epilogue = epilogue.bias != nullptr || epilogue.gelu != Gelu::none ||
                            epilogue.residual != nullptr || epilogue.factor != nullptr ||
                            (epilogue.dropout != nullptr && epilogue.dropout->threshold != 0);
  if (M <= few_rows) {
    const Chunks columns = chunks(N, larger(few_columns, few_task_products / (M * K + 1)), 16, few_columns);
    pool.parallel_for(columns.count, [&](size_t task, size_t) {
      const size_t begin = columns.begin(task), end = columns.end(task);
      multiply_few(M, K, a, b, N, out, begin, end, epilogue.accumulate);
      if (has_epilogue) apply_epilogue(epilogue, out, N, 0, begin, M, end - begin);
    });
    return;
  }

  const size_t block_m = even_block(M, gemm_m, tile_rows), block_n = even_block(N, gemm_n, tile_columns);
  const size_t block_k = K == 0 ? 1 : even_block(K, gemm_k, 4);
  float* const packed_a = static_cast<float*>(workspace);
  float* const packed_b = packed_a + round_up(block_m * block_k, 16);

  for (size_t n0 = 0; n0 < N; n0 += block_n) {
    const size_t n = smaller(block_n, N - n0);
    // K == 0 still goes round once: the product is 0, and the epilogue applies.
    for (size_t k0 = 0; k0 == 0 || k0 < K; k0 += block_k) {
      const size_t k = smaller(block_k, K - k0);
      const bool last = k0 + k == K, accumulate = epilogue.accumulate || k0 != 0;
      for (size_t m0 = 0; m0 < M; m0 += block_m) {
        const size_t m = smaller(block_m, M - m0);
        const Chunks a_chunks = chunks(m, 8 * tile_rows, 16, tile_rows);
        const Chunks b_chunks = m0 == 0 ? chunks(n, 32, 16, tile_columns) : Chunks{0, 1, 0};
        pool.parallel_for(a_chunks.count + b_chunks.count, [&](size_t task, size_t) {
          // a's chunks evenly among b's: a thread's share of the tasks then holds its share of a's rows.
          const size_t total = a_chunks.count + b_chunks.count, of_a = task * a_chunks.count / total;
          if ((task + 1) * a_chunks.count / total != of_a) {
            const size_t i = a_chunks.begin(of_a);
            pack<tile_rows>(packed_a + i * k, a.at(m0 + i, k0), a_chunks.end(of_a) - i, k);
          } else {
            const size_t of_b = task - of_a, j = b_chunks.begin(of_b);
            pack<tile_columns>(packed_b + j * k, b.at(n0 + j, k0), b_chunks.end(of_b) - j, k);
          }
        });
        const Grid grid = task_grid(m, n);
        pool.parallel_for(grid.row_tasks * grid.column_tasks, [&](size_t task, size_t) {
          const size_t i = task / grid.column_tasks * grid.rows, j = task % grid.column_tasks * grid.columns;
          const size_t rows = smaller(grid.rows, m - i), columns = smaller(grid.columns, n - j);
          const float* const read = last ? operand : nullptr;
          multiply_panels(rows, columns, k, packed_a + i * k, packed_b + j * k, out + (m0 + i) * N + n0 + j,
                          N, accumulate, read == nullptr ? nullptr : read + (m0 + i) * N + n0 + j);
          if (last && has_epilogue) apply_epilogue(epilogue, out, N, m0 + i, n0 + j, rows, columns);
        });
      }
    }
  }
}

}  // namespace tabgpt::kernels::TABGPT_ISA
