// dk and dv of causal attention, one key row at a time: a workgroup a row (b, h, key), over blocks of 64 queries from the key on.
//   P and dS as attention_dq;  dk = sum over queries of dS q;  dv = sum over queries of P factor do
// Writes the second and last third of dqkv[batch,length,3C]. Sizes, dropout and grid as attention_forward.
//! include grid.wgsl
//! include step.wgsl
//! include math.wgsl
//! include philox.wgsl
//! include attention.wgsl
//! include attention_backward.wgsl
const WIDTH: u32 = 64u;  // threads, and queries in a block
var<workgroup> key: array<f32, 128>;
var<workgroup> value: array<f32, 128>;
var<workgroup> d_scores: array<f32, 64>;
var<workgroup> weights: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let row = linear_group(group, groups);
  if (row >= p.batch * p.heads * p.length) {
    return;
  }
  let j = row % p.length;
  let first_row = row - j;  // of this head in lse and row_dot
  let h = (row / p.length) % p.heads;
  let b = row / p.length / p.heads;
  let width = p.heads * p.head_dim;
  let head = b * p.length * 3u * width + h * p.head_dim;  // of position 0
  let d_head = b * p.length * width + h * p.head_dim;
  let at = head + j * 3u * width + width;
  for (var d = thread; d < p.head_dim; d = d + WIDTH) {
    key[d] = qkv[at + d];
    value[d] = qkv[at + width + d];
  }
  workgroupBarrier();
  var dk = vec2<f32>(0.0, 0.0);  // channels thread and thread + 64
  var dv = vec2<f32>(0.0, 0.0);
  for (var start = j; start < p.length; start = start + WIDTH) {
    let i = start + thread;
    var ds = 0.0;
    var w = 0.0;
    if (i < p.length) {
      let q = head + i * 3u * width;
      let o = d_head + i * width;
      var s = 0.0;
      var dp = 0.0;
      for (var d = 0u; d < p.head_dim; d = d + 1u) {
        s = s + key[d] * qkv[q + d];
        dp = dp + value[d] * dout[o + d];
      }
      var factor = 1.0;
      if (DROPOUT != 0u) {
        factor = dropout_factor(wide_index(first_row + i, p.length, j), step, p.site, p.threshold, p.keep_scale);
      }
      let probability = accurate_exp(s * p.scale - lse[first_row + i]);
      w = probability * factor;
      ds = probability * (dp * factor - row_dot[first_row + i]) * p.scale;
    }
    weights[thread] = w;
    d_scores[thread] = ds;
    workgroupBarrier();
    let count = min(WIDTH, p.length - start);
    var sum_k = vec2<f32>(0.0, 0.0);
    var sum_v = vec2<f32>(0.0, 0.0);
    for (var k = 0u; k < count; k = k + 1u) {
      let q = head + (start + k) * 3u * width + thread;
      let o = d_head + (start + k) * width + thread;
      if (thread < p.head_dim) {
        sum_k.x = sum_k.x + d_scores[k] * qkv[q];
        sum_v.x = sum_v.x + weights[k] * dout[o];
      }
      if (thread + WIDTH < p.head_dim) {
        sum_k.y = sum_k.y + d_scores[k] * qkv[q + WIDTH];
        sum_v.y = sum_v.y + weights[k] * dout[o + WIDTH];
      }
    }
    dk = dk + sum_k;
    dv = dv + sum_v;
    workgroupBarrier();  // before both are overwritten
  }
  if (thread < p.head_dim) {
    dqkv[at + thread] = dk.x;
    dqkv[at + width + thread] = dv.x;
  }
  if (thread + WIDTH < p.head_dim) {
    dqkv[at + thread + WIDTH] = dk.y;
    dqkv[at + width + thread + WIDTH] = dv.y;
  }
}
