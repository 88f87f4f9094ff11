// exp and log to about an ulp, and a finite check that no compiler may assume away.
// WGSL allows its own exp 3 + 2|x| ulp and its log an absolute 2^-21 (accuracy table, "Accuracy of built-in
// functions"): a probability would be off by a hundred ulp where the CPU's is off by two.

// exp(x); 0 below -87.3, where the result would be subnormal, and exp(88) above 88.
// Cody-Waite reduction to |r| <= ln(2)/2 and the polynomial of Cephes' expf (Moshier).
// Comparisons, not clamp(), so that a NaN stays one.
fn accurate_exp(x: f32) -> f32 {
  var y = select(x, -87.3, x < -87.3);
  y = select(y, 88.0, y > 88.0);
  let n = round(y * 1.44269504);
  let r = (y - n * 0.693359375) + n * 2.12194440e-4;
  var p = 1.9875691500e-4;
  p = p * r + 1.3981999507e-3;
  p = p * r + 8.3334519073e-3;
  p = p * r + 4.1665795894e-2;
  p = p * r + 1.6666665459e-1;
  p = p * r + 5.0000001201e-1;
  p = (p * (r * r) + r) + 1.0;
  let power = bitcast<f32>(u32(i32(n) + 127) << 23u);
  return select(p * power, 0.0, x < -87.3);
}

// log(x) of a normal x > 0: x = 2^e (1 + m) with 1 + m in [sqrt(1/2), sqrt(2)), Cephes' logf (Moshier).
fn accurate_log(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  var e = f32(i32(bits >> 23u) - 126);
  var m = bitcast<f32>((bits & 0x007fffffu) | 0x3f000000u);
  if (m < 0.707106781) {
    e = e - 1.0;
    m = m + m;
  }
  m = m - 1.0;
  let z = m * m;
  var p = 7.0376836292e-2;
  p = p * m - 1.1514610310e-1;
  p = p * m + 1.1676998740e-1;
  p = p * m - 1.2420140846e-1;
  p = p * m + 1.4249322787e-1;
  p = p * m - 1.6668057665e-1;
  p = p * m + 2.0000714765e-1;
  p = p * m - 2.4999993993e-1;
  p = p * m + 3.3333331174e-1;
  p = p * m * z - 2.12194440e-4 * e - 0.5 * z;
  return (m + p) + 0.693359375 * e;
}

// By its exponent bits: WGSL lets a compiler assume that no float is a NaN or an infinity.
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }
