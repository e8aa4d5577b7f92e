"""The file layer of tinygrad on the twin.

With DEV=MOCKKFD+AMD tinygrad takes `MockFileIOInterface` from this module in place of its own class
for files, and changes nothing else: its driver then opens, maps and drives the twin.

DOORBELL_TWIN is the path of libdoorbell_twin.so, DOORBELL_TWIN_CONFIG its config string.
"""
import ctypes
import os

from tinygrad.runtime.support.hcq import FileIOInterface

_lib = ctypes.CDLL(os.environ["DOORBELL_TWIN"])
_int, _ptr, _size = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
for _name, _result, _arguments in [
    ("new", _ptr, [ctypes.c_char_p, ctypes.c_char_p, _size]),
    ("free", None, [_ptr]),
    ("attach", _ptr, [_ptr]),
    ("detach", None, [_ptr]),
    ("exists", _int, [_ptr, ctypes.c_char_p]),
    ("open", _int, [_ptr, ctypes.c_char_p, _int]),
    ("close", _int, [_ptr, _int]),
    ("read", ctypes.c_ssize_t, [_ptr, _int, _ptr, _size, ctypes.c_long]),
    ("readdir", ctypes.c_ssize_t, [_ptr, _int, _ptr, _size]),
    ("ioctl", _int, [_ptr, _int, ctypes.c_ulong, _ptr]),
    ("mmap", _ptr, [_ptr, _ptr, _size, _int, _int, _int, ctypes.c_long]),
    ("munmap", _int, [_ptr, _ptr, _size]),
    ("broken", _size, [_ptr]),
    ("report", _size, [_ptr, _size, _ptr, _size]),
]:
    _function = getattr(_lib, "doorbell_twin_" + _name)
    _function.restype, _function.argtypes = _result, _arguments

_error = ctypes.create_string_buffer(4096)
_twin = _lib.doorbell_twin_new(os.environ.get("DOORBELL_TWIN_CONFIG", "").encode(), _error, len(_error))
if not _twin:
    raise RuntimeError("DOORBELL_TWIN_CONFIG: " + _error.value.decode())
_process = _lib.doorbell_twin_attach(_twin)

# The twin counts its descriptors from here.
_FIRST = 1 << 30


def reports(first=0):
    """The reports of the broken rules from number `first` on, as one text."""
    size = _lib.doorbell_twin_report(_twin, first, None, 0) + 1
    text = ctypes.create_string_buffer(size)
    _lib.doorbell_twin_report(_twin, first, text, size)
    return text.value.decode(errors="replace")


def broken():
    """How many rules have been broken."""
    return _lib.doorbell_twin_broken(_twin)


def detach():
    """Ends the process on the twin, as the kernel does when a client exits."""
    global _process
    if _process:
        _lib.doorbell_twin_detach(_process)
        _process = None


def _check(result, what):
    if result < 0:
        raise OSError(-result, os.strerror(-result), what)
    return result


class MockFileIOInterface(FileIOInterface):
    def __init__(self, path="", flags=os.O_RDONLY, fd=None):
        self.path = path
        if fd is not None:
            self.fd = fd
        elif MockFileIOInterface._has(path):
            self.fd = _check(_lib.doorbell_twin_open(_process, path.encode(), flags), path)
        else:
            self.fd = os.open(path, flags)

    def __del__(self):
        fd = getattr(self, "fd", -1)
        if fd >= _FIRST and _process:
            _lib.doorbell_twin_close(_process, fd)
        elif 0 <= fd < _FIRST:
            os.close(fd)

    def ioctl(self, request, arg):
        if self.fd < _FIRST:
            return super().ioctl(request, arg)
        return _check(_lib.doorbell_twin_ioctl(_process, self.fd, request, ctypes.addressof(arg)), self.path)

    def mmap(self, start, sz, prot, flags, offset):
        if self.fd < _FIRST:
            return super().mmap(start, sz, prot, flags, offset)
        address = _lib.doorbell_twin_mmap(_process, start, sz, prot, flags, self.fd, offset)
        if address > (1 << 64) - 4096:
            error = (1 << 64) - address
            raise OSError(error, os.strerror(error), f"mmap of {sz} bytes of {self.path}")
        return address

    def read(self, size=None, binary=False, offset=None):
        if self.fd < _FIRST:
            return super().read(size, binary, offset)
        data = ctypes.create_string_buffer(size or 1 << 16)
        got = _check(_lib.doorbell_twin_read(_process, self.fd, data, len(data), offset or 0), self.path)
        return data.raw[:got] if binary else data.raw[:got].decode()

    def listdir(self):
        if self.fd < _FIRST:
            return super().listdir()
        names = ctypes.create_string_buffer(1 << 16)
        got = _check(_lib.doorbell_twin_readdir(_process, self.fd, names, len(names)), self.path)
        return names.raw[:got].decode().split()

    @staticmethod
    def munmap(buf, sz):
        # Once the process has ended nothing of the twin is mapped any more.
        return _check(_lib.doorbell_twin_munmap(_process, buf, sz), "munmap") if _process else 0

    @staticmethod
    def exists(path):
        return MockFileIOInterface._has(path) or os.path.exists(path)

    @staticmethod
    def _has(path):
        return bool(_process) and _lib.doorbell_twin_exists(_process, path.encode()) == 1
