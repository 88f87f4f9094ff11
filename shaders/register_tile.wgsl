// A workgroup's 64 x 64 tile of a product: 256 threads, 4 x 4 results each, 16 of K at a time. Needs matmul.wgsl,
// matmul_epilogue.wgsl and multiply_add.wgsl.
// A kernel that includes this says how both tiles come into workgroup memory and out of it:
//   load_a(m, k, end, thread), load_b(k, n, end, thread)   four values of a step's tile, 0 outside op(A) or op(B)
//   store_a(thread, values), store_b(thread, values)       the same to workgroup memory
//   fragment_a(y, k), fragment_b(x, k)                     4 x 4 values for one thread: [result's row][k], [k][column]
//   result_row(y, i), result_column(x, j)                  where in the tile those are
// SPLIT: group.z takes its part of K and leaves a bare sum in out[z, M, N]; matmul_split.wgsl adds them up.
// Grid [ceil(N/64), ceil(M/64), parts of K]; without SPLIT one part.
override SPLIT: u32 = 0u;
const SIDE: u32 = 64u;
const DEPTH: u32 = 16u;
const SUMMED: u32 = 64u;  // K is summed in blocks of this many: the error grows with 64 + K/64, not with K

fn leave(m: u32, n: u32, part: u32, sum: f32) {
  if (m >= p.M || n >= p.N) {
    return;
  }
  if (SPLIT != 0u) {
    out[(part * p.M + m) * p.N + n] = sum;
  } else {
    finish(m, n, sum);
  }
}

fn product_tile(group: vec3<u32>, parts: u32, thread: u32) {
  let x = thread % 16u;
  let y = thread / 16u;
  let m = group.y * SIDE;
  let n = group.x * SIDE;
  let steps = (p.K + DEPTH - 1u) / DEPTH;
  let part = (steps + parts - 1u) / parts * DEPTH;
  let start = min(group.z * part, p.K);
  let end = min(start + part, p.K);
  var total = mat4x4<f32>();
  var sum = mat4x4<f32>();
  var a = load_a(m, start, end, thread);
  var b = load_b(start, n, end, thread);
  for (var at = start; at < end; at = at + DEPTH) {
    store_a(thread, a);
    store_b(thread, b);
    workgroupBarrier();
    // The next step's values are on their way while this one's are multiplied.
    a = load_a(m, at + DEPTH, end, thread);
    b = load_b(at + DEPTH, n, end, thread);
    for (var k = 0u; k < DEPTH; k = k + 4u) {
      sum = multiply_add(sum, fragment_a(y, k), fragment_b(x, k));
    }
    if ((at - start) % SUMMED == SUMMED - DEPTH) {
      total = total + sum;
      sum = mat4x4<f32>();
    }
    workgroupBarrier();  // before the tiles are overwritten
  }
  total = total + sum;
  for (var i = 0u; i < 4u; i = i + 1u) {
    for (var j = 0u; j < 4u; j = j + 1u) {
      leave(m + result_row(y, i), n + result_column(x, j), group.z, total[i][j]);
    }
  }
}
