// A workgroup's 16 x 16 tile of a product, a thread an element, through tiles in workgroup memory. Needs matmul_scalar.wgsl,
// matmul_epilogue.wgsl, and `alias Kept`, what the tiles hold. Grid [ceil(N/16), ceil(M/16), 1].
const TILE: u32 = 16u;
var<workgroup> a_tile: array<Kept, 256>;  // [m][k]
var<workgroup> b_tile: array<Kept, 256>;  // [k][n]

fn product_tile16(group: vec3<u32>, local: vec3<u32>) {
  let m = group.y * TILE + local.y;
  let n = group.x * TILE + local.x;
  var total = 0.0;
  for (var start = 0u; start < p.K; start = start + TILE) {
    // Neighbouring threads read neighbouring words: along k, or along m where A is transposed; along n, or along k.
    var a_m = local.y;
    var a_k = local.x;
    if (TRANS == 2u) {
      a_m = local.x;
      a_k = local.y;
    }
    var a = 0.0;
    if (group.y * TILE + a_m < p.M && start + a_k < p.K) {
      a = a_at(group.y * TILE + a_m, start + a_k);
    }
    a_tile[a_m * TILE + a_k] = Kept(a);
    var b_k = local.y;
    var b_n = local.x;
    if (TRANS == 1u) {
      b_k = local.x;
      b_n = local.y;
    }
    var b = 0.0;
    if (start + b_k < p.K && group.x * TILE + b_n < p.N) {
      b = b_at(start + b_k, group.x * TILE + b_n);
    }
    b_tile[b_k * TILE + b_n] = Kept(b);
    workgroupBarrier();
    var sum = 0.0;  // of one tile: the error grows with 16 + K/16, not with K
    for (var k = 0u; k < TILE; k = k + 1u) {
      sum = sum + f32(a_tile[local.y * TILE + k]) * f32(b_tile[k * TILE + local.x]);
    }
    total = total + sum;
    workgroupBarrier();  // before the tiles are overwritten
  }
  if (m < p.M && n < p.N) {
    finish(m, n, total);
  }
}
