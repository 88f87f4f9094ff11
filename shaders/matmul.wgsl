// What every product kernel shares: bindings, operands, epilogue. Needs math.wgsl and gelu.wgsl.
//   v = op(A) op(B) + bias;  pre_gelu = v;  v = gelu(v);  out = v + residual, or out += v
// TRANS 0 NN: A[M,K] B[K,N] · 1 NT: A[M,K] B[N,K] · 2 TN: A[K,M] B[K,N]; out, pre_gelu, residual [M,N], bias [N].
struct Params { M: u32, N: u32, K: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> A: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(6) var<storage, read_write> pre_gelu: array<f32>;
override TRANS: u32 = 0u;
override BIAS: u32 = 0u;
override GELU: u32 = 0u;           // 0 none, 1 tanh, 2 erf
override KEEP_PRE_GELU: u32 = 0u;
override RESIDUAL: u32 = 0u;
override ACCUMULATE: u32 = 0u;     // alone, not with the others

fn a_at(m: u32, k: u32) -> f32 {
  if (TRANS == 2u) {
    return A[k * p.M + m];
  }
  return A[m * p.K + k];
}

fn b_at(k: u32, n: u32) -> f32 {
  if (TRANS == 1u) {
    return B[n * p.K + k];
  }
  return B[k * p.N + n];
}

// The epilogue of one element.
fn finish(m: u32, n: u32, sum: f32) {
  let at = m * p.N + n;
  var v = sum;
  if (BIAS != 0u) {
    v = v + bias[n];
  }
  if (KEEP_PRE_GELU != 0u) {
    pre_gelu[at] = v;
  }
  if (GELU != 0u) {
    v = gelu(v, GELU).x;
  }
  if (RESIDUAL != 0u) {
    v = v + residual[at];
  }
  if (ACCUMULATE != 0u) {
    v = v + out[at];
  }
  out[at] = v;
}
