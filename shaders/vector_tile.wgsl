// How register_tile.wgsl's tiles come and go in vectors of 4. Needs matmul.wgsl, and `alias Kept`, what the tiles hold.
// A's and B's rows must hold a multiple of 4 (NN: K, N; NT: K; TN: M, N) and start at multiples of 16 bytes.
alias Operand = vec4<f32>;

// In storage's own order, a vector along what it has together: [row or column][k / 4], 5 vectors a row so that 8
// neighbouring rows lie in different banks, or [k][row or column / 4], 16 vectors a row.
const ALONG_K: u32 = 5u;
const ACROSS_K: u32 = 16u;
var<workgroup> a_tile: array<Kept, 320>;
var<workgroup> b_tile: array<Kept, 320>;

fn load_a(m: u32, k: u32, end: u32, thread: u32) -> vec4<f32> {
  if (TRANS == 2u) {
    let row = k + thread / 16u;
    let at = m / 4u + thread % 16u;
    if (row < end && at < p.M / 4u) {
      return A[row * (p.M / 4u) + at];
    }
    return vec4<f32>();
  }
  let row = m + thread / 4u;
  let at = k / 4u + thread % 4u;
  if (row < p.M && 4u * at < end) {
    return A[row * (p.K / 4u) + at];
  }
  return vec4<f32>();
}

fn load_b(k: u32, n: u32, end: u32, thread: u32) -> vec4<f32> {
  if (TRANS == 1u) {
    let row = n + thread / 4u;
    let at = k / 4u + thread % 4u;
    if (row < p.N && 4u * at < end) {
      return B[row * (p.K / 4u) + at];
    }
    return vec4<f32>();
  }
  let row = k + thread / 16u;
  let at = n / 4u + thread % 16u;
  if (row < end && at < p.N / 4u) {
    return B[row * (p.N / 4u) + at];
  }
  return vec4<f32>();
}

fn place(thread: u32, along_k: bool) -> u32 {
  if (along_k) {
    return thread / 4u * ALONG_K + thread % 4u;
  }
  return thread;  // = thread / 16 * ACROSS_K + thread % 16
}

fn store_a(thread: u32, values: vec4<f32>) { a_tile[place(thread, TRANS != 2u)] = Kept(values); }
fn store_b(thread: u32, values: vec4<f32>) { b_tile[place(thread, TRANS == 1u)] = Kept(values); }

fn result_row(y: u32, i: u32) -> u32 { return 4u * y + i; }

// Where a vector holds four of K, a thread's columns lie 16 apart: neighbours read neighbouring rows of the tile.
fn result_column(x: u32, j: u32) -> u32 {
  if (TRANS == 1u) {
    return x + 16u * j;
  }
  return 4u * x + j;
}

fn four_of_a(at: u32, apart: u32) -> mat4x4<f32> {
  return mat4x4<f32>(
    vec4<f32>(a_tile[at]),
    vec4<f32>(a_tile[at + apart]),
    vec4<f32>(a_tile[at + 2u * apart]),
    vec4<f32>(a_tile[at + 3u * apart]),
  );
}

fn four_of_b(at: u32, apart: u32) -> mat4x4<f32> {
  return mat4x4<f32>(
    vec4<f32>(b_tile[at]),
    vec4<f32>(b_tile[at + apart]),
    vec4<f32>(b_tile[at + 2u * apart]),
    vec4<f32>(b_tile[at + 3u * apart]),
  );
}

fn fragment_a(y: u32, k: u32) -> mat4x4<f32> {
  if (TRANS == 2u) {
    let at = k * ACROSS_K + y;
    return transpose(four_of_a(at, ACROSS_K));
  }
  let at = 4u * y * ALONG_K + k / 4u;
  return four_of_a(at, ALONG_K);
}

fn fragment_b(x: u32, k: u32) -> mat4x4<f32> {
  if (TRANS == 1u) {
    let at = x * ALONG_K + k / 4u;
    return transpose(four_of_b(at, 16u * ALONG_K));
  }
  let at = k * ACROSS_K + x;
  return four_of_b(at, ACROSS_K);
}
