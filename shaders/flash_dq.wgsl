// attention_dq by FlashAttention-2: a workgroup a tile of 64 queries, over tiles of 64 keys (flash_dq in flash.py).
//   P = exp(scale q.k - lse);  dS = P (factor (do.v) - row_dot) scale;  dq = sum over keys of dS k
// Grid, tiles and work: flash.wgsl.
//! include grid.wgsl
//! include step.wgsl
//! include math.wgsl
//! include philox.wgsl
//! include attention.wgsl
//! include attention_backward.wgsl
//! include flash.wgsl
//! include flash_backward.wgsl

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
  let numbers = transpose(mat4x2<f32>(query_numbers(at, query), query_numbers(at, query + 1u),
                                      query_numbers(at, query + 2u), query_numbers(at, query + 3u)));
  var dq = Sums();
  for (var start = 0u; start <= first; start = start + TILE) {
    let key = start + 4u * xy.x;
    var scores = row_products(at, xy, Q, first, K, start);
    var d = row_products(at, xy, DOUT, first, V, start);
    var factors = mat4x4<f32>();
    if (DROPOUT != 0u) {
      factors = query_factors(at, query, key);
    }
    for (var i = 0u; i < 4u; i = i + 1u) {
      var dp = d[0];
      if (DROPOUT != 0u) {
        dp = dp * factors[0];
        factors = turn(factors, factors[0]);
      }
      let probability = select(vec4<f32>(0.0), exp4(scores[0] * p.scale - numbers[0]), seen_by(query, key + i));
      scores = turn(scores, scores[0]);
      d = turn(d, probability * (dp - numbers[1]) * p.scale);
    }
    dq = add_product(at, xy, d, K, start, dq);
  }
  write_sums(at, xy, Q, dq);
}
