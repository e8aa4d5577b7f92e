"""A light model of ONNX with random weights in the place of its constant ones.

The light models make every weight by ConstantOfShape, so a compiler may fold most of the network
away, and every class gets the same probability. Here each weight is an initializer: convolutions and
products after He by their fan-in, normalisations near the identity. The branches that a Sum adds are
damped, as the activations of a residual network would grow with every block otherwise, and the last
layer is scaled so that the classes differ by a few units before the softmax.
"""

import pathlib
import zlib

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from . import graph

FLOAT = onnx.TensorProto.FLOAT
SPREAD = 2.0


def consumers(g):
    users = {}
    for node in g.node:
        for at, name in enumerate(node.input):
            users.setdefault(name, []).append((node, at))
    return users


def use(users, name):
    """The node and input that a weight ends in, through the nodes that only change its shape."""
    node, at = users[name][0]
    while node.op_type in ("Unsqueeze", "Reshape", "Identity"):
        node, at = users[node.output[0]][0]
    return node, at


def centred(w, axis):
    """Weights whose sum over the inputs of each output is zero, so that what all inputs have in
    common does not drown what differs; scaled to keep the variance through a ReLU, half a normal
    distribution with the variance (1 - 1/pi) / 2."""
    fan = w.size // np.delete(w.shape, axis).prod()
    if fan < 16:
        return w * np.float32((2 / fan) ** 0.5)
    return (w - w.mean(axis=axis, keepdims=True)) * np.float32((2 / (1 - 1 / np.pi) / fan) ** 0.5)


def sample(rng, shape, node, at, users):
    def normal(deviation):
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)

    def near_one():
        return rng.uniform(0.8, 1.2, shape).astype(np.float32)

    kind = (node.op_type, at)
    if kind == ("Conv", 1):
        return centred(normal(1), tuple(range(1, len(shape))))
    if kind == ("Gemm", 1):
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        return centred(normal(1), 1 if transposed else 0)
    if kind in (("BatchNormalization", 1), ("Mul", 1)):
        added = any(user.op_type == "Sum" for user, _ in users.get(node.output[0], []))
        return near_one() * np.float32(0.6 if added else 1)
    if kind == ("BatchNormalization", 4):
        return near_one()
    if kind in (("Conv", 2), ("Gemm", 2), ("BatchNormalization", 2), ("BatchNormalization", 3), ("Add", 1)):
        return normal(0.1)
    raise SystemExit(f"scripts/models: no weights for input {at} of {node.op_type} {node.name!r}")


def randomize(model, rng):
    """Gives the (name, array) of each weight, and the model without them and what made them."""
    g = model.graph
    users = consumers(g)
    stored = {t.name: t for t in g.initializer}
    weights, dropped = [], set()
    for node in g.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(numpy_helper.to_array(stored[node.input[0]]).tolist())
            weights.append((node.output[0], shape))
            dropped.add(node.input[0])
    weights += [(t.name, tuple(t.dims)) for t in g.initializer if t.data_type == FLOAT and t.name in users]
    made = [(name, sample(rng, shape, *use(users, name), users)) for name, shape in weights]

    kept = [n for n in g.node if n.op_type != "ConstantOfShape"]
    gone = dropped | {name for name, _ in made}
    inputs = [i for i in g.input if i.name not in gone]
    others = [t for t in g.initializer if t.name not in gone]
    names = {t.name for t in others}
    # The data comes first: test data is matched with inputs by position.
    inputs.sort(key=lambda i: i.name in names)
    # Before version 4 of the format an initializer is an input as well.
    inputs += [helper.make_tensor_value_info(name, FLOAT, a.shape) for name, a in made]
    for field, values in ((g.node, kept), (g.input, inputs), (g.initializer, others)):
        del field[:]
        field.extend(values)
    return dict(made)


def last_layer(g):
    """The weights of the last layer that has some, and the value that the softmax gets."""
    layer = next(n for n in reversed(g.node) if n.op_type in ("Conv", "Gemm"))
    softmax = next((n for n in g.node if n.op_type == "Softmax"), None)
    return layer, softmax.input[0] if softmax else g.output[0].name


def save(model, weights, path):
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in weights.items())
    onnx.save_model(whole, str(path))


def activations(light):
    """Sizes of what the nodes compute from the data, largest first."""
    inferred = shape_inference.infer_shapes(light, strict_mode=True, data_prop=True).graph
    known = {v.name: v.type.tensor_type for v in [*inferred.value_info, *inferred.output, *inferred.input]}
    live = {i.name for i in inferred.input} - {t.name for t in inferred.initializer}
    sizes = []
    for node in inferred.node:
        if live & set(node.input):
            live |= set(node.output)
            dims = [d.dim_value for d in known[node.output[0]].shape.dim]
            sizes.append(4 * int(np.prod(dims)))
    return sorted(sizes, reverse=True)


def make(name, folder):
    source = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(str(source / f"light_{name}.onnx"))
    largest = activations(model)[:2]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    weights = randomize(model, rng)
    data = model.graph.input[0]
    shape = [d.dim_value for d in data.type.tensor_type.shape.dim]
    x, other = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    path = folder / "model.onnx"

    # A softmax over equal numbers tests nothing, nor does one over numbers that are far apart.
    layer, logits = last_layer(model.graph)
    output = model.graph.output[0].name
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    if logits != output:
        probe.graph.output.append(onnx.ValueInfoProto(name=logits))
    save(probe, weights, path)
    (before,) = graph.session(path).run([logits], {data.name: x})
    scale = np.float32(SPREAD / before.std())
    if not np.isfinite(scale):
        raise SystemExit(f"scripts/models: {name}: the last layer gives {before.ravel()[:4]}...")
    reshaped = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type in ("Unsqueeze", "Reshape")}
    for at in layer.input[1:]:
        weights[at if at in weights else reshaped[at]] *= scale

    save(model, weights, path)
    graph.check(path)
    run = graph.session(path)
    (y,), (z,) = (run.run([output], {data.name: v}) for v in (x, other))
    moved = np.abs(y - z).max() / np.abs(y).max()
    if not np.isfinite(y).all() or y.std() == 0 or moved < 1e-3:
        raise SystemExit(f"scripts/models: {name}: the output does not depend on the input")
    graph.write_set(folder / "test_data_set_0", [(data.name, x)], [(output, y)])
    size = sum(a.nbytes for a in weights.values())
    graph.write_facts(folder, weights=size, activations=largest)
    return (f"{len(weights)} weights, output {y.min():.3g} to {y.max():.3g}, another input moves it "
            f"by {moved:.0%}")
