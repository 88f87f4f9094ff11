// What every product kernel shares: op(A) op(B) and where they lie. Needs `alias Operand`, what A and B are arrays of.
// TRANS 0 NN: A[M,K] B[K,N] · 1 NT: A[M,K] B[N,K] · 2 TN: A[K,M] B[K,N]; out, pre_gelu, residual [M,N], bias [N].
struct Params { M: u32, N: u32, K: u32, site: u32, threshold: u32, scale: f32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> A: array<Operand>;
@group(0) @binding(3) var<storage, read> B: array<Operand>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read> residual: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;
@group(0) @binding(7) var<storage, read_write> pre_gelu: array<f32>;
override TRANS: u32 = 0u;
