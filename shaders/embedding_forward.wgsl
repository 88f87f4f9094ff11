// out[r] = dropout(wte[tokens[r]] + wpe[step.position + r mod length]): out[rows,width], rows = B T, length = T.
// A thread an element. Grid: ceil(rows width / 256), folded.
//! include grid.wgsl
//! include step.wgsl
//! include philox.wgsl
struct Params { rows: u32, length: u32, width: u32, site: u32, threshold: u32, scale: f32, }  // dropout as dropout.wgsl
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> tokens: array<u32>;
@group(0) @binding(3) var<storage, read> wte: array<f32>;
@group(0) @binding(4) var<storage, read> wpe: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
override DROPOUT: u32 = 0u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let i = linear_group(group, groups) * 256u + thread;
  if (i >= p.rows * p.width) {
    return;
  }
  let row = i / p.width;
  let c = i % p.width;
  let position = step.position + row % p.length;
  var v = wte[tokens[row] * p.width + c] + wpe[position * p.width + c];
  if (DROPOUT != 0u) {
    v = v * dropout_factor(vec2<u32>(i, 0u), step, p.site, p.threshold, p.scale);
  }
  out[i] = v;
}
