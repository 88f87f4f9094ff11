// What the three FlashAttention-2 kernels share (Dao 2023; reference/tabgpt/flash.py is the same in NumPy): tiles of 64 x 64
// scores, products. Needs grid.wgsl, step.wgsl, math.wgsl, philox.wgsl, attention.wgsl, and of the kernel what it reads and writes:
// element(at, tensor, row, channel) and store(at, part, row, channel, x), which check row and channel.
//   P = exp(scale q.k - lse), causal; qkv [batch,length,3C], out and dout [batch,length,C], lse and row_dot [batch,heads,length].
// A workgroup is 16 x 16 threads (x, y); of a tile's scores a thread has rows 4 y to 4 y + 3 and columns 4 x to 4 x + 3: a mat4x4,
// whose column is four rows. Grid: batch heads ceil(length / 64), folded; a head's workgroups stand side by side.
//
// Work of a pair of tiles: a product along head_dim reads 2 64 head_dim floats for 64 64 head_dim multiply-adds, where the kernels of
// one row (attention_*.wgsl) read 64 head_dim for each row, 32 times as many. In units of 64 head_dim floats (one row's in brackets):
// forward q, k, v: 3 (128); dq q, k, do, v, k: 5 (192); dkv k, q, v, do, do, q: 6 (256).
// Of workgroup memory two vec4 feed four vec4 multiply-adds. A block of Philox gives the factors of four keys, not of one.
const TILE: u32 = 64u;   // queries, and keys
const STRIP: u32 = 16u;  // channels, or keys, that are in workgroup memory at a time
const PITCH: u32 = 17u;  // vec4s of a strip's row: 64 numbers and 4 more, so that 16 threads who write a column meet different banks
const Q: u32 = 0u;       // tensors of `element`: three parts of qkv, and dout
const K: u32 = 1u;
const V: u32 = 2u;
const DOUT: u32 = 3u;
var<workgroup> a_strip: array<vec4<f32>, 272>;  // [STRIP][PITCH]
var<workgroup> b_strip: array<vec4<f32>, 272>;

// What a workgroup is for; the same for all its threads, which have (x, y) apart from it.
struct Place { b: u32, h: u32, tile: u32, }

// Of four rows: channels x + 16 c in column c of `low`, x + 64 + 16 c of `high`.
struct Sums { low: mat4x4<f32>, high: mat4x4<f32>, }

fn tiles() -> u32 { return (p.length + TILE - 1u) / TILE; }

// Of a workgroup by its number; b is past the last one where there is no head for it.
fn place(number: u32, tile: u32) -> Place {
  let head = number / tiles();
  return Place(head / p.heads, head % p.heads, tile);
}

// Of a workgroup that has a tile of queries: the longest row of tiles first.
fn query_place(group: vec3<u32>, groups: vec3<u32>) -> Place {
  let number = linear_group(group, groups);
  return place(number, tiles() - 1u - number % tiles());
}

fn first_row(at: Place) -> u32 { return at.tile * TILE; }

// The first of a thread's four rows.
fn own_row(at: Place, xy: vec2<u32>) -> u32 { return first_row(at) + 4u * xy.y; }

// Without the first column, and with a new last one. Four turns visit all columns by one constant index: a variable one
// would put the matrix into memory.
fn turn(m: mat4x4<f32>, x: vec4<f32>) -> mat4x4<f32> { return mat4x4<f32>(m[1], m[2], m[3], x); }

// Each column times the same four factors of rows.
fn times(m: mat4x4<f32>, x: vec4<f32>) -> mat4x4<f32> { return mat4x4<f32>(m[0] * x, m[1] * x, m[2] * x, m[3] * x); }

// Of part 0 to 2 of qkv; 0 past the last row and channel.
fn qkv_element(at: Place, part: u32, row: u32, channel: u32) -> f32 {
  if (row >= p.length || channel >= p.head_dim) {
    return 0.0;
  }
  return qkv[(((at.b * p.length + row) * 3u + part) * p.heads + at.h) * p.head_dim + channel];
}

fn rows_of(at: Place, tensor: u32, row: u32, channel: u32) -> vec4<f32> {
  return vec4<f32>(element(at, tensor, row, channel), element(at, tensor, row + 1u, channel),
                   element(at, tensor, row + 2u, channel), element(at, tensor, row + 3u, channel));
}

fn channels_of(at: Place, tensor: u32, row: u32, channel: u32) -> vec4<f32> {
  return vec4<f32>(element(at, tensor, row, channel), element(at, tensor, row, channel + 16u),
                   element(at, tensor, row, channel + 32u), element(at, tensor, row, channel + 48u));
}

// sum over k < count of a_strip[k][4 y ..] b_strip[k][4 x ..]; the last two columns stay 0 if not `wide`.
fn strip_product(xy: vec2<u32>, count: u32, wide: bool) -> mat4x4<f32> {
  var sum = mat4x4<f32>();
  for (var k = 0u; k < count; k = k + 1u) {
    let a = a_strip[k * PITCH + xy.y];
    let b = b_strip[k * PITCH + xy.x];
    sum[0] = sum[0] + a * b.x;
    sum[1] = sum[1] + a * b.y;
    if (wide) {
      sum[2] = sum[2] + a * b.z;
      sum[3] = sum[3] + a * b.w;
    }
  }
  return sum;
}

// The products along head_dim of 64 rows of one tensor and 64 of another. As of all that follows: all threads must call, nobody may
// still read the strips, and nobody does when it is done.
fn row_products(at: Place, xy: vec2<u32>, a: u32, a_row: u32, b: u32, b_row: u32) -> mat4x4<f32> {
  var sum = mat4x4<f32>();
  for (var start = 0u; start < p.head_dim; start = start + STRIP) {
    a_strip[xy.x * PITCH + xy.y] = rows_of(at, a, a_row + 4u * xy.y, start + xy.x);
    b_strip[xy.x * PITCH + xy.y] = rows_of(at, b, b_row + 4u * xy.y, start + xy.x);
    workgroupBarrier();
    sum = sum + strip_product(xy, min(STRIP, p.head_dim - start), true);
    workgroupBarrier();  // before the strips are overwritten
  }
  return sum;
}

// sums + weights X, for the 64 rows of a tensor from `row` on: 64 channels and 16 rows at a time, every fourth row.
fn add_product(at: Place, xy: vec2<u32>, weights: mat4x4<f32>, tensor: u32, row: u32, sums: Sums) -> Sums {
  var result = sums;
  var w = weights;
  for (var channel = 0u; channel < p.head_dim; channel = channel + 64u) {
    var sum = mat4x4<f32>();
    for (var i = 0u; i < 4u; i = i + 1u) {
      a_strip[xy.x * PITCH + xy.y] = w[0];
      b_strip[xy.y * PITCH + xy.x] = channels_of(at, tensor, row + 4u * xy.y + i, channel + xy.x);
      workgroupBarrier();
      sum = sum + strip_product(xy, STRIP, p.head_dim - channel > 32u);
      w = turn(w, w[0]);
      workgroupBarrier();  // before the strips are overwritten
    }
    if (channel == 0u) {
      result.low = result.low + sum;
    } else {
      result.high = result.high + sum;
    }
  }
  return result;
}

fn write_channel(at: Place, part: u32, row: u32, channel: u32, x: vec4<f32>) {
  store(at, part, row, channel, x.x);
  store(at, part, row + 1u, channel, x.y);
  store(at, part, row + 2u, channel, x.z);
  store(at, part, row + 3u, channel, x.w);
}

// The sums of the tile's rows.
fn write_sums(at: Place, xy: vec2<u32>, part: u32, sums: Sums) {
  let row = own_row(at, xy);
  var low = sums.low;
  var high = sums.high;
  for (var channel = xy.x; channel < 64u; channel = channel + 16u) {
    write_channel(at, part, row, channel, low[0]);
    write_channel(at, part, row, channel + 64u, high[0]);
    low = turn(low, low[0]);
    high = turn(high, high[0]);
  }
}

fn exp4(x: vec4<f32>) -> vec4<f32> {
  return vec4<f32>(accurate_exp(x.x), accurate_exp(x.y), accurate_exp(x.z), accurate_exp(x.w));
}

// Whether each of queries `query` to `query` + 3 sees the key.
fn seen_by(query: u32, key: u32) -> vec4<bool> {
  return vec4<u32>(query, query + 1u, query + 2u, query + 3u) >= vec4<u32>(key);
}

// Dropout's factors of one query and keys `key` to `key` + 3.
fn key_factors(at: Place, query: u32, key: u32) -> vec4<f32> {
  let row = (at.b * p.heads + at.h) * p.length + query;
  return dropout_factors(wide_index(row, p.length, key), step, p.site, p.threshold, p.keep_scale);
}

// Of queries `query` to `query` + 3 (components) and keys `key` to `key` + 3 (columns).
fn query_factors(at: Place, query: u32, key: u32) -> mat4x4<f32> {
  var factors = mat4x4<f32>();
  for (var i = 0u; i < 4u; i = i + 1u) {
    factors = turn(factors, key_factors(at, query + i, key));
  }
  return transpose(factors);
}
