// out[i / width, i mod width] += sum over chunks of partials[chunk, first + i], chunks in order; partials is [chunks, stride].
// n sums, and out's rows of width start `apart` from each other: tensors that follow each other in an arena are one pass.
// A thread an element. Grid: ceil(n/64).
struct Params { n: u32, chunks: u32, stride: u32, first: u32, width: u32, apart: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> partials: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= p.n) {
    return;
  }
  var sum = 0.0;
  for (var chunk = 0u; chunk < p.chunks; chunk = chunk + 1u) {
    sum = sum + partials[chunk * p.stride + p.first + i];
  }
  let at = i / p.width * p.apart + i % p.width;
  out[at] = out[at] + sum;
}
