// losses[row] = lse(logits[row]) - logits[row, target]; BACKWARD: then, in place, logits = (softmax - onehot) step.loss_scale.
// logits[rows,width]. A target >= width marks a row that does not count (a shorter batch on a longer plan): loss and gradient 0.
// A row with a logit that is not finite has loss -1, which sum_losses counts: exp and max could hide it.
// A workgroup a row. Grid: rows, folded.
//! include grid.wgsl
//! include step.wgsl
//! include math.wgsl
//! include reduce.wgsl
struct Params { rows: u32, width: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read_write> logits: array<f32>;
@group(0) @binding(4) var<storage, read_write> losses: array<f32>;
override BACKWARD: u32 = 0u;
const WIDTH: u32 = 64u;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let row = linear_group(group, groups);
  if (row >= p.rows) {
    return;
  }
  let start = row * p.width;
  let wanted = targets[row];
  var largest = -3e38;
  var broken = 0.0;
  for (var i = thread; i < p.width; i = i + WIDTH) {
    let z = logits[start + i];
    largest = max(largest, z);
    if (!is_finite(z)) {
      broken = 1.0;
    }
  }
  let top = workgroup_max(largest, thread);
  let any_broken = workgroup_max(broken, thread) > 0.0;
  var sum = 0.0;
  for (var i = thread; i < p.width; i = i + WIDTH) {
    sum = sum + accurate_exp(logits[start + i] - top);
  }
  let total = workgroup_sum(sum, thread);
  if (thread == 0u) {
    var loss = 0.0;
    if (wanted < p.width) {
      loss = accurate_log(total) + (top - logits[start + wanted]);
    }
    losses[row] = select(loss, -1.0, any_broken);
  }
  if (BACKWARD == 0u) {
    return;
  }
  storageBarrier();  // the target's logit is read above, before another thread overwrites it
  let factor = select(0.0, step.loss_scale / total, wanted < p.width);
  for (var i = thread; i < p.width; i = i + WIDTH) {
    let onehot = select(0.0, step.loss_scale, i == wanted);
    logits[start + i] = accurate_exp(logits[start + i] - top) * factor - onehot;
  }
}
