// partials[first + chunk] = sum of x^2 over the chunk's 4096 elements of x[n]; -1 where an element or the sum is not finite.
// A workgroup a chunk. Grid: ceil(n/4096), folded.
//! include grid.wgsl
//! include math.wgsl
//! include reduce.wgsl
struct Params { n: u32, first: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> partials: array<f32>;
const WIDTH: u32 = 256u;
const CHUNK: u32 = 4096u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let chunk = linear_group(group, groups);
  if (chunk * CHUNK >= p.n) {
    return;
  }
  let end = min((chunk + 1u) * CHUNK, p.n);
  var sum = 0.0;
  var broken = 0.0;
  for (var i = chunk * CHUNK + thread; i < end; i = i + WIDTH) {
    let v = x[i];
    sum = sum + v * v;
    if (!is_finite(v)) {
      broken = 1.0;
    }
  }
  let total = workgroup_sum(sum, thread);
  let any_broken = workgroup_max(broken, thread) > 0.0 || !is_finite(total);
  if (thread == 0u) {
    partials[p.first + chunk] = select(total, -1.0, any_broken);
  }
}
