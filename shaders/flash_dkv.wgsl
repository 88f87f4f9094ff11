// attention_dkv by FlashAttention-2: a workgroup a tile of 64 keys, over tiles of 64 queries from its own on (flash_dkv in flash.py).
// Its scores are transposed: rows are keys, columns are queries.
//   P and dS as flash_dq;  dk = sum over queries of dS q;  dv = sum over queries of P factor do
// Grid, tiles and work: flash.wgsl.
//! include grid.wgsl
//! include step.wgsl
//! include math.wgsl
//! include philox.wgsl
//! include attention.wgsl
//! include attention_backward.wgsl
//! include flash.wgsl
//! include flash_backward.wgsl

// Whether the query sees each of keys `key` to `key` + 3.
fn sees(query: u32, key: u32) -> vec4<bool> {
  return vec4<u32>(key, key + 1u, key + 2u, key + 3u) <= vec4<u32>(query);
}

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_id) local: vec3<u32>) {
  let number = linear_group(group, groups);
  let at = place(number, number % tiles());  // the longest column of tiles first
  if (at.b >= p.batch) {
    return;
  }
  let xy = local.xy;
  let first = first_row(at);
  let key = own_row(at, xy);
  var dk = Sums();
  var dv = Sums();
  for (var start = first; start < p.length; start = start + TILE) {
    let query = start + 4u * xy.x;
    var weights = row_products(at, xy, K, first, Q, start);
    var d = row_products(at, xy, V, first, DOUT, start);
    for (var i = 0u; i < 4u; i = i + 1u) {
      let numbers = query_numbers(at, query + i);
      let probability = select(vec4<f32>(0.0), exp4(weights[0] * p.scale - numbers.x), sees(query + i, key));
      var factors = vec4<f32>(1.0);
      if (DROPOUT != 0u) {
        factors = key_factors(at, query + i, key);
      }
      weights = turn(weights, probability * factors);
      d = turn(d, probability * (d[0] * factors - numbers.y) * p.scale);
    }
    dv = add_product(at, xy, weights, DOUT, start, dv);
    dk = add_product(at, xy, d, Q, start, dk);
  }
  write_sums(at, xy, K, dk);
  write_sums(at, xy, V, dv);
}
