// partials[chunk, i] = sum of x[row, i] over the chunk's rows: a bias's gradient, which add_partials finishes.
// A thread a column. Grid [ceil(width/64), ceil(rows/rows_per_chunk), 1].
struct Params { rows: u32, width: u32, rows_per_chunk: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> partials: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  let chunk = id.y;
  if (i >= p.width) {
    return;
  }
  let end = min((chunk + 1u) * p.rows_per_chunk, p.rows);
  var sum = 0.0;
  for (var row = chunk * p.rows_per_chunk; row < end; row = row + 1u) {
    sum = sum + x[row * p.width + i];
  }
  partials[chunk * p.width + i] = sum;
}
