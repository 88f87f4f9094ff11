// What changes from step to step, written by the core before each run of a program; the rest of a plan never changes.
struct Step {
  seed: u32,        // Philox key
  step: u32,        // optimizer step, from 0
  micro: u32,       // accumulation micro-step
  train: u32,       // 1: dropout is applied; 0: it lets everything through
  position: u32,    // position of the first row of tokens; of the one token when decoding
  loss_scale: f32,  // dlogits carry this factor: 1 / (B T grad_accum)
  keep: f32,        // 1 - lr weight_decay, for decayed tensors
  rate: f32,        // lr / (1 - beta1^t)
  root2: f32,       // 1 / sqrt(1 - beta2^t)
}
