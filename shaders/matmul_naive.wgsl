// out[M,N] = op(A) op(B) with the epilogue of matmul_epilogue.wgsl: a thread an element, straight from storage.
// Grid [ceil(N/16), ceil(M/16), 1]. Kept as the reference of the others.
//! include math.wgsl
//! include gelu.wgsl
//! include matmul.wgsl
//! include step.wgsl
//! include philox.wgsl
//! include matmul_epilogue.wgsl
//! include matmul_scalar.wgsl
//! include matmul_f32.wgsl

// K is summed in blocks of this many, so that the error grows with BLOCK + K/BLOCK, not with K.
const BLOCK: u32 = 64u;

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let m = id.y;
  let n = id.x;
  if (m >= p.M || n >= p.N) {
    return;
  }
  var total = 0.0;
  for (var start = 0u; start < p.K; start = start + BLOCK) {
    var sum = 0.0;
    let end = min(start + BLOCK, p.K);
    for (var k = start; k < end; k = k + 1u) {
      sum = sum + a_at(m, k) * b_at(k, n);
    }
    total = total + sum;
  }
  finish(m, n, total);
}
