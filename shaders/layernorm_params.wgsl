// Partial sums of LayerNorm's dweight and dbias over chunks of rows; add_partials adds them up.
//   partials[chunk, i] = sum over the chunk's rows of dout (x - mean) rstd;  partials[chunk, width + i] = sum of dout
// A thread a channel. Grid [ceil(width/64), ceil(rows/rows_per_chunk), 1].
struct Params { rows: u32, width: u32, rows_per_chunk: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> dout: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> mean: array<f32>;
@group(0) @binding(4) var<storage, read> rstd: array<f32>;
@group(0) @binding(5) var<storage, read_write> partials: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  let chunk = id.y;
  if (i >= p.width) {
    return;
  }
  let end = min((chunk + 1u) * p.rows_per_chunk, p.rows);
  var dweight = 0.0;
  var dbias = 0.0;
  for (var row = chunk * p.rows_per_chunk; row < end; row = row + 1u) {
    let at = row * p.width + i;
    dweight = dweight + dout[at] * ((x[at] - mean[row]) * rstd[row]);
    dbias = dbias + dout[at];
  }
  partials[chunk * 2u * p.width + i] = dweight;
  partials[chunk * 2u * p.width + p.width + i] = dbias;
}
