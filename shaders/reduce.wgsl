// Sums and maxima over a workgroup of WIDTH threads (a const of the kernel, a power of 2, at most 256) by a tree:
// the order is fixed, and the error grows with log2(WIDTH). All threads must call, in uniform control flow.
var<workgroup> reduce_slots: array<f32, WIDTH>;

fn workgroup_sum(x: f32, thread: u32) -> f32 {
  reduce_slots[thread] = x;
  workgroupBarrier();
  for (var half = WIDTH / 2u; half > 0u; half = half / 2u) {
    if (thread < half) {
      reduce_slots[thread] = reduce_slots[thread] + reduce_slots[thread + half];
    }
    workgroupBarrier();
  }
  let total = reduce_slots[0];
  workgroupBarrier();  // before the slots are used again
  return total;
}

fn workgroup_max(x: f32, thread: u32) -> f32 {
  reduce_slots[thread] = x;
  workgroupBarrier();
  for (var half = WIDTH / 2u; half > 0u; half = half / 2u) {
    if (thread < half) {
      reduce_slots[thread] = max(reduce_slots[thread], reduce_slots[thread + half]);
    }
    workgroupBarrier();
  }
  let largest = reduce_slots[0];
  workgroupBarrier();
  return largest;
}
