// c[i] += sum over k of a[i][k] b[k]: 64 multiplications and additions on 8 vectors in registers.
// Written out, since an array that a loop indexes may lie in memory.
fn multiply_add(c: mat4x4<f32>, a: mat4x4<f32>, b: mat4x4<f32>) -> mat4x4<f32> {
  return mat4x4<f32>(
    c[0] + a[0].x * b[0] + a[0].y * b[1] + a[0].z * b[2] + a[0].w * b[3],
    c[1] + a[1].x * b[0] + a[1].y * b[1] + a[1].z * b[2] + a[1].w * b[3],
    c[2] + a[2].x * b[0] + a[2].y * b[1] + a[2].z * b[2] + a[2].w * b[3],
    c[3] + a[3].x * b[0] + a[3].y * b[1] + a[3].z * b[2] + a[3].w * b[3],
  );
}
