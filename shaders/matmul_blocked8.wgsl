// out[M,N] = op(A) op(B) with the epilogue of matmul_epilogue.wgsl: a 128 x 128 tile, 8 x 8 results a thread. For the
// record, not for training: few workgroups, 64 sums a thread. Grid [ceil(N/128), ceil(M/128), 1]. Any size.
// A step of 8 of K moves 8 KiB from storage and makes 262,144 flops of it: 32 a byte. A thread reads 64 words of
// workgroup memory for 512 flops.
//! include math.wgsl
//! include gelu.wgsl
//! include matmul.wgsl
//! include step.wgsl
//! include philox.wgsl
//! include matmul_epilogue.wgsl
//! include matmul_scalar.wgsl
//! include matmul_f32.wgsl
//! include multiply_add.wgsl

const SIDE: u32 = 128u;
const DEPTH: u32 = 8u;
const STRIDE: u32 = 132u;  // words a row of both tiles, [k][row of A or column of B]
var<workgroup> a_tile: array<f32, 1056>;
var<workgroup> b_tile: array<f32, 1056>;

// (k, row or column) of a thread's j-th value in a tile of 8 x 128; neighbouring threads along what storage has together.
fn place(thread: u32, j: u32, along_k: bool) -> vec2<u32> {
  if (along_k) {
    return vec2<u32>(thread % 8u, thread / 8u + 32u * j);
  }
  return vec2<u32>(thread / 128u + 2u * j, thread % 128u);
}

// Rows and columns of a thread lie 16 apart.
fn four_of_a(k: u32, first: u32) -> vec4<f32> {
  let at = k * STRIDE + first;
  return vec4<f32>(a_tile[at], a_tile[at + 16u], a_tile[at + 32u], a_tile[at + 48u]);
}

fn four_of_b(k: u32, first: u32) -> vec4<f32> {
  let at = k * STRIDE + first;
  return vec4<f32>(b_tile[at], b_tile[at + 16u], b_tile[at + 32u], b_tile[at + 48u]);
}

fn fragment_a(k: u32, y: u32) -> mat4x4<f32> {
  return transpose(mat4x4<f32>(four_of_a(k, y), four_of_a(k + 1u, y), four_of_a(k + 2u, y), four_of_a(k + 3u, y)));
}

fn fragment_b(k: u32, x: u32) -> mat4x4<f32> {
  return mat4x4<f32>(four_of_b(k, x), four_of_b(k + 1u, x), four_of_b(k + 2u, x), four_of_b(k + 3u, x));
}

fn leave(m: u32, n: u32, sums: mat4x4<f32>) {
  for (var i = 0u; i < 4u; i = i + 1u) {
    for (var j = 0u; j < 4u; j = j + 1u) {
      if (m + 16u * i < p.M && n + 16u * j < p.N) {
        finish(m + 16u * i, n + 16u * j, sums[i][j]);
      }
    }
  }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let x = thread % 16u;
  let y = thread / 16u;
  let m = group.y * SIDE;
  let n = group.x * SIDE;
  var upper_left = mat4x4<f32>();
  var upper_right = mat4x4<f32>();
  var lower_left = mat4x4<f32>();
  var lower_right = mat4x4<f32>();
  for (var start = 0u; start < p.K; start = start + DEPTH) {
    for (var j = 0u; j < 4u; j = j + 1u) {
      let in_a = place(thread, j, TRANS != 2u);
      var a = 0.0;
      if (m + in_a.y < p.M && start + in_a.x < p.K) {
        a = a_at(m + in_a.y, start + in_a.x);
      }
      a_tile[in_a.x * STRIDE + in_a.y] = a;
      let in_b = place(thread, j, TRANS == 1u);
      var b = 0.0;
      if (start + in_b.x < p.K && n + in_b.y < p.N) {
        b = b_at(start + in_b.x, n + in_b.y);
      }
      b_tile[in_b.x * STRIDE + in_b.y] = b;
    }
    workgroupBarrier();
    for (var k = 0u; k < DEPTH; k = k + 4u) {
      let upper = fragment_a(k, y);
      let lower = fragment_a(k, y + 64u);
      let left = fragment_b(k, x);
      let right = fragment_b(k, x + 64u);
      upper_left = multiply_add(upper_left, upper, left);
      upper_right = multiply_add(upper_right, upper, right);
      lower_left = multiply_add(lower_left, lower, left);
      lower_right = multiply_add(lower_right, lower, right);
    }
    workgroupBarrier();  // before the tiles are overwritten
  }
  leave(m + y, n + x, upper_left);
  leave(m + y, n + x + 64u, upper_right);
  leave(m + y + 64u, n + x, lower_left);
  leave(m + y + 64u, n + x + 64u, lower_right);
}
