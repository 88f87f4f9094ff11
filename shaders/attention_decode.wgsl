// The query of one new token, at position step.position, against keys and values 0 to step.position of the cache
// [heads,ctx,head_dim]: q is the first C of qkv[3C] -> out[C]. Softmax as attention_forward, scale = 1/sqrt(head_dim).
// A workgroup a head. Grid: heads.
//! include step.wgsl
//! include math.wgsl
//! include reduce.wgsl
struct Params { heads: u32, head_dim: u32, ctx: u32, scale: f32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> qkv: array<f32>;
@group(0) @binding(3) var<storage, read> k_cache: array<f32>;
@group(0) @binding(4) var<storage, read> v_cache: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
const WIDTH: u32 = 64u;  // threads, and keys in a block
var<workgroup> weights: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let q = group.x * p.head_dim;
  let head = group.x * p.ctx * p.head_dim;
  let n = min(step.position + 1u, p.ctx);
  var top = -3e38;
  var total = 0.0;
  var acc = vec2<f32>(0.0, 0.0);  // channels thread and thread + 64
  for (var start = 0u; start < n; start = start + WIDTH) {
    let j = start + thread;
    var s = -3e38;
    if (j < n) {
      s = 0.0;
      for (var d = 0u; d < p.head_dim; d = d + 1u) {
        s = s + qkv[q + d] * k_cache[head + j * p.head_dim + d];
      }
      s = s * p.scale;
    }
    let new_top = max(top, workgroup_max(s, thread));
    let w = select(0.0, accurate_exp(s - new_top), j < n);
    let correction = accurate_exp(top - new_top);
    total = total * correction + workgroup_sum(w, thread);
    top = new_top;
    weights[thread] = w;
    workgroupBarrier();
    let count = min(WIDTH, n - start);
    var sum = vec2<f32>(0.0, 0.0);
    for (var k = 0u; k < count; k = k + 1u) {
      let value = head + (start + k) * p.head_dim + thread;
      if (thread < p.head_dim) {
        sum.x = sum.x + weights[k] * v_cache[value];
      }
      if (thread + WIDTH < p.head_dim) {
        sum.y = sum.y + weights[k] * v_cache[value + WIDTH];
      }
    }
    acc = acc * correction + sum;  // the next block's maximum waits for all before the weights change
  }
  if (thread < p.head_dim) {
    out[q + thread] = acc.x / total;
  }
  if (thread + WIDTH < p.head_dim) {
    out[q + thread + WIDTH] = acc.y / total;
  }
}
