# A tiny model, trained twice from the same weights on the same batches:
# by the oracle (NumPy, float64) and by the C++ core (WebAssembly, float32).
import time

import numpy as np
from tabgpt import ModelConfig, TrainConfig
from tabgpt.backends import open_session

text = "the quick brown fox jumps over the lazy dog. " * 60
letters = sorted(set(text))
tokens = np.array([letters.index(letter) for letter in text], np.uint32)

model = ModelConfig(
    vocab_size=len(letters), ctx=16, n_layer=2, n_head=2, d_model=16
)
plan = TrainConfig(batch_size=4, steps=60, lr=1e-2, warmup_steps=5, seed=1)
oracle = open_session("numpy", model, plan, tokens, "train")
core = open_session("native", model, plan, tokens, "train")

oracle.init_weights()
core.init_weights()
for name in core.names():  # not one bit apart at the start
    core.set(name, oracle.tensor(name).astype(np.float32))
    oracle.set(name, core.tensor(name).astype(np.float64))

print("step   oracle     core       difference")
seconds = {"oracle": 0.0, "core": 0.0}
largest = 0.0
for step in range(plan.steps):
    began = time.perf_counter()
    expected = oracle.step().loss
    between = time.perf_counter()
    got = core.step().loss
    seconds["oracle"] += between - began
    seconds["core"] += time.perf_counter() - between
    difference = abs(got - expected) / expected
    largest = max(largest, difference)
    if step % 10 == 9:
        print(f"{step + 1:4}   {expected:.6f}   {got:.6f}   {difference:.1e}")

faster = seconds["oracle"] / seconds["core"]
print(f"\nLargest relative difference: {largest:.1e} (the bound is 3e-06)")
print(f"Here the core was {faster:.0f} times as fast.")

ids = core.generate([letters.index("t")], temperature=0.5, seed=1)
print("It writes: t" + "".join(letters[next(ids)] for _ in range(60)))
