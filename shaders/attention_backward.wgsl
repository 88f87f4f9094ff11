// Bindings 3 to 6 of attention's gradients: dout[batch,length,C], lse and row_dot[batch,heads,length], dqkv[batch,length,3C].
@group(0) @binding(3) var<storage, read> dout: array<f32>;
@group(0) @binding(4) var<storage, read> lse: array<f32>;
@group(0) @binding(5) var<storage, read> row_dot: array<f32>;
@group(0) @binding(6) var<storage, read_write> dqkv: array<f32>;
