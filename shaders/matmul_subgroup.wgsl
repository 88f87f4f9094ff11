// out[M,N] = op(A) op(B) with the epilogue of matmul_epilogue.wgsl: matmul_blocked4.wgsl, where four neighbouring threads
// read A's fragment once and give it to each other. Grid [ceil(N/64), ceil(M/64), 1]. Any size.
// A thread reads 20 words of workgroup memory for 128 flops, not 32, and takes 16 of its neighbours.
// Right for subgroups of any multiple of 4 threads, in whatever order a subgroup has its own threads.
//! enable subgroups
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

var<private> lane: u32;

// Each of the four takes one of the four k; their rows are the same.
fn fragment_a(y: u32, k: u32) -> mat4x4<f32> {
  let first = lane / 4u * 4u;
  let mine = four_of_a(k + lane % 4u, y);
  return transpose(mat4x4<f32>(
    subgroupShuffle(mine, first),
    subgroupShuffle(mine, first + 1u),
    subgroupShuffle(mine, first + 2u),
    subgroupShuffle(mine, first + 3u),
  ));
}

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
  @builtin(subgroup_invocation_id) within: u32,
) {
  lane = within;
  product_tile(group, groups.z, subgroupMin(thread) + lane);
}
