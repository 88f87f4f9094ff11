"""Our native training step against PyTorch's on the CPU: python bench/step_torch.py

The preset nanogpt-cpu on one and two threads; PyTorch eager and compiled, with
scaled_dot_product_attention, fused AdamW and clipping. Both sides start from
the same weights and draw batches from the same tokens; before the timing they
are shown to train alike: one gradient and the first losses on the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import command
import numpy as np
import pairs
import torch
import torch.nn as nn
import torch.nn.functional as F
from tabgpt import batches
from tabgpt.backends.native import NativeSession
from tabgpt.config import ModelConfig, Recipe, TrainConfig

PRESET = "nanogpt-cpu"
VOCAB = 65  # TinyShakespeare by characters
THREADS = (1, 2)
VARIANTS = ("eager", "compiled")
CHECKED_STEPS = 5
LOSS_BOUND = 1e-5
"""Relative, of the first losses; two float32 implementations differ by a few 1e-7."""
GRAD_BOUND = 1e-5
"""Norm of a tensor's difference, relative to the norm of the whole gradient."""


class Block(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        C = config.d_model
        self.n_head = config.n_head
        self.approximate = "none" if config.activation == "gelu_erf" else "tanh"
        self.ln_1, self.ln_2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(C, 3 * C), "c_proj": nn.Linear(C, C)})
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(C, config.d_mlp), "c_proj": nn.Linear(config.d_mlp, C)}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        qkv = self.attn["c_attn"](self.ln_1(x)).split(C, dim=2)
        q, k, v = (z.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for z in qkv)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](y.transpose(1, 2).reshape(B, T, C))
        hidden = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate=self.approximate)
        return x + self.mlp["c_proj"](hidden)


class Gpt(nn.Module):
    """GPT-2 without dropout, its parameters named as in `transformers` below "transformer."."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.d_model)
        self.wpe = nn.Embedding(config.ctx, config.d_model)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.d_model)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def as_theirs(name: str, value: np.ndarray) -> np.ndarray:
    """Our tensor as torch's parameter of that name: GPT-2 keeps [in,out], nn.Linear [out,in]."""
    return value.T if name.split(".")[-2].startswith("c_") and value.ndim == 2 else value


class Peer:
    """PyTorch's side: model, optimizer and tokens."""

    def __init__(self, ours: NativeSession, train: TrainConfig, tokens: np.ndarray) -> None:
        self.model = Gpt(ours.config)
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                value = as_theirs(name, ours.tensor(f"transformer.{name}"))
                parameter.copy_(torch.from_numpy(value.copy()))
        parameters = list(self.model.parameters())
        groups = [
            {
                "params": [p for p in parameters if p.ndim >= 2],
                "weight_decay": train.weight_decay,
            },
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=train.lr, betas=(train.beta1, train.beta2), eps=train.eps, fused=True
        )
        self.train = train
        self.parameters = parameters
        self.tokens = torch.from_numpy(tokens.astype(np.int64))
        self.window = torch.arange(ours.config.ctx)
        self.loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = self.model

    def step_on(self, x: torch.Tensor, y: torch.Tensor) -> float:
        """One optimizer step on a batch [B,T]; its loss."""
        loss = self.loss(x, y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, self.train.grad_clip)
        self.optimizer.step()
        return float(loss.item())

    def first_losses(self, tokens: np.ndarray) -> list[float]:
        """Steps on the batches of the core's first CHECKED_STEPS steps."""
        return [self.step_on(*first_batch(self, tokens, step)) for step in range(CHECKED_STEPS)]

    def step(self) -> float:
        """The same on a batch drawn at random."""
        starts = torch.randint(len(self.tokens) - len(self.window), (self.train.batch_size, 1))
        index = starts + self.window
        return self.step_on(self.tokens[index], self.tokens[index + 1])


def first_batch(peer: Peer, tokens: np.ndarray, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch that the core draws for a step, [B,T] tokens and targets."""
    train, ctx = peer.train, len(peer.window)
    part, _ = batches.split(tokens, ctx)
    x, y = batches.training_batch(part, ctx, train.batch_size, train.seed, step)
    return torch.from_numpy(x.astype(np.int64)), torch.from_numpy(y.astype(np.int64))


def compared(ours: NativeSession, peer: Peer, tokens: np.ndarray) -> dict[str, float]:
    """Largest relative differences: of a gradient's tensors, then of the first steps' losses."""
    x, y = first_batch(peer, tokens, 0)
    ours.loss_and_grads(x.numpy(), y.numpy())
    peer.model(x, y).backward()
    grads = {
        name: (as_theirs(name, ours.tensor(f"grad:transformer.{name}")), parameter.grad.numpy())
        for name, parameter in peer.model.named_parameters()
    }
    whole = np.sqrt(sum(np.sum(theirs.astype(float) ** 2) for _, theirs in grads.values()))
    worst_grad = np.max([np.linalg.norm(mine - theirs) for mine, theirs in grads.values()]) / whole
    losses = [ours.step().loss for _ in range(CHECKED_STEPS)]
    theirs = np.array(peer.first_losses(tokens))
    worst_loss = np.max(abs(np.array(losses) / theirs - 1))
    return {"grad_relative": float(worst_grad), "losses_relative": float(worst_loss)}


def measure(
    recipe: Recipe, variant: str, threads: int, count: int, sample_s: float
) -> dict[str, Any]:
    """One comparison of a training step, ours and PyTorch's on as many threads."""
    torch.set_num_threads(threads)
    torch.compiler.reset()  # compiled code keeps the number of threads it was made for
    torch.manual_seed(0)
    model, train = recipe.model(VOCAB), recipe.train
    tokens = np.random.default_rng(7).integers(VOCAB, size=100_000).astype(np.uint32)
    ours = NativeSession(model, train, tokens, mode="train", threads=threads)
    ours.init_weights()
    peer = Peer(ours, train, tokens)
    if variant == "compiled":
        peer.loss = torch.compile(peer.model, fullgraph=True)
    row = {
        "preset": PRESET,
        "parameters": sum(p.numel() for p in peer.parameters),
        "tokens_per_step": train.batch_size * model.ctx,
        "variant": variant,
        "threads": threads,
        "torch": torch.__version__,
        **compared(ours, peer, tokens),
    }
    timing = pairs.compare(ours.step, peer.step, pairs=count, sample_s=sample_s)
    ours.close()
    return {**row, **timing}


def verdict(results: list[dict[str, Any]]) -> tuple[bool, str]:
    """Whether both sides did the same training."""
    grad, loss = (
        float(np.max([row[key] for row in results]))  # NaN stays NaN
        for key in ("grad_relative", "losses_relative")
    )
    return grad <= GRAD_BOUND and loss <= LOSS_BOUND, (
        f"gradients differ by at most {grad:.1e} (bound {GRAD_BOUND:g}) and the first "
        f"{CHECKED_STEPS} losses by {loss:.1e} (bound {LOSS_BOUND:g}), relative"
    )


def run(
    recipe: Recipe, variants: Sequence[str], count: int, sample_s: float
) -> list[dict[str, Any]]:
    """All comparisons, one printed line each."""
    print("variant, threads: speed ours / PyTorch (quartiles), ms a step of each")
    results = []
    for threads in THREADS:
        for variant in variants:
            row = measure(recipe, variant, threads, count, sample_s)
            results.append(row)
            q = row["ratio"]
            ours_ms, peer_ms = (1e3 * float(np.median(row[f"{s}_s"])) for s in ("ours", "peer"))
            print(
                f"{variant:8s} {threads}: {q['median']:.3f} ({q['q1']:.3f} to {q['q3']:.3f})"
                f"  {ours_ms:.2f} {peer_ms:.2f}",
                flush=True,
            )
    return results


def measure_all(effort: command.Effort) -> command.Outcome:
    variants = VARIANTS[:1] if effort.quick else VARIANTS
    results = run(effort.recipe(PRESET), variants, effort.rounds, effort.sample_s)
    return command.Outcome(results, *verdict(results))


if __name__ == "__main__":
    command.run("step-torch", __doc__, command.Effort(rounds=21, sample_s=0.2), measure_all)
