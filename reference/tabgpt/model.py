"""The oracle: a GPT-2 in float64, forward and backward by hand. What "right" means here.

It refuses to be fast or small: every activation is kept under its name, attention
is the plain [T,T], and nothing happens in place. Shapes at line ends: B batch,
T tokens, C d_model, H heads, F d_mlp, V vocabulary.
"""

from __future__ import annotations

from . import ops
from .config import ModelConfig
from .ops import Array, Dropout

Tensors = dict[str, Array]

NO_DROPOUT = Dropout(0.0)


def forward(
    config: ModelConfig,
    params: Tensors,
    tokens: Array,
    targets: Array | None = None,
    dropout: Dropout = NO_DROPOUT,
) -> Tensors:
    """Every activation by name; tokens and targets are ids [B,T], T <= ctx.

    "logits" is [B,T,V]; with targets, "losses" [B,T] holds each position's loss.
    """
    B, T = tokens.shape
    assert 1 <= T <= config.ctx, f"{T} tokens; a context of {config.ctx} takes 1 to {config.ctx}"
    acts: Tensors = {}

    def linear(name: str, x: Array) -> Array:
        return ops.linear_forward(x, params[f"{name}.weight"], params[f"{name}.bias"])

    def layernorm(name: str, x: Array) -> Array:
        weight, bias = (params[f"transformer.{name}.{part}"] for part in ("weight", "bias"))
        out, mean, rstd = ops.layernorm_forward(x, weight, bias)
        acts.update({f"{name}.out": out, f"{name}.mean": mean, f"{name}.rstd": rstd})
        return out  # [B,T,C]

    def drop(x: Array, layer: int, site: int) -> Array:
        return x * dropout.factor(x.shape, layer, site)

    wte, wpe = params["transformer.wte.weight"], params["transformer.wpe.weight"]
    x = drop(ops.embedding_forward(tokens, wte, wpe), 0, ops.EMBEDDING)  # [B,T,C]
    acts["embed.out"] = x
    for i in range(config.n_layer):
        h, w = f"h.{i}", f"transformer.h.{i}"

        qkv = linear(f"{w}.attn.c_attn", layernorm(f"{h}.ln_1", x))  # [B,T,3C]
        factor = dropout.factor((B, config.n_head, T, T), i, ops.ATTENTION)
        out, lse = ops.attention_forward(qkv, config.n_head, factor)  # [B,T,C], [B,H,T]
        acts |= {f"{h}.attn.qkv": qkv, f"{h}.attn.lse": lse, f"{h}.attn.out": out}
        x = x + drop(linear(f"{w}.attn.c_proj", out), i, ops.ATTENTION_RESIDUAL)
        acts[f"{h}.resid_mid"] = x  # [B,T,C]

        fc = linear(f"{w}.mlp.c_fc", layernorm(f"{h}.ln_2", x))  # [B,T,F]
        act = ops.gelu_forward(fc, config.activation)  # [B,T,F]
        acts |= {f"{h}.mlp.fc": fc, f"{h}.mlp.act": act}
        x = x + drop(linear(f"{w}.mlp.c_proj", act), i, ops.MLP_RESIDUAL)
        acts[f"{h}.resid_out"] = x  # [B,T,C]
    x = layernorm("ln_f", x)  # [B,T,C]
    acts["logits"] = x @ wte.T  # [B,T,V]; the head is the embedding, transposed
    if targets is not None:
        acts["losses"] = ops.cross_entropy_forward(acts["logits"], targets)  # [B,T]
    return acts


def backward(
    config: ModelConfig,
    params: Tensors,
    acts: Tensors,
    tokens: Array,
    targets: Array,
    dropout: Dropout = NO_DROPOUT,
) -> tuple[Tensors, Tensors]:
    """Gradients of the mean loss over B * T: (of every parameter, of the named activations)."""
    B, T = tokens.shape
    grads: Tensors = {}
    dacts: Tensors = {}

    def linear(name: str, dy: Array, x: Array) -> Array:
        dx, dweight, dbias = ops.linear_backward(dy, x, params[f"{name}.weight"])
        grads.update({f"{name}.weight": dweight, f"{name}.bias": dbias})
        return dx

    def layernorm(name: str, dout: Array, x: Array) -> Array:
        weight, mean, rstd = (
            params[f"transformer.{name}.weight"],
            acts[f"{name}.mean"],
            acts[f"{name}.rstd"],
        )
        dx, dweight, dbias = ops.layernorm_backward(dout, x, weight, mean, rstd)
        grads.update({f"transformer.{name}.weight": dweight, f"transformer.{name}.bias": dbias})
        dacts[f"{name}.out"] = dout
        return dx  # [B,T,C]

    def drop(dx: Array, layer: int, site: int) -> Array:
        return dx * dropout.factor(dx.shape, layer, site)

    wte, wpe = params["transformer.wte.weight"], params["transformer.wpe.weight"]
    # What enters each block, and, last, the final LayerNorm.
    inputs = ["embed.out", *(f"h.{i}.resid_out" for i in range(config.n_layer))]
    dlogits = ops.cross_entropy_backward(acts["logits"], targets, 1 / (B * T))  # [B,T,V]
    dacts["logits"] = dlogits
    dx = layernorm("ln_f", dlogits @ wte, acts[inputs[-1]])  # [B,T,C]
    for i in reversed(range(config.n_layer)):
        h, w = f"h.{i}", f"transformer.h.{i}"
        dacts[f"{h}.resid_out"] = dx  # [B,T,C]

        dbranch = drop(dx, i, ops.MLP_RESIDUAL)  # [B,T,C]
        dact = linear(f"{w}.mlp.c_proj", dbranch, acts[f"{h}.mlp.act"])  # [B,T,F]
        dfc = ops.gelu_backward(dact, acts[f"{h}.mlp.fc"], config.activation)  # [B,T,F]
        dacts |= {f"{h}.mlp.act": dact, f"{h}.mlp.fc": dfc}
        dln = linear(f"{w}.mlp.c_fc", dfc, acts[f"{h}.ln_2.out"])  # [B,T,C]
        dx = dx + layernorm(f"{h}.ln_2", dln, acts[f"{h}.resid_mid"])
        dacts[f"{h}.resid_mid"] = dx  # [B,T,C]

        dbranch = drop(dx, i, ops.ATTENTION_RESIDUAL)  # [B,T,C]
        out, lse, qkv = (acts[f"{h}.attn.{name}"] for name in ("out", "lse", "qkv"))
        dout = linear(f"{w}.attn.c_proj", dbranch, out)  # [B,T,C]
        factor = dropout.factor((B, config.n_head, T, T), i, ops.ATTENTION)
        dqkv = ops.attention_backward(dout, out, lse, qkv, config.n_head, factor)  # [B,T,3C]
        dacts |= {f"{h}.attn.out": dout, f"{h}.attn.qkv": dqkv}
        dln = linear(f"{w}.attn.c_attn", dqkv, acts[f"{h}.ln_1.out"])  # [B,T,C]
        dx = dx + layernorm(f"{h}.ln_1", dln, acts[inputs[i]])  # [B,T,C]
    dacts["embed.out"] = dx
    dx = drop(dx, 0, ops.EMBEDDING)  # [B,T,C]
    dwte, dwpe = ops.embedding_backward(dx, tokens, wte, wpe)  # [V,C], [ctx,C]
    x = acts["ln_f.out"].reshape(B * T, -1)  # [BT,C]
    # wte is used twice, as embedding and as head: the two gradients add.
    grads["transformer.wte.weight"] = dwte + dlogits.reshape(B * T, -1).T @ x  # [V,C]
    grads["transformer.wpe.weight"] = dwpe  # [ctx,C]
    return grads, dacts


def loss(
    config: ModelConfig,
    params: Tensors,
    tokens: Array,
    targets: Array,
    dropout: Dropout = NO_DROPOUT,
) -> complex:
    """Mean cross-entropy over B * T; complex when a parameter is."""
    mean: complex = forward(config, params, tokens, targets, dropout)["losses"].mean().item()
    return mean
