// dx = dout gelu'(x), n elements; IN_PLACE: dx holds dout before, and the binding dout is not read.
// A thread an element. Grid: ceil(n/256), folded.
//! include grid.wgsl
//! include math.wgsl
//! include gelu.wgsl
struct Params { n: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> dout: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> dx: array<f32>;
override GELU: u32 = 1u;      // 1 tanh, 2 erf
override IN_PLACE: u32 = 0u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let i = linear_group(group, groups) * 256u + thread;
  if (i >= p.n) {
    return;
  }
  var g = 0.0;
  if (IN_PLACE != 0u) {
    g = dx[i];
  } else {
    g = dout[i];
  }
  dx[i] = g * gelu(x[i], GELU).y;
}
