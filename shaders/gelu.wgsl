// GELU and its slope from one exponential (Hendrycks & Gimpel 2016). Needs math.wgsl.
const GELU_TANH: u32 = 1u;
const GELU_ERF: u32 = 2u;

// (y, dy/dx): x sigmoid(2u) = 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3); nothing cancels for x < 0.
// Beyond 9.5 the sigmoid is 0 or 1 in float32: clamped there, no power of x overflows.
fn gelu_tanh(x: f32) -> vec2<f32> {
  let c = clamp(x, -9.5, 9.5);
  let two_k = 1.5957691216;  // 2 sqrt(2/pi)
  let e = accurate_exp(-(c * (two_k + two_k * 0.044715 * (c * c))));
  let s = 1.0 / (1.0 + e);
  let two_du = two_k + 3.0 * two_k * 0.044715 * (c * c);
  return vec2<f32>(x * s, s + c * s * (s * e) * two_du);
}

// (y, dy/dx): x Phi(x). Phi(-a) = exp(-a^2/2) t P(t), t = 1/(1 + 0.35 a), for a >= 0; P as in cpp/src/kernels/math.hpp.
fn gelu_erf(x: f32) -> vec2<f32> {
  let a = min(abs(x), 14.0);
  let t = 1.0 / (1.0 + 0.35 * a);
  let e = accurate_exp(-0.5 * a * a);
  var p = -0.029146717861294746;
  p = p * t + 0.14397543668746948;
  p = p * t - 0.25572174787521362;
  p = p * t + 0.15918241441249847;
  p = p * t - 0.023115275427699089;
  p = p * t + 0.10551019012928009;
  p = p * t + 0.1198323518037796;
  p = p * t + 0.13986194133758545;
  p = p * t + 0.13962140679359436;
  let below = e * t * p;
  let phi = select(1.0 - below, below, x < 0.0);
  return vec2<f32>(x * phi, phi + x * e * 0.3989422804);
}

fn gelu(x: f32, kind: u32) -> vec2<f32> {
  if (kind == GELU_ERF) {
    return gelu_erf(x);
  }
  return gelu_tanh(x);
}
