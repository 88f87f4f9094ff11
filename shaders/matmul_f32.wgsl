// Operands of matmul_scalar.wgsl in float32.
alias Operand = f32;

fn a_value(i: u32) -> f32 { return A[i]; }
fn b_value(i: u32) -> f32 { return B[i]; }
