// What flash_dq and flash_dkv share besides flash.wgsl: bindings 3 to 6, what is read, where dq, dk and dv go in dqkv[batch,length,3C].
@group(0) @binding(3) var<storage, read> dout: array<f32>;
@group(0) @binding(4) var<storage, read> lse: array<f32>;
@group(0) @binding(5) var<storage, read> row_dot: array<f32>;
@group(0) @binding(6) var<storage, read_write> dqkv: array<f32>;

fn element(at: Place, tensor: u32, row: u32, channel: u32) -> f32 {
  if (tensor != DOUT) {
    return qkv_element(at, tensor, row, channel);
  }
  if (row >= p.length || channel >= p.head_dim) {
    return 0.0;
  }
  return dout[((at.b * p.length + row) * p.heads + at.h) * p.head_dim + channel];
}

fn store(at: Place, part: u32, row: u32, channel: u32, x: f32) {
  if (row < p.length && channel < p.head_dim) {
    dqkv[(((at.b * p.length + row) * 3u + part) * p.heads + at.h) * p.head_dim + channel] = x;
  }
}

// (lse, row_dot) of a query; past the last one, whose q and dout are 0, anything finite.
fn query_numbers(at: Place, query: u32) -> vec2<f32> {
  if (query >= p.length) {
    return vec2<f32>(0.0, 0.0);
  }
  let row = (at.b * p.heads + at.h) * p.length + query;
  return vec2<f32>(lse[row], row_dot[row]);
}
