// matmul_tiled.wgsl over operands that pack_f16.wgsl has put two to a word: half the bytes of storage, without an
// extension, for a pass more and an unpacking at every load. For the record, not for training.
// Grid [ceil(N/16), ceil(M/16), 1]. Operands are rounded to f16 (65504 at most), sums are float32.
//! include math.wgsl
//! include gelu.wgsl
//! include matmul.wgsl
//! include step.wgsl
//! include philox.wgsl
//! include matmul_epilogue.wgsl
//! include matmul_scalar.wgsl
//! include tile16.wgsl
alias Operand = u32;
alias Kept = f32;

fn a_value(i: u32) -> f32 { return unpack2x16float(A[i / 2u])[i % 2u]; }
fn b_value(i: u32) -> f32 { return unpack2x16float(B[i / 2u])[i % 2u]; }

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
  product_tile16(group, local);
}
