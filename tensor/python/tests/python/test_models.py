"""ONNX models beside ONNX Runtime, the examples, and those of the README."""

import contextlib
import importlib.util
import io
import re
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import doorbell as db
import doorbell.onnx as ours

PACKAGE = Path(__file__).resolve().parents[2]


def model(path):
    """Softmax(x @ w + b), and its largest position."""
    rng = np.random.default_rng(3)
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], rng.normal(size=12).astype(np.float32))
    b = helper.make_tensor("b", TensorProto.FLOAT, [3], rng.normal(size=3).astype(np.float32))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Add", ["xw", "b"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"], axis=-1),
        helper.make_node("ArgMax", ["p"], ["best"], axis=1, keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["n", 3]), helper.make_tensor_value_info("best", TensorProto.INT64, ["n"])],
        [w, b],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, str(path))
    return made.SerializeToString()


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = Path(cls.folder.name) / "net.onnx"
        cls.bytes = model(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_interface_is_that_of_onnx_runtime(self):
        found = []
        for ort in (onnxruntime, ours):
            session = ort.InferenceSession(str(self.path), ort.SessionOptions(), providers=["CPUExecutionProvider"])
            ports = [(p.name, list(p.shape), p.type) for p in session.get_inputs() + session.get_outputs()]
            x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
            results = [session.run(None, {"x": x}), session.run(["best", "p"], {"x": x}), session.run([], {"x": x})]
            found.append((ports, results))
        (theirs, their_results), (own, own_results) = found
        self.assertEqual(theirs, own)
        for a, b in zip(their_results, own_results):
            self.assertEqual(len(a), len(b))
            for p, q in zip(a, b):
                self.assertEqual((p.dtype, p.shape), (q.dtype, q.shape))
                np.testing.assert_allclose(p, q, rtol=1e-5, atol=1e-6)

    def test_outputs_are_the_callers(self):
        session = db.InferenceSession(self.bytes)
        x = np.ones((1, 4), dtype=np.float32)
        first = session.run(["p"], {"x": x})[0]
        kept = first.copy()
        first += 1
        np.testing.assert_array_equal(session.run(["p"], {"x": x})[0], kept)
        tensors = session.run_tensors(["p"], {"x": db.asarray(x)})
        self.assertIsInstance(tensors[0], db.Tensor)

    def test_errors_name_the_input(self):
        session = db.InferenceSession(self.path)
        for feeds, text in (
            ({}, "found no input"), ({"y": np.ones((1, 4), np.float32)}, "no such input"), ({"x": np.ones((1, 4))}, "DOUBLE"),
            ({"x": np.ones((1, 5), np.float32)}, "4"),
        ):
            with self.assertRaisesRegex(db.ModelInputError, text):
                session.run(None, feeds)
        with self.assertRaisesRegex(db.ModelInputError, "no output 'q'|no output \"q\""):
            session.run(["q"], {"x": np.ones((1, 4), np.float32)})
        with self.assertRaises(db.FileError):
            db.InferenceSession("none.onnx")
        with self.assertRaises(db.ModelError):
            db.InferenceSession(b"no model")

    def test_threads_run_one_session(self):
        session = db.InferenceSession(self.path)
        x = np.ones((3, 4), dtype=np.float32)
        expected = session.run(None, {"x": x})[0]
        found = []
        threads = [threading.Thread(target=lambda: found.append(session.run(None, {"x": x})[0])) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(len(found), 6)
        for one in found:
            np.testing.assert_allclose(one, expected, rtol=1e-6)


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", PACKAGE / f"examples/{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def told(work):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        found = work()
    return found, out.getvalue()


class Examples(unittest.TestCase):
    def test_digits_are_learned(self):
        accuracy, _ = told(lambda: example("digits").main(6))
        self.assertGreater(accuracy, 0.8)

    def test_a_line_is_fitted(self):
        (slope, shift), _ = told(lambda: example("gradient").main())
        self.assertAlmostEqual(slope, 2.0, places=2)
        self.assertAlmostEqual(shift, 1.0, places=2)

    def test_memory_is_shared(self):
        _, text = told(lambda: example("interchange").main())
        self.assertNotIn("False", text)
        self.assertGreaterEqual(text.count("True"), 2)

    def test_a_program_for_onnx_runtime_moves_by_its_import(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.onnx"
            model(path)
            ran, _ = told(lambda: example("session").main(str(path)))
            text = (PACKAGE / "examples/session.py").read_text()
            theirs = text.replace("import doorbell.onnx as ort", "import onnxruntime as ort")
            self.assertNotEqual(text, theirs)
            space = {"__name__": "theirs"}
            exec(compile(theirs, "theirs", "exec"), space)
            expected, _ = told(lambda: space["main"](str(path)))
            for a, b in zip(ran, expected):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)

    def test_the_examples_of_the_readme_run(self):
        text = (PACKAGE / "README.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        self.assertGreater(len(blocks), 3)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder) if hasattr(contextlib, "chdir") else contextlib.nullcontext():
            model("model.onnx")
            space = {"__name__": "readme"}
            for block in blocks:
                told(lambda: exec(compile(block, "README.md", "exec"), space))


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch: scripts/fetch references")
class Torch(unittest.TestCase):
    def test_torch_shares_memory_both_ways(self):
        import torch

        theirs = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        tensor = db.from_dlpack(theirs)
        self.assertEqual(tensor.data_ptr(), theirs.data_ptr())
        self.assertEqual((tensor + 1).tolist(), (theirs + 1).tolist())
        made = tensor * 2
        back = torch.from_dlpack(made)
        self.assertEqual(back.data_ptr(), made.data_ptr())
        self.assertEqual(back.tolist(), (theirs * 2).tolist())
        self.assertEqual(db.asarray(theirs.T).tolist(), theirs.T.tolist())


if __name__ == "__main__":
    unittest.main()
