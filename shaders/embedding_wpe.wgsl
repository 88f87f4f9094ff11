// dwpe[t] += sum over the batch of dx[b, t]: dx[batch,length,width], dwpe[at least length,width].
// A thread an element. Grid: ceil(length width / 256), folded.
//! include grid.wgsl
struct Params { batch: u32, length: u32, width: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> dx: array<f32>;
@group(0) @binding(2) var<storage, read_write> dwpe: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let i = linear_group(group, groups) * 256u + thread;
  let n = p.length * p.width;
  if (i >= n) {
    return;
  }
  var sum = 0.0;
  for (var b = 0u; b < p.batch; b = b + 1u) {
    sum = sum + dx[b * n + i];
  }
  dwpe[i] = dwpe[i] + sum;
}
