// out[width] = x[step.row]: the one row of x[rows,width] whose logits are wanted. Grid: ceil(width/64).
//! include step.wgsl
struct Params { width: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < p.width) {
    out[id.x] = x[step.row * p.width + id.x];
  }
}
