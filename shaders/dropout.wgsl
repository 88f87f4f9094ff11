// out = factor x, then + residual: n elements; factor is 0 or scale = 1/(1-p) (philox.wgsl), p of threshold = floor(p 2^32).
// A thread an element. Grid: ceil(n/256), folded.
//! include grid.wgsl
//! include step.wgsl
//! include philox.wgsl
struct Params { n: u32, site: u32, threshold: u32, scale: f32, }  // site: layer << 4 | dropout site
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
override RESIDUAL: u32 = 0u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let i = linear_group(group, groups) * 256u + thread;
  if (i >= p.n) {
    return;
  }
  var v = x[i] * dropout_factor(vec2<u32>(i, 0u), step, p.site, p.threshold, p.scale);
  if (RESIDUAL != 0u) {
    v = v + residual[i];
  }
  out[i] = v;
}
