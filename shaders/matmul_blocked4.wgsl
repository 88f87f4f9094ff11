// out[M,N] = op(A) op(B) with the epilogue of matmul_epilogue.wgsl: 4 x 4 results a thread (register_tile.wgsl).
// Grid [ceil(N/64), ceil(M/64), 1]. Any size: neighbouring threads read neighbouring words of storage.
// A step of 16 of K moves 8 KiB from storage and makes 131,072 flops of it: 16 a byte, where a 16 x 16 tile has 4.
// A thread reads 32 words of workgroup memory for 128 flops, where the 16 x 16 tile's reads 2 for 2.
//! include math.wgsl
//! include gelu.wgsl
//! include matmul.wgsl
//! include step.wgsl
//! include philox.wgsl
//! include matmul_epilogue.wgsl
//! include matmul_scalar.wgsl
//! include matmul_f32.wgsl
//! include multiply_add.wgsl
//! include register_tile.wgsl
//! include scalar_tile.wgsl

fn fragment_a(y: u32, k: u32) -> mat4x4<f32> {
  return transpose(mat4x4<f32>(four_of_a(k, y), four_of_a(k + 1u, y), four_of_a(k + 2u, y), four_of_a(k + 3u, y)));
}

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  product_tile(group, groups.z, thread);
}
