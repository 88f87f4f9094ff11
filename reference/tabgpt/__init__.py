"""tabgpt: train a GPT from scratch in a browser tab, and prove that what it computes is right."""
