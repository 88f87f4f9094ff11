// packed[i] = x[2i] and x[2i + 1], rounded to f16, in one word; a thread a word. Grid: ceil(n/512), folded.
//! include grid.wgsl
struct Params { n: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> packed: array<u32>;

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let i = linear_group(group, groups) * 256u + thread;
  if (2u * i >= p.n) {
    return;
  }
  var pair = vec2<f32>(x[2u * i], 0.0);
  if (2u * i + 1u < p.n) {
    pair.y = x[2u * i + 1u];
  }
  packed[i] = pack2x16float(pair);
}
