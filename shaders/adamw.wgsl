// AdamW with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2) in PyTorch's order, over n elements of an arena,
// of which the first `decayed` decay:
//   g = gradient stats[CLIP];  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   parameter = parameter keep - rate m / (sqrt(v) root2 + eps), keep = 1 without decay
// Changes nothing where stats[FINITE] is 0. A thread an element. Grid: ceil(n/256), folded.
//! include grid.wgsl
//! include step.wgsl
//! include stats.wgsl
struct Params { n: u32, decayed: u32, beta1: f32, rest1: f32, beta2: f32, rest2: f32, eps: f32, }  // rest = 1 - beta, from float64
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> stats: array<f32>;
@group(0) @binding(3) var<storage, read> gradients: array<f32>;
@group(0) @binding(4) var<storage, read_write> parameters: array<f32>;
@group(0) @binding(5) var<storage, read_write> m: array<f32>;
@group(0) @binding(6) var<storage, read_write> v: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let i = linear_group(group, groups) * 256u + thread;
  if (i >= p.n || stats[FINITE] == 0.0) {
    return;
  }
  let g = gradients[i] * stats[CLIP];
  let mean = p.beta1 * m[i] + p.rest1 * g;
  let square = p.beta2 * v[i] + p.rest2 * g * g;
  let keep = select(1.0, step.keep, i < p.decayed);
  m[i] = mean;
  v[i] = square;
  parameters[i] = parameters[i] * keep - step.rate * mean / (sqrt(square) * step.root2 + p.eps);
}
