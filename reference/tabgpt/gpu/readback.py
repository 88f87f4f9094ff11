"""Reading from the GPU through one buffer, made once, in pieces; twin of readback.ts in the tab."""

from __future__ import annotations

from typing import Any

import wgpu

LARGEST_PIECE = 16 << 20
WORD = 4


class Readback:
    """`largest` is the size of the largest read, in bytes."""

    def __init__(self, device: Any, largest: int) -> None:
        self._device = device
        self._size = max(WORD, min(largest, LARGEST_PIECE))
        self._staging = self._create()

    def _create(self) -> Any:
        usage = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
        return self._device.create_buffer(label="staging", size=self._size, usage=usage)

    def read(self, source: Any, offset: int, size: int) -> bytearray:
        """The bytes of a range, once all that was submitted is done."""
        data = bytearray(size)
        for done in range(0, size, self._size):
            piece = min(self._size, size - done)
            encoder = self._device.create_command_encoder()
            encoder.copy_buffer_to_buffer(source, offset + done, self._staging, 0, piece)
            self._device.queue.submit([encoder.finish()])
            data[done : done + piece] = self._mapped(piece)
        return data

    def _mapped(self, size: int) -> Any:
        try:
            self._staging.map_sync(wgpu.MapMode.READ, 0, size)
        except KeyboardInterrupt:
            # Mapped or about to be, without wgpu-py's knowledge: the next copy would be fatal.
            self._staging.destroy()
            self._staging = self._create()
            raise
        try:
            return self._staging.read_mapped(0, size)
        finally:
            self._staging.unmap()

    def answers(self) -> bool:
        """Whether the device still maps its memory. wgpu-py tells of a loss in no other way: its
        `GPUDevice.lost` is not implemented."""
        try:
            self._mapped(WORD)
        except (wgpu.GPUError, RuntimeError):
            return False
        return True

    def destroy(self) -> None:
        self._staging.destroy()
