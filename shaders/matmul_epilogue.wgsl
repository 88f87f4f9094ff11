// What becomes of a product's sum. Needs math.wgsl and gelu.wgsl, and the bindings bias, residual, out, pre_gelu.
//   v = sum + bias;  pre_gelu = v;  v = gelu(v);  out = v + residual, or out += v
override BIAS: u32 = 0u;
override GELU: u32 = 0u;           // 0 none, 1 tanh, 2 erf
override KEEP_PRE_GELU: u32 = 0u;
override RESIDUAL: u32 = 0u;
override ACCUMULATE: u32 = 0u;     // alone, not with the others

// Element (m, n) of out.
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
