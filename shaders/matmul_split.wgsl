// out[M,N] = sum over k of partials[k,M,N], in order, with the epilogue of matmul_epilogue.wgsl: the second pass of a
// product whose K was split (register_tile.wgsl); p.K is the number of parts. A thread an element.
// Grid: ceil(M N/256), folded.
//! include math.wgsl
//! include gelu.wgsl
//! include grid.wgsl
//! include step.wgsl
//! include philox.wgsl
//! include matmul_epilogue.wgsl
struct Params { M: u32, N: u32, K: u32, site: u32, threshold: u32, scale: f32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> partials: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(6) var<storage, read_write> pre_gelu: array<f32>;

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let i = linear_group(group, groups) * 256u + thread;
  let n = p.M * p.N;
  if (i >= n) {
    return;
  }
  var sum = 0.0;
  for (var part = 0u; part < p.K; part = part + 1u) {
    sum = sum + partials[part * n + i];
  }
  finish(i / p.N, i % p.N, sum);
}
