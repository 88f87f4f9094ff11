// attention_forward by FlashAttention-2: a workgroup a tile of 64 queries, over tiles of 64 keys from the first to its own; of each query
// the largest score, the sum and the output so far (algorithm 1; flash_forward in flash.py). Writes out and lse alone.
// Grid, tiles and work: flash.wgsl.
//! include grid.wgsl
//! include step.wgsl
//! include math.wgsl
//! include philox.wgsl
//! include attention.wgsl
//! include flash.wgsl
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<storage, read_write> lse: array<f32>;

fn element(at: Place, tensor: u32, row: u32, channel: u32) -> f32 { return qkv_element(at, tensor, row, channel); }

fn store(at: Place, part: u32, row: u32, channel: u32, x: f32) {
  if (row < p.length && channel < p.head_dim) {
    out[((at.b * p.length + row) * p.heads + at.h) * p.head_dim + channel] = x;
  }
}

// Of four rows each, over the 16 threads that share them.
fn largest_of_rows(xy: vec2<u32>, x: vec4<f32>) -> vec4<f32> {
  a_strip[xy.x * PITCH + xy.y] = x;
  workgroupBarrier();
  var largest = x;
  for (var i = 0u; i < 16u; i = i + 1u) {
    largest = max(largest, a_strip[i * PITCH + xy.y]);
  }
  workgroupBarrier();  // before the strip is overwritten
  return largest;
}

fn sum_of_rows(xy: vec2<u32>, x: vec4<f32>) -> vec4<f32> {
  a_strip[xy.x * PITCH + xy.y] = x;
  workgroupBarrier();
  var sum = vec4<f32>(0.0);
  for (var i = 0u; i < 16u; i = i + 1u) {
    sum = sum + a_strip[i * PITCH + xy.y];
  }
  return sum;
}

fn write_lse(at: Place, row: u32, top: f32, total: f32) {
  if (row < p.length) {
    lse[(at.b * p.heads + at.h) * p.length + row] = top + accurate_log(total);
  }
}

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_id) local: vec3<u32>) {
  let at = query_place(group, groups);
  if (at.b >= p.batch) {
    return;
  }
  let xy = local.xy;
  let first = first_row(at);
  let query = own_row(at, xy);
  var top = vec4<f32>(-3e38);
  var total = vec4<f32>(0.0);  // over this thread's keys
  var sums = Sums();
  for (var start = 0u; start <= first; start = start + TILE) {
    let key = start + 4u * xy.x;
    var weights = row_products(at, xy, Q, first, K, start);
    var largest = top;
    for (var i = 0u; i < 4u; i = i + 1u) {
      let score = select(vec4<f32>(-3e38), weights[0] * p.scale, seen_by(query, key + i));
      largest = max(largest, score);
      weights = turn(weights, score);
    }
    // Real from the first tile on, which has key 0, that every query sees: a masked score's exponential is 0.
    let new_top = largest_of_rows(xy, largest);
    let correction = exp4(top - new_top);
    top = new_top;
    total = total * correction;
    var factors = mat4x4<f32>();
    if (DROPOUT != 0u) {
      factors = query_factors(at, query, key);
    }
    for (var i = 0u; i < 4u; i = i + 1u) {
      var weight = exp4(weights[0] - top);
      total = total + weight;
      if (DROPOUT != 0u) {
        weight = weight * factors[0];
        factors = turn(factors, factors[0]);
      }
      weights = turn(weights, weight);
    }
    let rescaled = Sums(times(sums.low, correction), times(sums.high, correction));
    sums = add_product(at, xy, weights, V, start, rescaled);
  }
  total = sum_of_rows(xy, total);
  let parts = 1.0 / total;
  write_sums(at, xy, 0u, Sums(times(sums.low, parts), times(sums.high, parts)));
  if (xy.x == 0u) {
    write_lse(at, query, top.x, total.x);
    write_lse(at, query + 1u, top.y, total.y);
    write_lse(at, query + 2u, top.z, total.z);
    write_lse(at, query + 3u, top.w, total.w);
  }
}
