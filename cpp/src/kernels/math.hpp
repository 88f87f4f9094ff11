/** exp and the two GELUs on vectors, to one or two ulp. A NaN stays one: a broken step must be seen, not
 * masked. */
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

/**
 * exp(x); 0 below -87.3, where the result would be subnormal, and exp(88) above 88.
 * Cody-Waite reduction to |r| <= ln(2)/2 and the polynomial of Cephes' expf (Moshier), relative error
 * below 1.5 ulp. The nearest integer is found by adding 1.5 * 2^23: its bits, not a conversion, which NaN
 * would make undefined.
 */
TABGPT_INLINE vf exp(vf x) {
  const vi underflow = x < splat(-87.3f);
  x = select(underflow, splat(-87.3f), x);
  x = select(x > splat(88.0f), splat(88.0f), x);
  const vf shifter = splat(12582912.0f);
  const vf shifted = madd(x, splat(1.44269504f), shifter);
  const vf n = shifted - shifter;
  vf r = madd(n, splat(-0.693359375f), x);
  r = madd(n, splat(2.12194440e-4f), r);
  vf p = splat(1.9875691500e-4f);
  p = madd(p, r, splat(1.3981999507e-3f));
  p = madd(p, r, splat(8.3334519073e-3f));
  p = madd(p, r, splat(4.1665795894e-2f));
  p = madd(p, r, splat(1.6666665459e-1f));
  p = madd(p, r, splat(5.0000001201e-1f));
  p = madd(p, r * r, r) + splat(1.0f);
  const vi power = ((vi)shifted << 23) + (127 << 23);
  return select(underflow, splat(0.0f), p * (vf)power);
}

/** y = gelu(x) and its derivative; both from one exponential. */
struct GeluValue {
  vf y, slope;
};

/** x * sigmoid(2u) = 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3): no cancellation for negative x.
 */
TABGPT_INLINE GeluValue gelu_tanh(vf x) {
  constexpr float two_k = 1.5957691216f;  // 2 sqrt(2/pi)
  const vf x2 = x * x;
  const vf two_u = x * madd(x2, splat(two_k * 0.044715f), splat(two_k));
  const vf e = exp(-two_u);
  const vf s = splat(1.0f) / (splat(1.0f) + e);
  const vf two_du = madd(x2, splat(3 * two_k * 0.044715f), splat(two_k));
  return {x * s, madd(x * s * (s * e), two_du, s)};
}

/**
 * x Phi(x). Phi(-a) = exp(-a^2/2) t P(t), t = 1/(1 + 0.35 a), for a >= 0; P is our own minimax fit over [0,
 * 14], relative error 3.2e-8 before rounding.
 */
TABGPT_INLINE GeluValue gelu_erf(vf x) {
  const vf a = x < splat(0.0f) ? -x : x;
  const vf t = splat(1.0f) / madd(a, splat(0.35f), splat(1.0f));
  const vf e = exp(splat(-0.5f) * a * a);
  vf p = splat(-0.029146717861294746f);
  p = madd(p, t, splat(0.14397543668746948f));
  p = madd(p, t, splat(-0.25572174787521362f));
  p = madd(p, t, splat(0.15918241441249847f));
  p = madd(p, t, splat(-0.023115275427699089f));
  p = madd(p, t, splat(0.10551019012928009f));
  p = madd(p, t, splat(0.1198323518037796f));
  p = madd(p, t, splat(0.13986194133758545f));
  p = madd(p, t, splat(0.13962140679359436f));
  const vf below = e * t * p;
  const vf phi = select(x < splat(0.0f), below, splat(1.0f) - below);
  return {x * phi, madd(x * e, splat(0.3989422804f), phi)};
}

TABGPT_INLINE GeluValue gelu_value(vf x, Gelu kind) { return kind == Gelu::erf ? gelu_erf(x) : gelu_tanh(x); }

}  // namespace tabgpt::kernels::TABGPT_ISA
