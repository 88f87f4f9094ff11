// row_dot[b, h, t] = sum over head_dim of dout out: what softmax's backward subtracts (Dao 2023, algorithm 2, line 4).
// dout, out [batch,length,heads head_dim]. A thread a row. Grid: ceil(batch heads length / 64), folded.
//! include grid.wgsl
struct Params { batch: u32, length: u32, heads: u32, head_dim: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> dout: array<f32>;
@group(0) @binding(2) var<storage, read> out: array<f32>;
@group(0) @binding(3) var<storage, read_write> row_dot: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let row = linear_group(group, groups) * 64u + thread;
  if (row >= p.batch * p.heads * p.length) {
    return;
  }
  let i = row % p.length;
  let h = (row / p.length) % p.heads;
  let b = row / p.length / p.heads;
  let start = ((b * p.length + i) * p.heads + h) * p.head_dim;
  var sum = 0.0;
  for (var d = 0u; d < p.head_dim; d = d + 1u) {
    sum = sum + dout[start + d] * out[start + d];
  }
  row_dot[row] = sum;
}
