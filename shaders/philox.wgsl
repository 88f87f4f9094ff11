// Philox4x32-10 (Salmon et al. 2011) and the dropout masks made of it: the same bits as in every other language. Needs step.wgsl.

// The upper 32 bits of a b, from products of 16-bit halves; no sum here passes 2^32.
fn multiply_high(a: u32, b: u32) -> u32 {
  let a0 = a & 0xffffu;
  let a1 = a >> 16u;
  let b0 = b & 0xffffu;
  let b1 = b >> 16u;
  let middle = a1 * b0 + ((a0 * b0) >> 16u);
  return a1 * b1 + (middle >> 16u) + ((a0 * b1 + (middle & 0xffffu)) >> 16u);
}

// Ten rounds on the counter, with key (seed, 0).
fn philox(counter: vec4<u32>, seed: u32) -> vec4<u32> {
  var c = counter;
  var k0 = seed;
  var k1 = 0u;
  for (var round = 0u; round < 10u; round = round + 1u) {
    let high0 = multiply_high(0xD2511F53u, c.x);
    let high1 = multiply_high(0xCD9E8D57u, c.z);
    c = vec4<u32>(high1 ^ c.y ^ k0, 0xCD9E8D57u * c.z, high0 ^ c.w ^ k1, 0xD2511F53u * c.x);
    k0 = k0 + 0x9E3779B9u;
    k1 = k1 + 0xBB67AE85u;
  }
  return c;
}

// row * columns + column in 64 bits: (low, high).
fn wide_index(row: u32, columns: u32, column: u32) -> vec2<u32> {
  let low = row * columns;
  let sum = low + column;
  return vec2<u32>(sum, multiply_high(row, columns) + select(0u, 1u, sum < low));
}

// The block of dropout's stream that holds an element. site: layer << 4 | dropout site.
fn dropout_words(index: vec2<u32>, now: Step, site: u32) -> vec4<u32> {
  let block = vec2<u32>((index.x >> 2u) | (index.y << 30u), index.y >> 2u);
  let stream = (3u << 24u) | (now.micro << 16u) | site;  // use 3: dropout
  return philox(vec4<u32>(block, now.step, stream), now.seed);
}

// scale where the element of the stream is kept (its word >= threshold), else 0.
fn dropout_factor(index: vec2<u32>, now: Step, site: u32, threshold: u32, scale: f32) -> f32 {
  if (now.train == 0u) {
    return 1.0;
  }
  return select(0.0, scale, dropout_words(index, now, site)[index.x & 3u] >= threshold);
}

// Of an element and the three after it; a second block only where they lie in two.
fn dropout_factors(index: vec2<u32>, now: Step, site: u32, threshold: u32, scale: f32) -> vec4<f32> {
  if (now.train == 0u) {
    return vec4<f32>(1.0);
  }
  var words = dropout_words(index, now, site);
  let first = index.x & 3u;
  if (first != 0u) {
    let low = index.x + 4u;
    let more = dropout_words(vec2<u32>(low, index.y + select(0u, 1u, low < index.x)), now, site);
    if (first == 1u) {
      words = vec4<u32>(words.yzw, more.x);
    } else if (first == 2u) {
      words = vec4<u32>(words.zw, more.xy);
    } else {
      words = vec4<u32>(words.w, more.xyz);
    }
  }
  return select(vec4<f32>(0.0), vec4<f32>(scale), words >= vec4<u32>(threshold));
}
