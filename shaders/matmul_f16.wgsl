// matmul_vec4.wgsl with its tiles in f16: half the bytes of workgroup memory. Only where the person asks for it.
// Grid [ceil(N/64), ceil(M/64), 1]. Takes what matmul_vec4 takes. Operands are rounded to f16 (65504 at most, nothing
// below 6e-8, and below 6e-5 only where the device keeps subnormals); products and sums are float32.
// A step moves as much from storage as matmul_vec4's; a thread reads 64 bytes of workgroup memory for 128 flops, not
// 128, and converts 32 numbers on top.
//! enable f16
//! include math.wgsl
//! include gelu.wgsl
//! include matmul.wgsl
//! include step.wgsl
//! include philox.wgsl
//! include matmul_epilogue.wgsl
//! include multiply_add.wgsl
//! include register_tile.wgsl
//! include vector_tile.wgsl
alias Kept = vec4<f16>;

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  product_tile(group, groups.z, thread);
}
