// matmul_tiled.wgsl with its tiles in f16: half the words of workgroup memory. For the record, not for training.
// Grid [ceil(N/16), ceil(M/16), 1]. Operands are rounded to f16 (65504 at most), sums are float32.
//! enable f16
//! include math.wgsl
//! include gelu.wgsl
//! include matmul.wgsl
//! include step.wgsl
//! include philox.wgsl
//! include matmul_epilogue.wgsl
//! include matmul_scalar.wgsl
//! include matmul_f32.wgsl
//! include tile16.wgsl
alias Kept = f16;

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
  product_tile16(group, local);
}
