// out[M,N] = op(A) op(B) with the epilogue of matmul_epilogue.wgsl: matmul_blocked4.wgsl's tile, moved 128 bits at a time.
// Grid [ceil(N/64), ceil(M/64), 1]. Where A's and B's rows hold a multiple of 4 (vector_tile.wgsl); other products are
// matmul_blocked4's.
// A step of 16 of K: 8 KiB from storage in 512 loads and stores, not 2,048; a thread reads the 32 words of workgroup
// memory that 128 flops take in 8 loads, not 32.
//! include math.wgsl
//! include gelu.wgsl
//! include matmul.wgsl
//! include step.wgsl
//! include philox.wgsl
//! include matmul_epilogue.wgsl
//! include multiply_add.wgsl
//! include register_tile.wgsl
//! include vector_tile.wgsl
alias Kept = vec4<f32>;

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  product_tile(group, groups.z, thread);
}
