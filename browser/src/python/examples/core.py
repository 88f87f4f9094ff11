# The core by itself, without numpy: tokens are an array of
# unsigned integers.
from array import array

from tabgpt_core import Config, Session  # tabgpt._core, alone

text = "the quick brown fox jumps over the lazy dog. " * 60
letters = sorted(set(text))
tokens = array("I", [letters.index(letter) for letter in text])

config = Config({
    "vocab_size": len(letters), "ctx": 16, "dropout": 0.0,
    "n_layer": 2, "n_head": 2, "d_model": 16, "d_mlp": 0,
    "activation": "gelu_tanh", "seed": 1,
    "batch_size": 4, "grad_accum": 1, "steps": 200,
    "lr": 1e-2, "schedule": "cosine", "min_lr_ratio": 0.1,
    "warmup_steps": 5, "beta1": 0.9, "beta2": 0.95,
    "eps": 1e-8, "weight_decay": 0.1, "grad_clip": 1.0,
})
session = Session(config, "train", 1)
session.init_weights()
session.set_tokens(tokens)
print(f"{config.n_parameters:,} parameters")

for step in range(200):
    session.step()
    if step % 25 == 24:
        print(f"step {step + 1:3}   loss {session.metric('loss'):.4f}")

session.generate_begin(array("I", [letters.index("t")]), temperature=0.5)
written = [letters[session.generate_next()] for _ in range(60)]
print("It writes: t" + "".join(written))
