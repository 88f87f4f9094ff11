// A step's few results, in one buffer of floats that a step starts by clearing.
const LOSS_SUM: u32 = 0u;    // of all micro-batches' losses
const NOT_FINITE: u32 = 1u;  // how many of them were not finite
const NORM: u32 = 2u;        // of the whole gradient, before clipping
const CLIP: u32 = 3u;        // factor that adamw gives each gradient
const FINITE: u32 = 4u;      // 1: losses and gradients are finite, and adamw may run; 0: it changes nothing
