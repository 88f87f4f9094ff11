// dwte[v] += sum of dx[row] over the rows that hold token v: rows[starts[v]] to rows[starts[v + 1] - 1], in order.
// The index comes with the batch, so no two threads write one place. dwte[vocab,width], dx[B T,width].
// A thread an element of dwte. Grid: ceil(vocab width / 256), folded.
//! include grid.wgsl
struct Params { vocab: u32, width: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> starts: array<u32>;
@group(0) @binding(2) var<storage, read> rows: array<u32>;
@group(0) @binding(3) var<storage, read> dx: array<f32>;
@group(0) @binding(4) var<storage, read_write> dwte: array<f32>;

// A frequent token's rows are summed in blocks: the error grows with BLOCK + n/BLOCK.
const BLOCK: u32 = 32u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let i = linear_group(group, groups) * 256u + thread;
  if (i >= p.vocab * p.width) {
    return;
  }
  let token = i / p.width;
  let c = i % p.width;
  let end = starts[token + 1u];
  var total = 0.0;
  for (var block = starts[token]; block < end; block = block + BLOCK) {
    var sum = 0.0;
    let block_end = min(block + BLOCK, end);
    for (var k = block; k < block_end; k = k + 1u) {
      sum = sum + dx[rows[k] * p.width + c];
    }
    total = total + sum;
  }
  dwte[i] = dwte[i] + total;
}
