// dq of causal attention, one query row at a time: a workgroup a row (b, h, query), over blocks of 64 keys (Dao 2023, algorithm 2).
//   P = exp(scale q.k - lse);  dS = P (factor (do.v) - row_dot) scale;  dq = sum over keys of dS k
// Writes the first third of dqkv[batch,length,3C]. Sizes, dropout and grid as attention_forward.
//! include grid.wgsl
//! include step.wgsl
//! include math.wgsl
//! include philox.wgsl
//! include attention.wgsl
//! include attention_backward.wgsl
const WIDTH: u32 = 64u;  // threads, and keys in a block
var<workgroup> query: array<f32, 128>;
var<workgroup> d_row: array<f32, 128>;
var<workgroup> d_scores: array<f32, 64>;

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
    d_row[d] = dout[(b * p.length + i) * width + h * p.head_dim + d];
  }
  workgroupBarrier();
  var dq = vec2<f32>(0.0, 0.0);  // channels thread and thread + 64
  for (var start = 0u; start <= i; start = start + WIDTH) {
    let j = start + thread;
    var ds = 0.0;
    if (j <= i) {
      let key = head + j * 3u * width + width;
      var s = 0.0;
      var dp = 0.0;
      for (var d = 0u; d < p.head_dim; d = d + 1u) {
        s = s + query[d] * qkv[key + d];
        dp = dp + d_row[d] * qkv[key + width + d];
      }
      if (DROPOUT != 0u) {
        dp = dp * dropout_factor(wide_index(row, p.length, j), step, p.site, p.threshold, p.keep_scale);
      }
      ds = accurate_exp(s * p.scale - lse[row]) * (dp - row_dot[row]) * p.scale;
    }
    d_scores[thread] = ds;
    workgroupBarrier();
    let count = min(WIDTH, i + 1u - start);
    var sum = vec2<f32>(0.0, 0.0);
    for (var k = 0u; k < count; k = k + 1u) {
      let key = head + (start + k) * 3u * width + width + thread;
      if (thread < p.head_dim) {
        sum.x = sum.x + d_scores[k] * qkv[key];
      }
      if (thread + WIDTH < p.head_dim) {
        sum.y = sum.y + d_scores[k] * qkv[key + WIDTH];
      }
    }
    dq = dq + sum;
    workgroupBarrier();  // before the scores are overwritten
  }
  let at = head + i * 3u * width + thread;
  if (thread < p.head_dim) {
    dqkv[at] = dq.x;
  }
  if (thread + WIDTH < p.head_dim) {
    dqkv[at + WIDTH] = dq.y;
  }
}
