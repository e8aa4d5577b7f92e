"""Gradients, layers, optimizers, captured functions."""

import collections
import gc
import tempfile
import unittest
import weakref
from pathlib import Path

import numpy as np

import doorbell as db
from doorbell import nn, optim


def line(seed=7):
    """Points of y = 2 a - 3 b + 1."""
    rng = db.Rng(seed)
    x = rng.randn(64, 2)
    return x, (x * db.Tensor([2.0, -3.0])).sum(axis=1, keepdims=True) + 1.0


class Gradients(unittest.TestCase):
    def test_backward_gathers(self):
        w = db.Tensor([1.0, 2.0, 3.0], requires_grad=True)
        (w * w).sum().backward()
        self.assertEqual(w.grad.tolist(), [2.0, 4.0, 6.0])
        (w * 2).sum().backward()
        self.assertEqual(w.grad.tolist(), [4.0, 6.0, 8.0])
        w.grad = None
        self.assertIsNone(w.grad)
        (w * w).backward(db.Tensor([1.0, 0.0, 2.0]))
        self.assertEqual(w.grad.tolist(), [2.0, 0.0, 12.0])

    def test_values_that_are_assigned_keep_no_earlier_ones(self):
        class Array(np.ndarray):
            pass

        gone = []
        w = db.Tensor([1.0, 2.0], requires_grad=True)
        for _ in range(3):
            array = np.ones(2, dtype=np.float32).view(Array)
            weakref.finalize(array, gone.append, 1)
            w -= db.asarray(array)
            w.assign(w * 2)
            del array
        db.default_device().synchronize()
        gc.collect()
        self.assertEqual((w.tolist(), len(gone)), ([-6.0, 2.0], 3))

    def test_only_what_a_tensor_depends_on_gets_one(self):
        a, b = db.Tensor(2.0, requires_grad=True), db.Tensor(3.0, requires_grad=True)
        (a * 5).backward()
        self.assertEqual(a.grad.item(), 5.0)
        self.assertIsNone(b.grad)

    def test_functional_gradients_and_their_gradients(self):
        x = db.Tensor(3.0)
        (first,) = db.gradients(x ** 3, [x])
        (second,) = db.gradients(first, [x])
        self.assertAlmostEqual(first.item(), 27.0, places=4)
        self.assertAlmostEqual(second.item(), 18.0, places=4)

    def test_no_grad(self):
        w = db.Tensor(2.0, requires_grad=True)
        with db.no_grad():
            loss = w * 3
        with self.assertRaisesRegex(db.GradientError, "requires_grad=True"):
            loss.backward()

        @db.no_grad()
        def f():
            return w * 3

        with self.assertRaises(db.GradientError):
            f().backward()
        (w * 3).backward()
        self.assertEqual(w.grad.item(), 3.0)

    def test_errors(self):
        with self.assertRaises(db.ShapeError):
            db.Tensor([1.0, 2.0], requires_grad=True).backward()
        with self.assertRaises(db.DTypeError):
            db.Tensor([1, 2], requires_grad=True)
        with self.assertRaises(db.GradientError):
            db.Tensor(1.0).grad = db.Tensor(1.0)
        with self.assertRaisesRegex(db.GradientError, "backward"):
            optim.SGD([db.Tensor(1.0, requires_grad=True)]).step()
        with self.assertRaisesRegex(db.GradientError, "parameter 0"):
            optim.SGD([db.Tensor(1.0)])


class Net(nn.Module):
    def __init__(self):
        self.inner = nn.Linear(2, 16)
        self.norm = nn.BatchNorm(16)
        self.outer = nn.Linear(16, 1)

    def forward(self, x):
        return self.outer(self.norm(self.inner(x)).relu())


class Training(unittest.TestCase):
    def test_every_optimizer_learns_a_line(self):
        x, y = line()
        for kind, lr in ((optim.SGD, 0.1), (optim.Adam, 0.1), (optim.AdamW, 0.1), (optim.LAMB, 0.1)):
            nn.manual_seed(1)
            layer = nn.Linear(2, 1)
            optimizer = kind(layer.parameters(), lr=lr)
            first = layer(x).mse_loss(y).item()
            for _ in range(60):
                optimizer.zero_grad()
                loss = layer(x).mse_loss(y)
                loss.backward()
                optimizer.step()
            self.assertLess(layer(x).mse_loss(y).item(), first / 5, kind.__name__)

    def test_minimize_is_backward_and_step(self):
        x, y = line()
        found = []
        for way in ("minimize", "step"):
            nn.manual_seed(3)
            layer = nn.Linear(2, 1)
            adam = optim.Adam(layer.parameters(), lr=0.05)
            for _ in range(5):
                loss = layer(x).mse_loss(y)
                if way == "minimize":
                    adam.minimize(loss)
                else:
                    adam.zero_grad()
                    loss.backward()
                    adam.step()
            found.append(layer.weight.numpy(copy=True))
        np.testing.assert_allclose(found[0], found[1], rtol=1e-5)

    def test_a_module_names_its_parameters_as_pytorch(self):
        net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1, bias=False))
        self.assertEqual([name for name, _ in net.named_parameters()], ["0.weight", "0.bias", "2.weight"])
        self.assertEqual(
            sorted(Net().state_dict()),
            ["inner.bias", "inner.weight", "norm.bias", "norm.num_batches_tracked", "norm.running_mean", "norm.running_var", "norm.weight",
             "outer.bias", "outer.weight"],
        )
        with self.assertRaises(AttributeError):
            net[0].weight = db.Tensor(1.0)

    def test_running_statistics_and_eval(self):
        x, y = line()
        net = Net()
        adam = optim.Adam(net.parameters(), lr=0.05)
        before = net.norm.running_mean.numpy(copy=True)
        for _ in range(3):
            adam.zero_grad()
            net(x).mse_loss(y).backward()
            adam.step()
        self.assertFalse(np.allclose(before, net.norm.running_mean.numpy()))
        net.eval()
        self.assertEqual(net(x).tolist(), net(x).tolist())
        self.assertEqual(net(x[:1]).shape, (1, 1))

    def test_states_are_saved_and_loaded(self):
        x, y = line()
        one, two = Net(), Net()
        adam = optim.Adam(one.parameters(), lr=0.05)
        adam.minimize(one(x).mse_loss(y))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.safetensors"
            nn.save(one, path, {"adam": adam})
            other = optim.Adam(two.parameters(), lr=0.9)
            nn.load(two, path, {"adam": other})
            self.assertAlmostEqual(other.lr, 0.05, places=6)
        self.assertEqual(one.eval()(x).tolist(), two.eval()(x).tolist())
        three = Net()
        three.load_state_dict({name: tensor.numpy() for name, tensor in one.state_dict().items()})
        self.assertEqual(one.eval()(x).tolist(), three.eval()(x).tolist())
        with self.assertRaisesRegex(db.ShapeError, "missing"):
            three.load_state_dict({})

    def test_layers_give_their_shapes(self):
        x = db.Rng(1).randn(2, 4, 8, 8)
        self.assertEqual(nn.Conv2d(4, 6, 3, padding=1)(x).shape, (2, 6, 8, 8))
        self.assertEqual(nn.Conv2d(4, 6, 3, stride=2, groups=2)(x).shape, (2, 6, 3, 3))
        self.assertEqual(nn.ConvTranspose2d(4, 6, 2, stride=2)(x).shape, (2, 6, 16, 16))
        self.assertEqual(nn.MaxPool2d(2)(x).shape, (2, 4, 4, 4))
        self.assertEqual(nn.AvgPool2d(2)(x).shape, (2, 4, 4, 4))
        self.assertEqual(nn.GroupNorm(2, 4)(x).shape, x.shape)
        self.assertEqual(nn.InstanceNorm(4)(x).shape, x.shape)
        self.assertEqual(nn.LayerNorm(8)(x).shape, x.shape)
        self.assertEqual(nn.RMSNorm(8)(x).shape, x.shape)
        self.assertEqual(nn.Embedding(5, 3)(db.Tensor([[0, 4]])).shape, (1, 2, 3))
        rows = db.Rng(1).randn(5, 2, 8)
        self.assertEqual(nn.GRU(8, 4)(rows)[0].shape, (5, 2, 4))
        found, (h, c) = nn.LSTM(8, 4, num_layers=2)(rows)
        self.assertEqual((found.shape, h.shape, c.shape), ((5, 2, 4), (2, 2, 4), (2, 2, 4)))
        self.assertEqual(nn.MultiHeadAttention(8, 2)(rows, rows, rows).shape, rows.shape)
        self.assertEqual(nn.Dropout(0.5).eval()(rows).tolist(), rows.tolist())

    def test_clipping(self):
        w = db.Tensor([3.0, 4.0], requires_grad=True)
        (w * w).sum().backward()
        norm = nn.clip_grad_norm([w], 1.0)
        self.assertAlmostEqual(norm.item(), 10.0, places=4)
        self.assertAlmostEqual(w.grad.square().sum().item(), 1.0, places=4)


class Captured(unittest.TestCase):
    def test_a_function_is_captured_once_per_shape(self):
        calls = []

        @db.jit
        def f(x, scale=2):
            calls.append(1)
            return {"y": x * scale, "pair": (x + 1, [x - 1])}

        for i in range(4):
            found = f(db.Tensor([float(i), 1.0]))
            self.assertEqual(found["y"].tolist(), [2.0 * i, 2.0])
            self.assertEqual(found["pair"][1][0].tolist(), [i - 1.0, 0.0])
        self.assertEqual((len(calls), f.captures), (2, 1))
        self.assertEqual(f(db.Tensor([1.0, 1.0]), scale=5)["y"].tolist(), [5.0, 5.0])
        f(db.Tensor([1.0]))
        f(db.Tensor([1.0]))
        self.assertEqual(f(db.Tensor([4.0]))["y"].tolist(), [8.0])

    def test_a_training_step_is_captured(self):
        x, y = line()
        losses = {}
        for captured in (False, True):
            nn.manual_seed(5)
            layer = nn.Linear(2, 1)
            adam = optim.Adam(layer.parameters(), lr=0.05)

            def step(a, b):
                adam.zero_grad()
                loss = layer(a).mse_loss(b)
                loss.backward()
                adam.step()
                return loss

            run = db.jit(step) if captured else step
            losses[captured] = [run(x, y).item() for _ in range(8)]
        np.testing.assert_allclose(losses[True], losses[False], rtol=1e-4)

    def test_parameters_are_arguments_and_tuples_with_names_are_results(self):
        Pair = collections.namedtuple("Pair", "first second")

        @db.jit
        def f(w, x):
            w -= x
            return Pair(w * 2, x)

        w = db.Tensor([1.0], requires_grad=True)
        for i in range(4):
            found = f(w, db.Tensor([1.0]))
            self.assertEqual((found.first.tolist(), found.second.tolist()), ([-2.0 * i], [1.0]))
        self.assertEqual((w.tolist(), f.captures), ([-3.0], 1))

    def test_a_method_is_captured_for_each_object(self):
        class Scale:
            def __init__(self, by):
                self.by = by

            @db.jit
            def run(self, x):
                return x * self.by

        one, two = Scale(2), Scale(3)
        for _ in range(3):
            self.assertEqual((one.run(db.Tensor([1.0])).tolist(), two.run(db.Tensor([1.0])).tolist()), ([2.0], [3.0]))
        self.assertEqual((one.run.captures, two.run.captures), (1, 1))
        gone = weakref.ref(one)
        del one
        gc.collect()
        self.assertIsNone(gone())

    def test_a_captured_function_is_freed(self):
        class Big:
            pass

        def made():
            big = Big()

            @db.jit
            def f(x):
                return x + 1 if big and f else x

            for _ in range(3):
                f(db.Tensor([1.0]))
            return weakref.ref(big)

        gone = made()
        gc.collect()
        self.assertIsNone(gone())

    def test_what_python_raises_comes_through(self):
        @db.jit
        def f(x):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            f(db.Tensor([1.0]))

        @db.jit
        def g(x):
            return x * float(x.sum())

        g(db.Tensor([1.0]))
        with self.assertRaises(db.CaptureError):
            g(db.Tensor([1.0]))


class Devices(unittest.TestCase):
    def test_devices_by_name(self):
        cpu = db.Device("CPU", threads=1, profile=True)
        # The second engine on one device says which it is.
        self.assertTrue(cpu.name.startswith("CPU:0"))
        self.assertIn("arch", cpu.info())
        x = db.ones((64, 64), device=cpu)
        (x @ x).realize()
        runs = cpu.take_runs()
        self.assertTrue(runs and all(run["end_ns"] >= run["start_ns"] for run in runs))
        with self.assertRaisesRegex(db.PlaceError, "different engines"):
            x + db.ones((64, 64))
        self.assertEqual((x.to(db.default_device()) + db.ones((64, 64))).tolist()[0][0], 2.0)
        self.assertEqual((db.ones(3).to("cpu") + db.ones(3, device="CPU")).tolist(), [2.0, 2.0, 2.0])
        with self.assertRaisesRegex(db.TargetError, "did you mean CPU"):
            db.Device("CPV")

    def test_doctor_and_devices(self):
        self.assertTrue(any(row["status"] for row in db.doctor()))
        self.assertTrue(any("CPU" in str(row) for row in db.devices()))


if __name__ == "__main__":
    unittest.main()
