// From square_sums' partials[n]: stats[NORM] = sqrt of their sum; stats[FINITE] = 1 where every loss, gradient and the norm are
// finite, else 0 (a norm above 1.8e19 overflows its square and counts as not finite);
// stats[CLIP] = min(1, clip / (norm + 1e-6)) as PyTorch's clip_grad_norm_, 1 where clip is 0.
// One workgroup. Grid: 1.
//! include math.wgsl
//! include reduce.wgsl
//! include stats.wgsl
struct Params { n: u32, clip: f32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> partials: array<f32>;
@group(0) @binding(2) var<storage, read_write> stats: array<f32>;
const WIDTH: u32 = 256u;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32) {
  var sum = 0.0;
  var broken = 0.0;
  for (var i = thread; i < p.n; i = i + WIDTH) {
    let v = partials[i];
    sum = sum + v;
    if (v < 0.0) {
      broken = 1.0;
    }
  }
  let total = workgroup_sum(sum, thread);
  let any_broken = workgroup_max(broken, thread) > 0.0 || !is_finite(total);
  if (thread == 0u) {
    let norm = sqrt(max(total, 0.0));
    let finite = !any_broken && stats[NOT_FINITE] == 0.0 && is_finite(stats[LOSS_SUM]);
    stats[NORM] = norm;
    stats[CLIP] = select(1.0, min(1.0, p.clip / (norm + 1e-6)), p.clip > 0.0);
    stats[FINITE] = select(0.0, 1.0, finite);
  }
}
