"""The core's GPU plans through wgpu-py: adapter.py finds a device, executor.py runs programs."""
