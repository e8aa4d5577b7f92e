"""tinygrad's driver for NVIDIA's kernel driver (NVK) on the twin: import this before a device is opened.

tinygrad's own class for files gives way to the adapter's, under the name that the driver takes it by; nothing
else is changed. (Its interface MOCK would also have it leave machine code and parameters to an emulator.)
"""
from tinygrad.runtime.support import hcq

from test.mockgpu import mockgpu  # isort: skip

hcq.FileIOInterface = mockgpu.MockFileIOInterface

from tinygrad.runtime import ops_nv  # noqa: E402, F401
