// dx of LayerNorm: g = dout weight, n = (x - mean) rstd; dx = rstd (g - mean(g) - n mean(g n)), means over the row.
// Then + residual (the gradient that comes past the layer norm) or, in place, dx += it. DROPOUT: masked = factor dx besides, for
// the branch whose output had that mask (dropout as embedding_forward).
// A workgroup a row of [rows,width]. Grid: rows, folded.
//! include grid.wgsl
//! include reduce.wgsl
//! include step.wgsl
//! include philox.wgsl
struct Params { rows: u32, width: u32, site: u32, threshold: u32, scale: f32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> dout: array<f32>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
@group(0) @binding(4) var<storage, read> weight: array<f32>;
@group(0) @binding(5) var<storage, read> mean: array<f32>;
@group(0) @binding(6) var<storage, read> rstd: array<f32>;
@group(0) @binding(7) var<storage, read> residual: array<f32>;
@group(0) @binding(8) var<storage, read_write> dx: array<f32>;
@group(0) @binding(9) var<storage, read_write> masked: array<f32>;
override RESIDUAL: u32 = 0u;
override ACCUMULATE: u32 = 0u;  // alone, not with RESIDUAL
override DROPOUT: u32 = 0u;
const WIDTH: u32 = 64u;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let row = linear_group(group, groups);
  if (row >= p.rows) {
    return;
  }
  let start = row * p.width;
  let m = mean[row];
  let r = rstd[row];
  var sum = 0.0;
  var product = 0.0;
  for (var i = thread; i < p.width; i = i + WIDTH) {
    let g = dout[start + i] * weight[i];
    sum = sum + g;
    product = product + g * ((x[start + i] - m) * r);
  }
  let mean_g = workgroup_sum(sum, thread) / f32(p.width);
  let mean_gn = workgroup_sum(product, thread) / f32(p.width);
  for (var i = thread; i < p.width; i = i + WIDTH) {
    let at = start + i;
    let g = dout[at] * weight[i];
    let n = (x[at] - m) * r;
    var v = (g - mean_g - n * mean_gn) * r;
    if (RESIDUAL != 0u) {
      v = v + residual[at];
    }
    if (ACCUMULATE != 0u) {
      v = v + dx[at];
    }
    dx[at] = v;
    if (DROPOUT != 0u) {
      masked[at] = v * dropout_factor(vec2<u32>(at, 0u), step, p.site, p.threshold, p.scale);
    }
  }
}
