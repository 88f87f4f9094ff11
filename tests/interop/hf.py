"""GPT-2 as transformers and torch compute it, in float64: what the oracle is compared with.

Imports torch: only the live tests and write_fixture.py may import this file.
"""

from __future__ import annotations

import numpy as np
import torch
from tabgpt.config import ModelConfig, TrainConfig
from transformers import GPT2Config, GPT2LMHeadModel

Arrays = dict[str, np.ndarray]

ACTIVATIONS = {"gelu_tanh": "gelu_new", "gelu_erf": "gelu"}


def empty_model(config: ModelConfig) -> GPT2LMHeadModel:
    """Their model of our shape, without dropout, in float64."""
    theirs = GPT2Config(
        vocab_size=config.vocab_size,
        n_positions=config.ctx,
        n_embd=config.d_model,
        n_layer=config.n_layer,
        n_head=config.n_head,
        n_inner=config.d_mlp,
        activation_function=ACTIVATIONS[config.activation],
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return GPT2LMHeadModel._from_config(theirs, attn_implementation="eager").double().eval()


def random_model(config: ModelConfig, seed: int) -> GPT2LMHeadModel:
    """Their initialisation, then moved so that no bias, gain or score is negligible."""
    torch.manual_seed(seed)
    model = empty_model(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


def loaded_model(config: ModelConfig, weights: Arrays) -> GPT2LMHeadModel:
    """Their model with our tensors, every name known and none missing but the tied head."""
    model = empty_model(config)
    state = {name: torch.from_numpy(array) for name, array in weights.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing == ["lm_head.weight"], missing
    assert not unexpected, unexpected
    return model


def weights_of(model: GPT2LMHeadModel) -> Arrays:
    """Every parameter once: the tied head is wte."""
    return {name: p.detach().numpy().copy() for name, p in model.named_parameters()}


def unshifted_loss(model: GPT2LMHeadModel, tokens: np.ndarray, targets: np.ndarray):
    """logits [B,T,V], and our loss: their `labels` would shift the targets by one."""
    logits = model(torch.from_numpy(tokens)).logits
    flat = torch.from_numpy(targets).reshape(-1)
    return logits, torch.nn.functional.cross_entropy(logits.reshape(len(flat), -1), flat)


def greedy(model: GPT2LMHeadModel, prompt: list[int], new: int) -> np.ndarray:
    """The likeliest continuation [new]; the mask says that token 0 is no padding."""
    ids = torch.tensor([prompt])
    everything = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=new,
        pad_token_id=0,
    )
    return everything[0, len(prompt) :].numpy()


def outcome(
    model: GPT2LMHeadModel, tokens: np.ndarray, targets: np.ndarray, prompt: list[int], new: int
) -> Arrays:
    """logits, loss, "grad:..." of every parameter, and the greedy continuation of the prompt."""
    model.zero_grad()
    logits, loss = unshifted_loss(model, tokens, targets)
    loss.backward()
    gradients = {f"grad:{n}": p.grad.numpy().copy() for n, p in model.named_parameters()}
    return {
        "logits": logits.detach().numpy(),
        "loss": loss.detach().numpy().reshape(1),
        "greedy": greedy(model, prompt, new),
        **gradients,
    }


def trained(
    model: GPT2LMHeadModel, train: TrainConfig, rates: list[float], tokens, targets
) -> tuple[Arrays, list[float]]:
    """Weights after one step of torch's AdamW a rate, and the norms before clipping."""
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": train.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=train.lr,
        betas=(train.beta1, train.beta2),
        eps=train.eps,
    )
    norms = []
    for rate in rates:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        unshifted_loss(model, tokens, targets)[1].backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), train.grad_clip)))
        optimizer.step()
    return weights_of(model), norms
