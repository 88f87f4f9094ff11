// What becomes of a product's sum. Needs math.wgsl, gelu.wgsl, step.wgsl and philox.wgsl, and the bindings step, bias,
// residual, out and pre_gelu.
//   v = sum + bias;  pre_gelu = v;  v = gelu(v);  v = v gelu'(residual);  v = factor v;  out = v + residual, or out += v
// Dropout's factor is 0 or scale = 1/(1-p), p of threshold = floor(p 2^32); site: layer << 4 | dropout site.
override BIAS: u32 = 0u;
override GELU: u32 = 0u;           // 0 none, 1 tanh, 2 erf
override KEEP_PRE_GELU: u32 = 0u;
override SLOPE: u32 = 0u;          // of GELU, as there: its backward pass where residual went in
override DROPOUT: u32 = 0u;
override RESIDUAL: u32 = 0u;       // not with SLOPE
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
  if (SLOPE != 0u) {
    v = v * gelu(residual[at], SLOPE).y;
  }
  if (DROPOUT != 0u) {
    v = v * dropout_factor(vec2<u32>(at, 0u), step, p.site, p.threshold, p.scale);
  }
  if (RESIDUAL != 0u) {
    v = v + residual[at];
  }
  if (ACCUMULATE != 0u) {
    v = v + out[at];
  }
  out[at] = v;
}
