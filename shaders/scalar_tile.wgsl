// How register_tile.wgsl's tiles come and go word by word, at any size. Needs matmul_scalar.wgsl.
// Both tiles are [k][row of A or column of B]. 66 words a row: 16 neighbours along k and 2 across are stored to
// 32 different banks.
const STRIDE: u32 = 66u;
var<workgroup> a_tile: array<f32, 1056>;
var<workgroup> b_tile: array<f32, 1056>;

// (k, row or column) of a thread's j-th value in a tile of 16 x 64; neighbouring threads along what storage has together.
fn place(thread: u32, j: u32, along_k: bool) -> vec2<u32> {
  if (along_k) {
    return vec2<u32>(thread % 16u, thread / 16u + 16u * j);
  }
  return vec2<u32>(thread / 64u + 4u * j, thread % 64u);
}

fn place_a(thread: u32, j: u32) -> vec2<u32> { return place(thread, j, TRANS != 2u); }
fn place_b(thread: u32, j: u32) -> vec2<u32> { return place(thread, j, TRANS == 1u); }

fn one_of_a(m: u32, k: u32, end: u32, thread: u32, j: u32) -> f32 {
  let at = place_a(thread, j);
  if (m + at.y < p.M && k + at.x < end) {
    return a_at(m + at.y, k + at.x);
  }
  return 0.0;
}

fn one_of_b(k: u32, n: u32, end: u32, thread: u32, j: u32) -> f32 {
  let at = place_b(thread, j);
  if (k + at.x < end && n + at.y < p.N) {
    return b_at(k + at.x, n + at.y);
  }
  return 0.0;
}

fn load_a(m: u32, k: u32, end: u32, thread: u32) -> vec4<f32> {
  return vec4<f32>(
    one_of_a(m, k, end, thread, 0u),
    one_of_a(m, k, end, thread, 1u),
    one_of_a(m, k, end, thread, 2u),
    one_of_a(m, k, end, thread, 3u),
  );
}

fn load_b(k: u32, n: u32, end: u32, thread: u32) -> vec4<f32> {
  return vec4<f32>(
    one_of_b(k, n, end, thread, 0u),
    one_of_b(k, n, end, thread, 1u),
    one_of_b(k, n, end, thread, 2u),
    one_of_b(k, n, end, thread, 3u),
  );
}

fn store_a(thread: u32, values: vec4<f32>) {
  for (var j = 0u; j < 4u; j = j + 1u) {
    let at = place_a(thread, j);
    a_tile[at.x * STRIDE + at.y] = values[j];
  }
}

fn store_b(thread: u32, values: vec4<f32>) {
  for (var j = 0u; j < 4u; j = j + 1u) {
    let at = place_b(thread, j);
    b_tile[at.x * STRIDE + at.y] = values[j];
  }
}

// Rows and columns of a thread lie 16 apart: 16 threads read 16 neighbouring words, and write them to out.
fn result_row(y: u32, i: u32) -> u32 { return y + 16u * i; }
fn result_column(x: u32, j: u32) -> u32 { return x + 16u * j; }

fn four_of_a(k: u32, y: u32) -> vec4<f32> {
  let at = k * STRIDE + y;
  return vec4<f32>(a_tile[at], a_tile[at + 16u], a_tile[at + 32u], a_tile[at + 48u]);
}

fn four_of_b(k: u32, x: u32) -> vec4<f32> {
  let at = k * STRIDE + x;
  return vec4<f32>(b_tile[at], b_tile[at + 16u], b_tile[at + 32u], b_tile[at + 48u]);
}

fn fragment_b(x: u32, k: u32) -> mat4x4<f32> {
  return mat4x4<f32>(four_of_b(k, x), four_of_b(k + 1u, x), four_of_b(k + 2u, x), four_of_b(k + 3u, x));
}
