// out = (x - mean) rstd weight + bias of each row of x[rows,width] (Ba et al. 2016, eq. 3); eps is GPT-2's 1e-5.
// A workgroup a row; the variance is summed around the mean. Grid: rows, folded.
//! include grid.wgsl
//! include reduce.wgsl
struct Params { rows: u32, width: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<storage, read_write> mean: array<f32>;
@group(0) @binding(6) var<storage, read_write> rstd: array<f32>;
const WIDTH: u32 = 64u;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let row = linear_group(group, groups);
  if (row >= p.rows) {
    return;
  }
  let start = row * p.width;
  var sum = 0.0;
  for (var i = thread; i < p.width; i = i + WIDTH) {
    sum = sum + x[start + i];
  }
  let m = workgroup_sum(sum, thread) / f32(p.width);
  var squares = 0.0;
  for (var i = thread; i < p.width; i = i + WIDTH) {
    let d = x[start + i] - m;
    squares = squares + d * d;
  }
  let r = inverseSqrt(workgroup_sum(squares, thread) / f32(p.width) + 1e-5);
  for (var i = thread; i < p.width; i = i + WIDTH) {
    out[start + i] = (x[start + i] - m) * r * weight[i] + bias[i];
  }
  if (thread == 0u) {
    mean[row] = m;
    rstd[row] = r;
  }
}
