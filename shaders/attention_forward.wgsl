// Causal attention without a [T,T] buffer, one query row at a time: a workgroup a row (b, h, query), online softmax over
// blocks of 64 keys (Dao 2023, algorithm 1): qkv -> out[batch,length,C], lse[batch,heads,length].
// Grid: batch heads length, folded.
//! include grid.wgsl
//! include step.wgsl
//! include math.wgsl
//! include philox.wgsl
//! include reduce.wgsl
//! include attention.wgsl
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<storage, read_write> lse: array<f32>;
const WIDTH: u32 = 64u;  // threads, and keys in a block
var<workgroup> query: array<f32, 128>;
var<workgroup> weights: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let row = linear_group(group, groups);
  if (row >= p.batch * p.heads * p.length) {
    return;
  }
  let i = row % p.length;
  let h = (row / p.length) % p.heads;
  let b = row / p.length / p.heads;
  let width = p.heads * p.head_dim;
  let head = b * p.length * 3u * width + h * p.head_dim;  // of position 0
  for (var d = thread; d < p.head_dim; d = d + WIDTH) {
    query[d] = qkv[head + i * 3u * width + d];
  }
  workgroupBarrier();
  var top = -3e38;
  var total = 0.0;
  var acc = vec2<f32>(0.0, 0.0);  // channels thread and thread + 64
  for (var start = 0u; start <= i; start = start + WIDTH) {
    let j = start + thread;
    var s = -3e38;
    if (j <= i) {
      s = 0.0;
      let key = head + j * 3u * width + width;
      for (var d = 0u; d < p.head_dim; d = d + 1u) {
        s = s + query[d] * qkv[key + d];
      }
      s = s * p.scale;
    }
    let new_top = max(top, workgroup_max(s, thread));
    let w = select(0.0, accurate_exp(s - new_top), j <= i);
    let correction = accurate_exp(top - new_top);
    total = total * correction + workgroup_sum(w, thread);
    top = new_top;
    var factor = 1.0;
    if (DROPOUT != 0u) {
      factor = dropout_factor(wide_index(row, p.length, j), step, p.site, p.threshold, p.keep_scale);
    }
    weights[thread] = w * factor;
    workgroupBarrier();
    let count = min(WIDTH, i + 1u - start);
    var sum = vec2<f32>(0.0, 0.0);
    for (var k = 0u; k < count; k = k + 1u) {
      let value = head + (start + k) * 3u * width + 2u * width + thread;
      if (thread < p.head_dim) {
        sum.x = sum.x + weights[k] * qkv[value];
      }
      if (thread + WIDTH < p.head_dim) {
        sum.y = sum.y + weights[k] * qkv[value + WIDTH];
      }
    }
    acc = acc * correction + sum;  // the next block's maximum waits for all before the weights change
  }
  let y = (b * p.length + i) * width + h * p.head_dim + thread;
  if (thread < p.head_dim) {
    out[y] = acc.x / total;
  }
  if (thread + WIDTH < p.head_dim) {
    out[y + WIDTH] = acc.y / total;
  }
  if (thread == 0u) {
    lse[row] = top + accurate_log(total);
  }
}
