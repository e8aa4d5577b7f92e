"""Random indexings, assignments and operations, beside numpy's.

A run has one part in so many of the cases; DOORBELL_PART chooses it, and `all` is all of them.
"""

import os
import random
import unittest

import numpy as np

import doorbell as db

PART = os.environ.get("DOORBELL_PART", "0")


def cases(count, parts):
    """The numbers of this run's cases, from 0 on."""
    return range(count) if PART == "all" else range(int(PART) % parts, count, parts)


def outcome(work):
    """What a function returns, or the class of its error that numpy's users expect."""
    try:
        return work()
    except (IndexError, ValueError, TypeError) as error:
        return next(kind for kind in (IndexError, ValueError, TypeError) if isinstance(error, kind))


def read(tensor):
    """The tensor, whose values were read: positions that only the device knows are checked then."""
    tensor.numpy()
    return tensor


class Case:
    """Random numbers of one case."""

    def __init__(self, number):
        self.random = random.Random(number)

    def shape(self, least=1, most=4):
        return tuple(self.random.choice((1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 7, 0)) for _ in range(self.random.randint(least, most)))

    def slice(self, size):
        place = lambda: self.random.choice((None, None, self.random.randint(-size - 2, size + 2)))
        return slice(place(), place(), self.random.choice((None, None, 1, 2, 3, -1, -2)))

    def position(self, size):
        # One in many is out of range.
        return self.random.randint(-size - (self.random.random() < 0.03), max(size, 1) - 1)

    def positions(self, size, shape):
        found = np.array([self.position(size) for _ in range(int(np.prod(shape)))], dtype=np.int64).reshape(shape)
        return self.random.choice((found, found, found.astype(np.int32), found.tolist()))

    def mask(self, shape):
        return np.array([self.random.random() < 0.5 for _ in range(int(np.prod(shape)))], dtype=bool).reshape(shape)

    def key(self, shape):
        """An index of an array of this shape."""
        # Shapes that broadcast, but for one in many.
        common = self.random.choice(((), (2,), (3,), (2, 3), (1,)))
        parts, axis = [], 0
        stop = self.random.randint(0, len(shape))
        has_ellipsis = False
        while axis < len(shape):
            kind = self.random.choice("iissspmn.")
            size = shape[axis]
            if kind == "n":
                parts.append(None)
                continue
            if kind == ".":
                if not has_ellipsis:
                    skipped = self.random.randint(0, len(shape) - axis)
                    axis += skipped
                    parts.append(...)
                    has_ellipsis = True
                continue
            if kind == "i":
                parts.append(self.random.choice((int, np.int64))(self.position(size)))
            elif kind == "s":
                parts.append(self.slice(size))
            elif kind == "p":
                own = self.random.choice((common, common, common[1:], (2,) if self.random.random() < 0.1 else common))
                parts.append(self.positions(size, own))
            elif kind == "m":
                axes = self.random.choice((1, 1, 2))
                parts.append(self.mask(shape[axis : axis + axes]))
                axis += axes - 1
            axis += 1
            if axis >= stop and not has_ellipsis and self.random.random() < 0.3:
                break
        return tuple(parts) if len(parts) != 1 or self.random.random() < 0.5 else parts[0]


class Indexing(unittest.TestCase):
    def compare(self, number, found, expected):
        if isinstance(expected, type):
            self.assertEqual(found, expected)
            return
        self.assertIsInstance(found, db.Tensor, f"numpy gives {expected.shape}")
        self.assertEqual(found.shape, expected.shape)
        np.testing.assert_array_equal(found.numpy(), expected)

    def test_reading(self):
        for number in cases(600, 6):
            case = Case(number)
            shape = case.shape()
            key = case.key(shape)
            array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
            with self.subTest(number=number, shape=shape, key=key):
                expected = outcome(lambda: array[key])
                found = outcome(lambda: read(db.asarray(array)[key]))
                self.compare(number, found, expected)

    def test_writing(self):
        for number in cases(240, 6):
            case = Case(1000 + number)
            shape = case.shape(1, 3)
            key = case.key(shape)
            array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
            part = outcome(lambda: array[key])
            size = () if isinstance(part, type) or case.random.random() < 0.4 else part.shape[case.random.randint(0, part.ndim) :]
            if case.random.random() < 0.1:
                size = (7, *size)
            value = -np.arange(1, int(np.prod(size)) + 1, dtype=np.int32).reshape(size)
            tensor = db.Tensor(array)
            with self.subTest(number=number, shape=shape, key=key, value=size):

                def theirs():
                    array[key] = value

                def ours():
                    tensor[key] = value
                    read(tensor)

                expected = outcome(theirs)
                self.assertEqual(outcome(ours), expected)
                if expected is None:
                    np.testing.assert_array_equal(tensor.numpy(), array)


OPERATIONS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "<": lambda a, b: a < b, "==": lambda a, b: a == b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "/": lambda a, b: a / b, "@": lambda a, b: a @ b,
}


class Broadcasting(unittest.TestCase):
    def test_operations(self):
        for number in cases(300, 6):
            case = Case(5000 + number)
            shape = case.shape(0, 4)
            # Mostly one that broadcasts with it.
            other = tuple(case.random.choice((size, size, 1)) for size in shape[case.random.randint(0, len(shape)) :])
            if case.random.random() < 0.1:
                other = case.shape(0, 3)
            if case.random.random() < 0.3:
                other = (case.random.randint(1, 2), *[1] * (len(shape) - len(other)), *other)
            name = case.random.choice(list(OPERATIONS))
            kind = case.random.choice((np.float32, np.float64, np.int32, np.int64))
            numbers = np.random.default_rng(number)
            a, b = (numbers.integers(1, 9, size=size).astype(kind) for size in (shape, other))
            if case.random.random() < 0.5:
                a, b = b, a
            with self.subTest(number=number, a=a.shape, b=b.shape, operation=name, kind=kind.__name__):
                expected = outcome(lambda: OPERATIONS[name](a, b))
                left = db.asarray(a)
                # numpy leaves operators with tensors to them, on both sides.
                for x, y in ((left, db.asarray(b)), (left, b), (a, db.asarray(b))):
                    found = outcome(lambda: OPERATIONS[name](x, y))
                    if isinstance(expected, type):
                        self.assertEqual(found, expected)
                        continue
                    self.assertIsInstance(found, db.Tensor)
                    self.assertEqual(found.shape, expected.shape)
                    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
                    # Quotients of integers are float32, not float64.
                    if not (name == "/" and np.issubdtype(kind, np.integer)):
                        self.assertEqual(found.numpy().dtype, expected.dtype)

    def test_types_promote_as_numpys_within_a_kind(self):
        kinds = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
        for a in kinds:
            for b in kinds:
                expected = np.promote_types(a, b)
                # float16 and float32 stay beside integers; numpy widens them. No integer holds int64 and uint64.
                if np.issubdtype(expected, np.floating) and a[:5] != b[:5] and "bool" not in (a, b):
                    narrow = [kind for kind in (a, b) if kind.startswith("float")] or ["float32"]
                    expected = np.dtype(narrow[0])
                with self.subTest(a=a, b=b):
                    self.assertEqual((db.zeros(1, dtype=a) * db.zeros(1, dtype=b)).dtype, str(expected))


if __name__ == "__main__":
    unittest.main()
