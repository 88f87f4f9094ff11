// What flash_dq and flash_dkv share besides flash.wgsl and attention_backward.wgsl: what is read, where dq, dk and dv go in dqkv.

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
