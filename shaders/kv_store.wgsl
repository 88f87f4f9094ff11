// Copies keys and values of qkv[rows,3C] (one sequence) to the cache at positions step.position + row: k, v [heads,ctx,head_dim].
// Rows past ctx are left out. A thread a channel. Grid: ceil(rows C / 256), folded.
//! include grid.wgsl
//! include step.wgsl
struct Params { rows: u32, heads: u32, head_dim: u32, ctx: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> qkv: array<f32>;
@group(0) @binding(3) var<storage, read_write> k_cache: array<f32>;
@group(0) @binding(4) var<storage, read_write> v_cache: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let width = p.heads * p.head_dim;
  let i = linear_group(group, groups) * 256u + thread;
  if (i >= p.rows * width) {
    return;
  }
  let row = i / width;
  let c = i % width;
  let position = step.position + row;
  if (position >= p.ctx) {
    return;
  }
  let source = row * 3u * width + c;
  let place = ((c / p.head_dim) * p.ctx + position) * p.head_dim + c % p.head_dim;
  k_cache[place] = qkv[source + width];
  v_cache[place] = qkv[source + 2u * width];
}
