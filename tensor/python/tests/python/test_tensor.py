"""Tensors: data, types, operators, indexing, errors; numpy is the reference."""

import copy
import faulthandler
import gc
import pickle
import tempfile
import threading
import unittest
import weakref
from pathlib import Path

import numpy as np

import doorbell as db


def same(found, expected, tolerance=1e-6):
    found = found.numpy() if isinstance(found, db.Tensor) else np.asarray(found)
    expected = np.asarray(expected)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance)


class Data(unittest.TestCase):
    def test_lists_have_the_types_that_users_expect(self):
        self.assertEqual(db.Tensor([1.0, 2]).dtype, db.float32)
        self.assertEqual(db.Tensor([1, 2]).dtype, db.int64)
        self.assertEqual(db.Tensor([True, False]).dtype, db.bool_)
        self.assertEqual(db.Tensor([[1, 2], [3, 4]]).shape, (2, 2))
        self.assertEqual(db.Tensor([]).shape, (0,))
        self.assertEqual(db.Tensor(3).shape, ())
        self.assertEqual(db.Tensor([1.5, 2.5], dtype="int32").tolist(), [1, 2])
        for name in ["float16", "float64", "int8", "uint8", "uint16", "uint32", "uint64"]:
            self.assertEqual(db.Tensor([1, 2], dtype=name).numpy().dtype, np.dtype(name))

    def test_ragged_lists_are_refused(self):
        for data in ([[1, 2], [3]], [1, [2]], [[1], 2], ["a"]):
            with self.assertRaises((db.ShapeError, TypeError)):
                db.Tensor(data)

    def test_arrays_in_every_layout(self):
        base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        for array in (base, base[::-1], base[:, ::2], base.T, base[..., 1], base[:0], base[1, 2, 3], np.asfortranarray(base)):
            same(db.Tensor(array), array)
            same(db.asarray(array), array)
        same(db.Tensor(np.float32(3.5)), 3.5)
        same(db.Tensor([np.ones(2), np.zeros(2)]), [[1, 1], [0, 0]])
        same(db.Tensor(b"\x01\x02"), [1, 2])
        with self.assertRaises(db.DTypeError):
            db.Tensor(np.zeros(2, dtype=np.complex64))
        with self.assertRaises(db.DTypeError):
            db.Tensor(np.zeros(2, dtype=">f4"))

    def test_numpy_shares_memory_both_ways(self):
        array = np.arange(6, dtype=np.float32)
        tensor = db.asarray(array)
        self.assertEqual(tensor.data_ptr(), array.ctypes.data)
        self.assertTrue(tensor.is_shared)
        array[0] = 7
        self.assertEqual((tensor + 1).tolist()[0], 8)
        made = db.Tensor([1.0, 2.0]) * 2
        out = made.numpy()
        self.assertEqual(out.ctypes.data, made.data_ptr())
        self.assertEqual(np.asarray(made).ctypes.data, made.data_ptr())
        self.assertFalse(out.flags.writeable)
        self.assertTrue(made.numpy(copy=True).flags.writeable)
        del made, tensor
        gc.collect()
        self.assertEqual(out.tolist(), [2.0, 4.0])

    def test_a_copy_does_not_follow_its_array(self):
        array = np.ones(3, dtype=np.float32)
        tensor = db.Tensor(array)
        array[:] = 5
        self.assertEqual(tensor.tolist(), [1.0, 1.0, 1.0])
        # Also where it is in another order, or in another type.
        square = np.arange(4, dtype=np.float32).reshape(2, 2)
        turned, whole = db.Tensor(square.T), db.Tensor(square, dtype=db.int32)
        square[:] = 7
        self.assertEqual(turned.tolist(), [[0.0, 2.0], [1.0, 3.0]])
        self.assertEqual(whole.tolist(), [[0, 1], [2, 3]])
        shared = db.asarray(array)
        (db.Tensor([1.0, 2.0, 3.0])).copy_into(shared)
        self.assertEqual(array.tolist(), [1.0, 2.0, 3.0])

    def test_dlpack_with_numpy(self):
        tensor = db.Tensor([[1.0, 2.0], [3.0, 4.0]])
        array = np.from_dlpack(tensor)
        same(tensor, array)
        self.assertEqual(array.ctypes.data, tensor.data_ptr())
        own = np.arange(4, dtype=np.int32)
        back = db.from_dlpack(own)
        self.assertEqual(back.data_ptr(), own.ctypes.data)
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        capsule = tensor.__dlpack__()
        del capsule
        gc.collect()

    def test_a_value_outlives_an_assignment_to_the_tensor(self):
        tensor = db.Tensor([1.0, 2.0, 3.0])
        before = tensor.numpy()
        tensor[1] = 9.0
        self.assertEqual(before.tolist(), [1.0, 2.0, 3.0])
        self.assertEqual(tensor.tolist(), [1.0, 9.0, 3.0])

    def test_bfloat16_has_no_numpy(self):
        tensor = db.Tensor([1.5], dtype=db.bfloat16)
        with self.assertRaisesRegex(db.DTypeError, "numpy has no bfloat16"):
            tensor.numpy()
        self.assertEqual(tensor.float().tolist(), [1.5])

    def test_arrays_only_by_a_copy_are_refused_where_none_may_be_made(self):
        tensor = db.Tensor([1.0, 2.0])
        self.assertEqual(np.array(tensor, copy=False).ctypes.data, tensor.data_ptr())
        self.assertEqual(np.asarray(tensor, dtype=np.float32).ctypes.data, tensor.data_ptr())
        self.assertEqual(np.asarray(tensor, dtype=np.int32).tolist(), [1, 2])
        self.assertNotEqual(np.array(tensor).ctypes.data, tensor.data_ptr())
        with self.assertRaisesRegex(ValueError, "copy=False"):
            np.array(tensor, dtype=np.float64, copy=False)

    def test_what_numpy_reads_is_read(self):
        class Column:
            def __array__(self, dtype=None, copy=None):
                return np.array([1.0, 2.0])

        class Picture:
            __array_interface__ = {"version": 3, "shape": (2, 2), "typestr": "|u1", "data": b"\x01\x02\x03\x04"}

        self.assertEqual(db.Tensor(Column()).tolist(), [1.0, 2.0])
        self.assertEqual((db.ones(2) + Column()).tolist(), [2.0, 3.0])
        self.assertEqual(db.asarray(Picture()).tolist(), [[1, 2], [3, 4]])
        self.assertEqual(db.Tensor([1, np.int64(2), np.float32(2.5)]).tolist(), [1.0, 2.0, 2.5])
        self.assertEqual(db.Tensor([[np.int8(1), 2]]).dtype, db.int64)

    def test_memory_of_arrays_is_given_back(self):
        class Array(np.ndarray):
            pass

        gone = []
        for make in (db.asarray, db.from_dlpack, lambda array: db.asarray(array[::2]) * 2):
            array = np.arange(8, dtype=np.float32).view(Array)
            weakref.finalize(array, gone.append, 1)
            tensor = make(array)
            tensor.tolist()
            capsule = tensor.__dlpack__(max_version=(1, 1))
            del array, tensor
            db.default_device().synchronize()
            gc.collect()
            del capsule
            # What is freed by a thread without an interpreter is freed at the next call.
            db.default_device().synchronize()
            gc.collect()
            self.assertEqual(len(gone), 1)
            gone.clear()

    def test_pickles_and_copies(self):
        tensor = db.Tensor([[1, 2], [3, 4]], dtype="int16")
        again = pickle.loads(pickle.dumps(tensor))
        self.assertEqual((again.tolist(), again.dtype), (tensor.tolist(), db.int16))
        self.assertEqual(copy.deepcopy(tensor).tolist(), tensor.tolist())
        self.assertIs(pickle.loads(pickle.dumps(db.float32)) == db.float32, True)
        for given in (True, False):
            again = pickle.loads(pickle.dumps(db.parameter([1.0, 2.0], requires_grad=given)))
            self.assertEqual((again.tolist(), again.is_parameter, again.requires_grad), ([1.0, 2.0], True, given))
        self.assertFalse(pickle.loads(pickle.dumps(tensor)).is_parameter)
        for other in (db.default_device(), db.Rng(1), db.nn.Linear(1, 1), db.optim.SGD([db.Tensor(1.0, requires_grad=True)])):
            with self.assertRaisesRegex(TypeError, "cannot pickle"):
                pickle.dumps(other)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.safetensors"
            db.save_safetensors({"a": db.Tensor([1.0, 2.0])}, path)
            self.assertEqual(db.load_safetensors(path)["a"].tolist(), [1.0, 2.0])
            db.Tensor([[1, 2]]).write_npy(Path(folder) / "x.npy")
            self.assertEqual(np.load(Path(folder) / "x.npy").tolist(), [[1, 2]])
            self.assertEqual(db.read_npy(Path(folder) / "x.npy").tolist(), [[1, 2]])
            with self.assertRaises(db.FileError):
                db.load_safetensors(Path(folder) / "none")


class Operators(unittest.TestCase):
    def test_arithmetic_is_numpys(self):
        a = np.array([[1.5, -2.0, 3.0], [4.0, 5.5, -6.0]], dtype=np.float32)
        b = np.array([2.0, -3.0, 0.5], dtype=np.float32)
        x, y = db.Tensor(a), db.Tensor(b)
        for f in (
            lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p / q, lambda p, q: p // q, lambda p, q: p % q,
            lambda p, q: abs(p) ** q, lambda p, q: -p + 2, lambda p, q: 2 - p, lambda p, q: 2 / q, lambda p, q: 7 // q,
            lambda p, q: 7 % q, lambda p, q: 2 ** q, lambda p, q: p < q, lambda p, q: p >= q, lambda p, q: p == q, lambda p, q: p != 1,
            lambda p, q: +p, lambda p, q: p @ q,
        ):
            same(f(x, y), f(a, b), 1e-5)

    def test_integers_are_numpys(self):
        a, b = np.array([7, -7, 12]), np.array([2, 2, -5])
        x, y = db.Tensor(a), db.Tensor(b)
        for f in (
            lambda p, q: p // q, lambda p, q: p % q, lambda p, q: p & q, lambda p, q: p | q, lambda p, q: p ^ q, lambda p, q: ~p,
            lambda p, q: p << 2, lambda p, q: p >> 1, lambda p, q: 100 // q, lambda p, q: p ** 2,
        ):
            same(f(x, y), f(a, b))

    def test_arrays_and_lists_beside_tensors(self):
        x = db.Tensor([1.0, 2.0])
        for other in (np.array([1.0, 2.0], dtype=np.float32), [1.0, 2.0], np.float32(2)):
            self.assertIsInstance(x + other, db.Tensor)
            self.assertIsInstance(other + x, db.Tensor)
        same(np.array([[1.0], [2.0]], dtype=np.float32) * x, [[1, 2], [2, 4]])
        with self.assertRaises(TypeError):
            x + "a"
        self.assertFalse(x == "a")
        with self.assertRaises(TypeError):
            x @ 2

    def test_assignments_with_operators(self):
        x, a = db.Tensor([1.0, 2.0]), np.array([1.0, 2.0], dtype=np.float32)
        same_one = x
        x += 1
        x *= [2.0, 3.0]
        x -= db.Tensor(0.5)
        x /= 2
        x **= 2
        x //= 0.5
        a = ((((a + 1) * [2, 3] - 0.5) / 2) ** 2) // 0.5
        same(x, a)
        self.assertIs(x, same_one)
        w = db.Tensor([1.0, 2.0], requires_grad=True)
        (w * w).sum().backward()
        kept = w
        w -= 0.5 * w.grad
        self.assertIs(w, kept)
        self.assertEqual((w.tolist(), w.requires_grad), ([0.0, 0.0], True))
        with self.assertRaises(db.ShapeError):
            x += db.ones((3, 2))
        n = db.Tensor([1, 2])
        with self.assertRaisesRegex(db.DTypeError, "float32"):
            n += 0.5
        self.assertEqual(n.tolist(), [1, 2])

    def test_numbers(self):
        x = db.Tensor([3])
        self.assertEqual((int(x), float(x), bool(x)), (3, 3.0, True))
        self.assertEqual([10, 20, 30, 40][db.Tensor(3)], 40)
        self.assertEqual(f"{db.Tensor(1.5):.2f}", "1.50")
        self.assertIn(3, x)
        with self.assertRaisesRegex(ValueError, "ambiguous"):
            bool(db.Tensor([1, 2]))
        with self.assertRaises(TypeError):
            [1, 2][db.Tensor([1])]
        with self.assertRaises(TypeError):
            len(db.Tensor(1))
        self.assertEqual([row.tolist() for row in db.Tensor([[1, 2], [3, 4]])], [[1, 2], [3, 4]])

    def test_repr_has_shape_type_and_device(self):
        text = repr(db.Tensor([[1, 2], [3, 4]]))
        self.assertTrue(text.startswith("Tensor([[1, 2],"), text)
        self.assertIn("shape=[2, 2], dtype=int64, device=CPU:0", text)
        self.assertIn("requires_grad=True", repr(db.Tensor(1.0, requires_grad=True)))


class Arguments(unittest.TestCase):
    def test_errors_say_what_was_expected(self):
        x = db.Tensor([[1.0, 2.0], [3.0, 4.0]])
        for work, kind, text in (
            (lambda: x.to(3), TypeError, "expected a device or its name, found int"),
            (lambda: x.sum(axis=1.5), TypeError, "expected an integer or a sequence of integers, found float"),
            (lambda: db.zeros(10**20), OverflowError, ""), (lambda: db.zeros(-1), ValueError, "0 or more"),
            (lambda: db.Tensor(2**63), OverflowError, "beyond int64"), (lambda: db.Tensor(None), TypeError, "cannot make a tensor of NoneType"),
            (lambda: x.reshape(3), db.ShapeError, "4 elements"), (lambda: x.astype(object), TypeError, "one of bool, int8"),
            (lambda: db.Tensor([1], dtype="int8") + 300, db.DTypeError, "300 does not fit"), (lambda: np.exp(x), TypeError, "ufunc"),
            (lambda: db.zeros((1 << 20, 1 << 20)).realize(), MemoryError, "bytes"), (lambda: iter(db.Tensor(1)), TypeError, "without axes"),
        ):
            with self.assertRaisesRegex(kind, text):
                work()


class Methods(unittest.TestCase):
    def test_reductions(self):
        a = np.random.default_rng(1).normal(size=(3, 4, 5)).astype(np.float32)
        x = db.Tensor(a)
        for name in ("sum", "mean", "max", "min", "prod", "var", "std"):
            for axis in (None, 1, -1, (0, 2)):
                for keepdims in (False, True):
                    found = getattr(x, name)(axis=axis, keepdims=keepdims)
                    same(found, getattr(a, name)(axis=axis, keepdims=keepdims), 1e-4)
        same(x.argmax(), a.argmax())
        same(x.argmin(axis=1), a.argmin(axis=1))
        same(x.cumsum(1), a.cumsum(1), 1e-4)
        with self.assertRaisesRegex(db.ShapeError, "axis 3 of a tensor with 3 axes"):
            x.sum(axis=3)
        with self.assertRaises(ValueError):
            x.sum(axis=())

    def test_movement(self):
        a = np.arange(24).reshape(2, 3, 4)
        x = db.Tensor(a)
        same(x.reshape(6, -1), a.reshape(6, -1))
        same(x.reshape((4, 6)), a.reshape(4, 6))
        same(x.T, a.T)
        same(x.transpose(), a.transpose())
        same(x.transpose(0, 2), a.swapaxes(0, 2))
        same(x.permute(2, 0, 1), a.transpose(2, 0, 1))
        same(x.permute((-1, 0, 1)), a.transpose(2, 0, 1))
        same(x.flip(0), np.flip(a, 0))
        same(db.Tensor([[1], [2]]).expand(-1, 3), [[1, 1, 1], [2, 2, 2]])
        same(x.pad(1), np.pad(a, 1))
        same(x.pad([(1, 0), (0, 2), (1, 1)], mode="edge"), np.pad(a, [(1, 0), (0, 2), (1, 1)], mode="edge"))
        same(db.cat([x, x], axis=1), np.concatenate([a, a], axis=1))
        same(db.stack([x, x], axis=-1), np.stack([a, a], axis=-1))
        same(db.where(x > 5, x, 0), np.where(a > 5, a, 0))
        same(db.einsum("ijk,ijk->i", x, x), np.einsum("ijk,ijk->i", a, a))
        self.assertEqual([part.shape for part in x.split([1, 2], 1)], [(2, 1, 4), (2, 2, 4)])
        with self.assertRaisesRegex(db.ShapeError, "matmul: "):
            x @ x

    def test_makers(self):
        same(db.arange(5), np.arange(5))
        same(db.arange(1, 2, 0.25), np.arange(1, 2, 0.25))
        same(db.linspace(0, 1, 5), np.linspace(0, 1, 5))
        same(db.eye(2, 3), np.eye(2, 3))
        same(db.full((2, 2), 7), np.full((2, 2), 7))
        self.assertEqual(db.zeros((2, 3)).dtype, db.float32)
        rng = db.Rng(7)
        self.assertEqual(rng.rand(2, 3).shape, (2, 3))
        self.assertEqual(db.Rng(3).randn(4).tolist(), db.Rng(3).randn(4).tolist())

    def test_methods_have_documentation(self):
        self.assertIn("Hyperbolic tangent", db.Tensor.tanh.__doc__)
        self.assertIn("axis=None", db.Tensor.sum.__text_signature__)
        missing = [name for name in dir(db.Tensor) if not name.startswith("_") and not getattr(db.Tensor, name).__doc__]
        self.assertEqual(missing, [])


class Indexing(unittest.TestCase):
    def setUp(self):
        self.a = np.arange(120).reshape(4, 5, 6)
        self.x = db.Tensor(self.a)

    def test_as_numpy(self):
        mask = self.a % 3 == 0
        rows = np.array([2, 0, -1])
        for key in (
            0, -1, (1, 2), (1, 2, 3), slice(1, 3), slice(None, None, -1), slice(3, 0, -2), (..., 1), (0, ..., 1), None, (None, 1), (1, None),
            (slice(None), None, 2), slice(5, 9), rows, (rows, rows), (slice(None), rows), (0, rows), (rows, slice(1, 3), rows), (rows, None, 1),
            (slice(None, 10**30), slice(-(10**30), None)), (slice(None), rows, ..., rows), (slice(None), 0, ..., rows),
            (slice(None), rows[:, None], rows), [1, 2], mask, mask[:, 0, 0], (slice(None), mask[0, :, 0]), [], np.int64(1), (rows, 1), (1, rows, 2),
        ):
            with self.subTest(key=key):
                same(self.x[key], self.a[key])

    def test_by_tensors(self):
        index = db.Tensor([3, 1])
        same(self.x[index], self.a[[3, 1]])
        same(self.x[self.x > 100], self.a[self.a > 100])

    def test_errors(self):
        for key in (
            4, -5, (0, 5), (0, 0, 0, 0), (..., ...), [4], db.Tensor([1.5]), np.zeros((2, 2), dtype=bool), 10**30, -(10**30), 1.0, "a", True,
            ([0, 1], [0, 1, 2]),
        ):
            with self.subTest(key=key), self.assertRaises(IndexError):
                self.x[key].tolist()
        with self.assertRaisesRegex(db.RangeError, "index 4 of axis 0, which has 4 elements; use -4..4"):
            self.x[4]
        with self.assertRaises(ValueError):
            self.x[::0]
        with self.assertRaises(TypeError):
            self.x[1.5:]

    def test_assignment(self):
        for key, value in (
            (0, 1), ((1, 2), [1, 2, 3, 4, 5, 6]), (slice(None, None, 2), -1), ([0, 2], 5), (self.a > 50, 0), ((..., -1), 3),
        ):
            x, a = db.Tensor(self.a), self.a.copy()
            x[key] = value
            a[key] = value
            same(x, a)
        with self.assertRaisesRegex(db.ShapeError, "assignment"):
            db.Tensor([1, 2, 3])[:2] = [1, 2, 3]
        with self.assertRaises(db.GradientError):
            db.Tensor([1.0], requires_grad=True)[0] = 2


class Threads(unittest.TestCase):
    def test_what_waits_gives_the_lock_of_the_interpreter_up(self):
        inside, go = threading.Event(), threading.Event()
        found = []

        @db.jit
        def f(x):
            inside.set()
            go.wait(60)
            return x + 1

        # The second call waits for the first one, which waits for this thread.
        threads = [threading.Thread(target=lambda n=n: found.append(f(db.ones(n)).tolist())) for n in (2, 3)]
        faulthandler.dump_traceback_later(100, exit=True)
        threads[0].start()
        inside.wait(60)
        threads[1].start()
        threads[1].join(0.2)
        go.set()
        for thread in threads:
            thread.join(60)
        faulthandler.cancel_dump_traceback_later()
        self.assertEqual(sorted(found), [[2.0, 2.0], [2.0, 2.0, 2.0]])

    def test_many_threads_compute_at_once(self):
        found = [None] * 8

        def work(i):
            x = db.arange(1000, dtype="float32")
            found[i] = float((x * i).sum())

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(found, [499500.0 * i for i in range(8)])


if __name__ == "__main__":
    unittest.main()
