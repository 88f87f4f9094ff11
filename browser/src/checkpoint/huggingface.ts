/**
 * @file config.json as transformers' GPT2Config reads and writes it. What a GPT-2 option would change
 * in the mathematics and tabgpt does not do is refused by its name.
 */
import { TabgptError } from "../core/errors.ts";
import type { Values } from "../presets.ts";

const ACTIVATIONS = {
  gelu_new: "gelu_tanh",
  gelu_pytorch_tanh: "gelu_tanh",
  gelu: "gelu_erf",
};

/** GPT2Config's defaults: transformers leaves out of config.json what equals them. */
const DEFAULTS: Record<string, unknown> = {
  vocab_size: 50257,
  n_positions: 1024,
  n_embd: 768,
  n_layer: 12,
  n_head: 12,
  activation_function: "gelu_new",
  embd_pdrop: 0.1,
  attn_pdrop: 0.1,
  resid_pdrop: 0.1,
};

/** Options with the only value that tabgpt's model has. */
const FIXED: Record<string, unknown> = {
  model_type: "gpt2",
  layer_norm_epsilon: 1e-5,
  scale_attn_weights: true,
  scale_attn_by_inverse_layer_idx: false,
  reorder_and_upcast_attn: false,
  add_cross_attention: false,
  tie_word_embeddings: true,
};

export function toGpt2Config(model: Values): Record<string, unknown> {
  return {
    architectures: ["GPT2LMHeadModel"],
    ...FIXED,
    vocab_size: model.vocab_size,
    n_positions: model.ctx,
    n_embd: model.d_model,
    n_layer: model.n_layer,
    n_head: model.n_head,
    n_inner: model.d_mlp,
    activation_function: model.activation === "gelu_erf" ? "gelu" : "gelu_new",
    embd_pdrop: model.dropout,
    attn_pdrop: model.dropout,
    resid_pdrop: model.dropout,
    bos_token_id: null,
    eos_token_id: null,
    initializer_range: 0.02,
  };
}

/** A ModelConfig from transformers' own config.json. Throws TabgptError for what cannot be had. */
export function fromGpt2Config(stored: Record<string, unknown>): Values {
  const config = { ...DEFAULTS, ...stored };
  if (stored.model_type === undefined) throw new TabgptError("config.json names no model_type; only gpt2 can be read");
  for (const [name, value] of Object.entries(FIXED)) {
    if (config[name] !== undefined && config[name] !== value) {
      throw new TabgptError(`config.json sets ${name} to ${JSON.stringify(config[name])}; tabgpt's model has ${value} only`);
    }
  }
  const activation = Object.entries(ACTIVATIONS).find(([name]) => name === config.activation_function)?.[1];
  if (!activation) {
    throw new TabgptError(
      `config.json's activation_function is ${JSON.stringify(config.activation_function)}; ` +
        `tabgpt knows ${Object.keys(ACTIVATIONS).join(", ")}`,
    );
  }
  const dropouts = ["embd_pdrop", "attn_pdrop", "resid_pdrop"].map((name) => config[name] as number);
  if (new Set(dropouts).size > 1) {
    throw new TabgptError(`config.json's embd_pdrop, attn_pdrop and resid_pdrop are ${dropouts.join(", ")}; they must be equal`);
  }
  const size = (name: string): number => {
    const value = config[name];
    if (!Number.isSafeInteger(value) || (value as number) < 1) {
      throw new TabgptError(`config.json's ${name} is ${JSON.stringify(value)}, not a size of 1 or more`);
    }
    return value as number;
  };
  const width = size("n_embd");
  return {
    vocab_size: size("vocab_size"),
    ctx: size("n_positions"),
    n_layer: size("n_layer"),
    n_head: size("n_head"),
    d_model: width,
    d_mlp: config.n_inner === null || config.n_inner === undefined ? 4 * width : size("n_inner"),
    dropout: dropouts[0]!,
    activation,
  };
}
