"""Serves the wgpu backend to pytest, in the words of tests/native_worker.py.

A process of its own: Naga may abort, and the driver is chosen by environment.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import islice
from typing import Any

import numpy as np
from native_worker import ids, main
from tabgpt.backends.wgpu import WgpuSession
from tabgpt.config import ModelConfig, TrainConfig
from tabgpt.gpu.adapter import find_adapter

sessions: dict[int, WgpuSession] = {}


def open_session(args: dict[str, Any], data: list[bytes]) -> int:
    parts = [
        kind(**{field.name: args["config"][field.name] for field in fields(kind)})
        for kind in (ModelConfig, TrainConfig)
    ]
    corpus = ids(data[0]) if data else None
    sessions[len(sessions) + 1] = WgpuSession(*parts, corpus, args["mode"], args["variants"])
    return len(sessions)


def on_session(call: str, session: WgpuSession, args: dict[str, Any], data: list[bytes]) -> Any:
    match call:
        case "close" | "names" | "init_weights" | "memory":
            return getattr(session, call)()
        case "get":
            return [session.tensor(args["name"])]
        case "set":
            shape = session.tensor(args["name"]).shape
            session.set(args["name"], np.frombuffer(data[0], np.float32).reshape(shape))
        case "step":
            step = session.step()
            numbers = {name: str(getattr(step, name)) for name in ("loss", "grad_norm")}
            return numbers | {"lr": step.lr, "finite": step.finite}
        case "step_number":
            return session.step_number
        case "set_step_number":
            session.step_number = args["step"]
        case "loss" | "loss_and_grads":
            x, y = (ids(item, args["batch"], args["length"]) for item in data)
            return str(getattr(session, call)(x, y, args["train"], args["step"], args["micro"]))
        case "logits":
            return [session.logits(ids(data[0], args["batch"], args["length"]))]
        case "evaluate":
            return str(session.evaluate(args["split"], args["batches"]))
        case "generate":
            s = args["sampling"]
            options = s["temperature"], s["topK"], s["topP"], s["seed"]
            return list(islice(session.generate(ids(data[0]), *options), args["count"]))
        case _:
            raise ValueError(f"tests/wgpu_worker.py knows no call {call!r}")


def serve(call: str, args: dict[str, Any], data: list[bytes]) -> Any:
    match call:
        case "about":
            return {"device": find_adapter().name}
        case "open":
            return open_session(args, data)
        case _:
            return on_session(call, sessions[args["session"]], args, data)


if __name__ == "__main__":
    main(serve)
