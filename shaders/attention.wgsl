// Bindings 0 to 2 of training's attention, one row or one tile at a time. Needs step.wgsl.
//   qkv[batch,length,3C], C = heads head_dim; scale = 1/sqrt(head_dim). Dropout acts on the normalised probabilities, element
//   ((b heads + h) length + query) length + key of the site.
struct Params { batch: u32, length: u32, heads: u32, head_dim: u32, scale: f32, site: u32, threshold: u32, keep_scale: f32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read> qkv: array<f32>;
override DROPOUT: u32 = 0u;
