"""Runs a model of one input x and one output y by ctypes: model.py libdoorbell_c.so model.onnx."""
import array
import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.doorbell_error.restype = ctypes.c_char_p
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Blob(ctypes.Structure):
    """struct doorbell_blob"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("offset", ctypes.c_size_t),
        ("read_only", ctypes.c_int),
        ("release", RELEASE),
        ("context", ctypes.c_void_p),
    ]


def call(name, *arguments):
    if getattr(library, name)(*arguments):
        raise RuntimeError(library.doorbell_error().decode())


engine, model, tensor, output = (ctypes.c_void_p() for _ in range(4))
call("doorbell_open", b"CPU", ctypes.byref(engine))
call("doorbell_load", engine, sys.argv[2].encode(), ctypes.byref(model))
x = array.array("f", [-1, 2, -3, 4])
address, length = x.buffer_info()
released = []
shape = (ctypes.c_int64 * 1)(length)
blob = Blob(address, 4 * length, shape, None, 1, 1, 0, 1, RELEASE(released.append), None)
call("doorbell_from_blob", engine, ctypes.byref(blob), ctypes.byref(tensor))
names, wanted = (ctypes.c_char_p * 1)(b"x"), (ctypes.c_char_p * 1)(b"y")
inputs = (ctypes.c_void_p * 1)(tensor.value)
count = ctypes.c_size_t(1)
call("doorbell_run", model, names, inputs, count, wanted, ctypes.byref(output), count)
y = array.array("f", bytes(4 * length))
call("doorbell_read", output, ctypes.c_void_p(y.buffer_info()[0]), ctypes.c_size_t(4 * length))
print(*y)
library.doorbell_free(output)
library.doorbell_free(tensor)
library.doorbell_unload(model)
call("doorbell_synchronize", engine)
library.doorbell_close(engine)
print("released", len(released))
