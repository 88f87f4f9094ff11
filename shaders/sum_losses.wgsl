// stats[LOSS_SUM] += sum of losses[n]; stats[NOT_FINITE] += how many of them are below 0 (cross_entropy.wgsl) or not finite.
// One workgroup. Grid: 1.
//! include math.wgsl
//! include reduce.wgsl
//! include stats.wgsl
struct Params { n: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> losses: array<f32>;
@group(0) @binding(2) var<storage, read_write> stats: array<f32>;
const WIDTH: u32 = 256u;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32) {
  var sum = 0.0;
  var broken = 0.0;
  for (var i = thread; i < p.n; i = i + WIDTH) {
    let loss = losses[i];
    sum = sum + loss;
    if (!is_finite(loss) || loss <= -0.5) {
      broken = broken + 1.0;
    }
  }
  let total = workgroup_sum(sum, thread);
  let count = workgroup_sum(broken, thread);
  if (thread == 0u) {
    stats[LOSS_SUM] = stats[LOSS_SUM] + total;
    stats[NOT_FINITE] = stats[NOT_FINITE] + count;
  }
}
