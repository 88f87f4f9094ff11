// Elements of op(A) [M,K] and op(B) [K,N]. Needs matmul.wgsl, and a_value(i) and b_value(i) of A and B as they lie.
fn a_at(m: u32, k: u32) -> f32 {
  if (TRANS == 2u) {
    return a_value(k * p.M + m);
  }
  return a_value(m * p.K + k);
}

fn b_at(k: u32, n: u32) -> f32 {
  if (TRANS == 1u) {
    return b_value(n * p.K + k);
  }
  return b_value(k * p.N + n);
}
