"""Models as ONNX Runtime's optimizer and quantizer write them; see scripts/onnx-cases.

Small nets of the kinds that people optimise: convolutions, an encoder, a decoder's block, text in a
picture. What the answers are is asked of ONNX Runtime, which runs the very file.
"""

import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization as q
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers.optimizer import optimize_model

import operators


class Net:
    """A graph in the making: each call adds a node and gives the name of its output."""

    def __init__(self, r):
        self.r, self.nodes, self.weights = r, [], []

    def weight(self, *shape, scale=0.3):
        return self.constant((self.r.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def __call__(self, op, *inputs, outputs=1, **attrs):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"{op}_{len(self.nodes)}", **attrs))
        return names[0] if outputs == 1 else names

    def model(self, inputs, output, opset=17):
        infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                 for name, x in inputs]
        self.nodes.append(helper.make_node("Identity", [output], ["y"]))
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", infos, [out], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model)


def floats(r, *shape):
    return r.standard_normal(shape).astype(np.float32)


def conv_net(r):
    """Convolutions with activations, a sum, pools: fewer input channels than a block, one group, many
    groups, channels that fill no block."""
    net = Net(r)
    x = net("Relu", net("Conv", "x", net.weight(16, 3, 3, 3), net.weight(16), pads=[1, 1, 1, 1]))
    y = net("Conv", x, net.weight(32, 16, 3, 3), net.weight(32), pads=[1, 1, 1, 1])
    z = net("Conv", net("Relu", y), net.weight(32, 1, 3, 3), net.weight(32), pads=[1, 1, 1, 1], group=32)
    x = net("Relu", net("Add", y, z))
    x = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net("HardSigmoid", net("Conv", x, net.weight(20, 32, 1, 1), net.weight(20)))
    x = net("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    x = net("Resize", x, "", net.constant(np.array([1, 1, 2, 2], np.float32)),
            coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    x = net("Sigmoid", net("Conv", x, net.weight(24, 20, 3, 3), net.weight(24), strides=[2, 2]))
    x = net("Flatten", net("GlobalAveragePool", x))
    x = net("Softmax", net("Gemm", x, net.weight(24, 10), net.weight(10)), axis=-1)
    inputs = [("x", floats(r, 2, 3, 12, 12))]
    return net.model(inputs, x), inputs


def encoder(r):
    """A layer of an encoder, as exporters write it."""
    b, s, n, d = 2, 6, 4, 8
    h = n * d
    net = Net(r)

    def norm(x):
        return net("LayerNormalization", x, net.weight(h), net.weight(h), axis=-1, epsilon=1e-5)

    def heads(x, perm):
        x = net("Add", net("MatMul", x, net.weight(h, h)), net.weight(h))
        x = net("Reshape", x, net.constant(np.array([0, 0, n, d])))
        return net("Transpose", x, perm=perm)
    x = norm("x")
    scores = net("MatMul", heads(x, [0, 2, 1, 3]), heads(x, [0, 2, 3, 1]))
    scores = net("Div", scores, net.constant(np.float32(np.sqrt(d))))
    weights = net("Softmax", net("Add", scores, mask(net)), axis=-1)
    y = net("Transpose", net("MatMul", weights, heads(x, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    y = net("Reshape", y, net.constant(np.array([0, 0, h])))
    x = norm(net("Add", net("Add", net("MatMul", y, net.weight(h, h)), net.weight(h)), x))
    y = net("Add", net("MatMul", x, net.weight(h, 4 * h)), net.weight(4 * h))
    half = net("Erf", net("Div", y, net.constant(np.float32(np.sqrt(2)))))
    half = net("Mul", y, net("Add", half, net.constant(np.float32(1))))
    y = net("Mul", half, net.constant(np.float32(0.5)))
    y = net("Add", net("MatMul", y, net.weight(4 * h, h)), net.weight(h))
    y = norm(net("Add", y, x))
    seen = np.ones((b, s), np.int64)
    seen[1, 4:] = 0
    inputs = [("x", floats(r, b, s, h)), ("mask", seen)]
    return net.model(inputs, y), inputs


def mask(net):
    x = net("Unsqueeze", net("Unsqueeze", "mask", net.constant(np.array([1]))), net.constant(np.array([2])))
    x = net("Sub", net.constant(np.float32(1)), net("Cast", x, to=TensorProto.FLOAT))
    return net("Mul", x, net.constant(np.float32(-10000)))


def text_net(r):
    """Convolutions over a line of text, then an LSTM in both directions over its columns."""
    net = Net(r)
    x = net("Relu", net("Conv", "x", net.weight(8, 1, 3, 3), net.weight(8), pads=[1, 1, 1, 1]))
    x = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net("Relu", net("Conv", x, net.weight(16, 8, 3, 3), net.weight(16), pads=[1, 1, 1, 1]))
    x = net("MaxPool", x, kernel_shape=[8, 1], strides=[8, 1])
    x = net("Transpose", net("Squeeze", x, net.constant(np.array([2]))), perm=[2, 0, 1])
    h = 12
    x, _, _ = net("LSTM", x, net.weight(2, 4 * h, 16), net.weight(2, 4 * h, h), net.weight(2, 8 * h), outputs=3,
                  hidden_size=h, direction="bidirectional")
    x = net("Transpose", x, perm=[0, 2, 1, 3])
    x = net("Reshape", x, net.constant(np.array([0, 0, 2 * h])))
    x = net("Softmax", net("Add", net("MatMul", x, net.weight(2 * h, 11)), net.weight(11)), axis=-1)
    inputs = [("x", floats(r, 1, 1, 16, 24))]
    return net.model(inputs, x), inputs


def dense(r):
    net = Net(r)
    x = net("Relu", net("Add", net("MatMul", "x", net.weight(64, 48)), net.weight(48)))
    x = net("MatMul", x, net.weight(48, 32))
    inputs = [("x", floats(r, 3, 64))]
    return net.model(inputs, x), inputs


class Reader(q.CalibrationDataReader):
    def __init__(self, inputs):
        self.left = [dict(inputs)]

    def get_next(self):
        return self.left.pop() if self.left else None


def session(path, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL, into=None):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    if into:
        options.optimized_model_filepath = str(into)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def optimised(level):
    def write(source, into, _):
        session(source, level, into)
    return write


def static(form, per_channel=False, kind=q.QuantType.QUInt8, level=None):
    def write(source, into, inputs):
        ready = str(into) + ".ready.onnx"
        q.quant_pre_process(str(source), ready, skip_symbolic_shape=True)
        raw = str(into) + ".raw.onnx" if level else str(into)
        q.quantize_static(ready, raw, Reader(inputs), quant_format=form, per_channel=per_channel,
                          activation_type=kind, weight_type=q.QuantType.QInt8)
        if level:
            session(raw, level, into)
    return write


def dynamic(per_channel=False, level=None):
    def write(source, into, _):
        raw = str(into) + ".raw.onnx" if level else str(into)
        q.quantize_dynamic(str(source), raw, per_channel=per_channel, weight_type=q.QuantType.QInt8,
                           op_types_to_quantize=["MatMul", "Gemm", "LSTM", "Attention", "EmbedLayerNormalization"])
        if level:
            session(raw, level, into)
    return write


def transformed(then=None):
    """What the optimizer for transformers makes of an encoder."""
    def write(source, into, inputs):
        raw = str(into) + ".fused.onnx" if then else str(into)
        optimize_model(str(source), "bert", num_heads=4, hidden_size=32, opt_level=0).save_model_to_file(raw)
        if then:
            then(raw, into, inputs)
    return write


def few_bits(quantizer):
    def write(source, into, _):
        made = quantizer(onnx.load(str(source)))
        made.process()
        model = made.model
        onnx.save(getattr(model, "model", model), str(into))
    return write


LEVELS = ort.GraphOptimizationLevel
ALL, EXTENDED, BASIC = LEVELS.ORT_ENABLE_ALL, LEVELS.ORT_ENABLE_EXTENDED, LEVELS.ORT_ENABLE_BASIC
QDQ, OPERATORS = q.QuantFormat.QDQ, q.QuantFormat.QOperator
WRITERS = {
    "conv_basic": (conv_net, optimised(BASIC)),
    "conv_extended": (conv_net, optimised(EXTENDED)),
    "conv_all": (conv_net, optimised(ALL)),
    "conv_qdq": (conv_net, static(QDQ)),
    "conv_qdq_extended": (conv_net, static(QDQ, True, level=EXTENDED)),
    "conv_qdq_all": (conv_net, static(QDQ, True, q.QuantType.QInt8, level=ALL)),
    "conv_operators": (conv_net, static(OPERATORS)),
    "conv_operators_all": (conv_net, static(OPERATORS, True, level=ALL)),
    "encoder_extended": (encoder, optimised(EXTENDED)),
    "encoder_all": (encoder, optimised(ALL)),
    "encoder_fused": (encoder, transformed()),
    "encoder_dynamic": (encoder, dynamic()),
    "encoder_dynamic_all": (encoder, dynamic(True, level=ALL)),
    "encoder_fused_dynamic": (encoder, transformed(dynamic())),
    "encoder_qdq_all": (encoder, static(QDQ, level=ALL)),
    "text_dynamic": (text_net, dynamic()),
    "text_dynamic_channels": (text_net, dynamic(True)),
    "dense_4_bits": (dense, few_bits(lambda m: MatMulNBitsQuantizer(m, block_size=16, is_symmetric=False))),
    "dense_4_bits_qdq": (dense, few_bits(lambda m: MatMulNBitsQuantizer(m, block_size=16, quant_format=QDQ))),
    "dense_nf4": (dense, few_bits(lambda m: MatMulBnb4Quantizer(m, 1, 16))),
}


def main(seed, count, only, into):
    import logging
    import re
    logging.disable(logging.WARNING)
    ort.set_default_logger_severity(4)
    r = np.random.default_rng(seed)
    names = [name for name in WRITERS if re.search(only, name)][:count]
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            net, write = WRITERS[name]
            model, inputs = net(r)
            source, file = pathlib.Path(scratch) / f"{name}.in.onnx", pathlib.Path(scratch) / f"{name}.onnx"
            onnx.save(model, source)
            write(source, file, inputs)
            model = onnx.load(file)
            given = [(n, x) for n, x in inputs if n in {i.name for i in model.graph.input}]
            results = session(file).run(["y"], dict(given))
            operators.write(into / name, model, given, ["y"], results)
            used = sorted({f"{n.domain}.{n.op_type}" for n in model.graph.node if n.domain not in ("", "ai.onnx")})
            print(f"scripts/onnx-cases: {name}: {' '.join(used)}", file=sys.stderr)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4]))
