// out[M,N] = op(A) op(B) with the epilogue of matmul_epilogue.wgsl: a workgroup a 16 x 16 tile of out, through tiles in workgroup memory.
// Grid [ceil(N/16), ceil(M/16), 1].
// A step of 16 of K moves 2 KiB from storage and makes 8,192 flops of it: 4 a byte. A thread reads 2 words of workgroup
// memory for 2 flops.
//! include math.wgsl
//! include gelu.wgsl
//! include matmul.wgsl
//! include step.wgsl
//! include philox.wgsl
//! include matmul_epilogue.wgsl
//! include matmul_scalar.wgsl
//! include matmul_f32.wgsl
//! include tile16.wgsl
alias Kept = f32;

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
  product_tile16(group, local);
}
