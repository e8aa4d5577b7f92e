"""Nets like those of openpilot, with random weights.

The operators, shapes and types are those of its nets: `driving_vision` sees two cameras, `driving_policy` what the vision net found in the
last seconds, `dmonitoring` the driver. Camera frames are NV12 (a plane of luma, and a plane of pairs of chroma with half the rows and columns),
and each net warps them itself: the target's pixels go through a matrix to those of the camera, whose nearest ones are gathered. Queues of
frames and features are inputs, and outputs are what comes behind them, so a bundle keeps them as states.

The small size has the same operators, for tests. The matrices of the data sets are sums of few powers of two: coordinates are exact however a
sum is ordered, so whoever divides correctly finds the same pixels.
"""

import dataclasses
import math

import numpy as np
import onnx
from onnx import TensorProto, helper

from . import graph
from .minilm import Builder

OPSET, IR = 17, 8
FLOAT, BYTE = TensorProto.FLOAT, TensorProto.UINT8


@dataclasses.dataclass(frozen=True)
class Camera:
    width: int
    height: int
    # Bytes of a row, and rows of luma with those that fill it up.
    stride: int
    rows: int

    @property
    def bytes(self):
        return self.stride * (self.rows + self.rows // 2)


@dataclasses.dataclass(frozen=True)
class Size:
    sets: int
    road: Camera
    # Rows and columns of the warped luma.
    view: tuple
    # Pairs of frames of the queue.
    frames: int
    stem: int
    # Channels, blocks, and whether they weigh their channels; each stage halves the image.
    stages: tuple
    features: int
    steps: int
    layers: int
    heads: int
    driver: Camera
    face: tuple
    face_stages: tuple
    hidden: int
    # Lengths of the parts of the outputs.
    parts: tuple


FULL = Size(sets=3, road=Camera(1928, 1208, 2048, 1216), view=(256, 512), frames=5, stem=32,
            stages=((48, 2, False), (96, 4, False), (224, 6, True), (512, 6, True)),
            features=512, steps=25, layers=2, heads=8, driver=Camera(1344, 760, 1408, 768), face=(960, 1440),
            face_stages=((48, 2, False), (96, 3, False), (160, 3, True), (256, 2, True)), hidden=512,
            parts=(528, 264, 102, 12))
SMALL = Size(sets=7, road=Camera(96, 64, 128, 64), view=(32, 64), frames=5, stem=8,
             stages=((8, 1, False), (16, 2, True)),
             features=16, steps=5, layers=1, heads=2, driver=Camera(96, 64, 128, 64), face=(32, 48),
             face_stages=((8, 1, False), (12, 1, True)), hidden=24, parts=(12, 6, 5))


class Net:
    """A net that is being built, and its weights."""

    def __init__(self, name, seed):
        self.b, self.name, self.rng = Builder(), name, np.random.default_rng(seed)
        self.inputs, self.outputs, self.states = [], [], []
        self.count = 0

    def given(self, name, kind, *dims):
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def gives(self, name, kind, *dims):
        self.outputs.append(helper.make_tensor_value_info(name, kind, dims))

    def weight(self, *shape, scale=1.0):
        self.count += 1
        values = self.rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        return self.b.weight(f"{self.name}.{self.count}", values)

    def ints(self, *values):
        return self.b.number(list(values), np.int64)

    def slice(self, x, axis, start, end, at):
        return self.b("Slice", x, self.ints(start), self.ints(end), self.ints(axis), at=at)

    def shaped(self, x, *shape, at):
        return self.b("Reshape", x, self.ints(*shape), at=at)

    def conv(self, x, cin, cout, kernel, at, stride=1, groups=1, scale=1.0):
        fan = cin // groups * kernel * kernel
        w = self.weight(cout, cin // groups, kernel, kernel, scale=scale * math.sqrt(2 / fan))
        return self.b("Conv", x, w, self.weight(cout, scale=0.1), at=at, strides=[stride] * 2, group=groups,
                      pads=[kernel // 2] * 4, kernel_shape=[kernel] * 2)

    def swish(self, x, at):
        return self.b("Mul", x, self.b("Sigmoid", x, at=at), at=at)

    def dense(self, x, cin, cout, at, scale=1.0):
        w = self.weight(cin, cout, scale=scale * math.sqrt(1 / cin))
        return self.b("Gemm", x, w, self.weight(cout, scale=0.1), at=at)

    def weighed(self, x, channels, at):
        """Channels by how much they matter in the whole image."""
        squeezed = max(channels // 4, 4)
        mean = self.b("GlobalAveragePool", x, at=at)
        y = self.b("Relu", self.conv(mean, channels, squeezed, 1, at), at=at)
        y = self.b("Sigmoid", self.conv(y, squeezed, channels, 1, at), at=at)
        return self.b("Mul", x, y, at=at)

    def block(self, x, cin, cout, stride, weighs, at):
        """More channels, a filter for each of them, fewer channels."""
        wide = cin * (4 if stride > 1 else 3)
        y = self.swish(self.conv(x, cin, wide, 1, f"{at}/expand"), f"{at}/expand")
        kernel = 5 if weighs else 3
        y = self.swish(self.conv(y, wide, wide, kernel, f"{at}/depthwise", stride, wide), f"{at}/depthwise")
        if weighs:
            y = self.weighed(y, wide, f"{at}/weigh")
        same = stride == 1 and cin == cout
        # Branches are damped, or they would grow with every block.
        y = self.conv(y, wide, cout, 1, f"{at}/project", scale=0.5 if same else 1.0)
        return self.b("Add", x, y, at=at) if same else y

    def stages(self, x, channels, stages):
        for s, (cout, blocks, weighs) in enumerate(stages):
            for i in range(blocks):
                x = self.block(x, channels, cout, 2 if i == 0 else 1, weighs, f"/stage.{s}/{i}")
                channels = cout
        return x, channels

    def plane(self, frame, transform, rows, columns, camera, at, step=1, offset=0):
        """The pixels of a plane of a frame, warped. Chroma has half the rows and columns."""
        b, half = self.b, 2 if step == 2 else 1
        y, x = np.mgrid[0:rows, 0:columns].astype(np.float32)
        grid = np.stack([x.ravel(), y.ravel(), np.ones(rows * columns, np.float32)])
        name = f"grid_{rows}_{columns}"
        if name not in [t.name for t in b.initializers]:
            b.weight(name, grid)
        places = b("MatMul", transform, name, at=at)
        x, y, w = (self.slice(places, 0, i, i + 1, at) for i in range(3))

        def whole(v, size):
            v = b("Round", b("Div", v, w, at=at), at=at)
            v = b("Clip", v, b.number(0), b.number(size // half - 1), at=at)
            return b("Cast", v, at=at, to=TensorProto.INT32)

        number = lambda n: b.number(n, np.int32)  # noqa: E731
        row = b("Mul", whole(y, camera.height), number(camera.stride), at=at)
        place = b("Add", row, b("Mul", whole(x, camera.width), number(step), at=at), at=at)
        place = b("Add", place, number(offset), at=at)
        pixels = b("Gather", frame, place, at=at, axis=0)
        return self.shaped(pixels, rows, columns, at=at)

    def frame(self, frame, transform, camera, view, at, out):
        """A frame as six channels of half its size: four of luma, two of chroma."""
        b, (rows, columns) = self.b, view
        luma = self.plane(frame, transform, rows, columns, camera, f"{at}/y")
        luma = self.shaped(luma, rows // 2, 2, columns // 2, 2, at=at)
        luma = self.shaped(b("Transpose", luma, at=at, perm=[3, 1, 0, 2]), 4, rows // 2, columns // 2, at=at)
        scale = np.array([[1, 1, 0.5], [1, 1, 0.5], [2, 2, 1]], np.float32)
        transform = b("Mul", transform, b.number(scale.tolist()), at=at)
        chroma = [self.shaped(self.plane(frame, transform, rows // 2, columns // 2, camera, f"{at}/{name}", 2,
                                         camera.stride * camera.rows + i), 1, rows // 2, columns // 2, at=at)
                  for i, name in enumerate("uv")]
        six = b("Concat", luma, *chroma, at=at, axis=0)
        return b("Unsqueeze", six, self.ints(0), at=at, out=out)

    def floats(self, x, at):
        """Bytes as numbers around 0."""
        x = self.b("Cast", x, at=at, to=FLOAT)
        return self.b("Div", self.b("Sub", x, self.b.number(128), at=at), self.b.number(128), at=at)

    def head(self, x, cin, parts, hidden, at, out):
        """Mean values, deviations, probabilities: one part behind the other."""
        b, made = self.b, []
        for i, length in enumerate(parts):
            y = b("Relu", self.dense(x, cin, hidden, f"{at}.{i}"), at=at)
            y = self.dense(y, hidden, length, f"{at}.{i}")
            if i % 3 == 1:
                y = b("Exp", b("Clip", y, b.number(-11), b.number(11), at=at), at=at)
            if i % 3 == 2:
                y = b("Softmax", y, at=at, axis=-1)
            made.append(y)
        b("Concat", *made, at=at, axis=1, out=out)
        self.gives(out, FLOAT, 1, sum(parts))

    def model(self):
        g = helper.make_graph(self.b.nodes, self.name, self.inputs, self.outputs, self.b.initializers)
        return helper.make_model(g, producer_name="doorbell", ir_version=IR,
                                 opset_imports=[helper.make_opsetid("", OPSET)])


def vision(size):
    net = Net("driving_vision", 1)
    b, (rows, columns) = net.b, size.view
    seen = []
    for name in ("img", "big_img"):
        frame = net.given(f"{name}_frame", BYTE, size.road.bytes)
        transform = net.given(f"{name}_transform", FLOAT, 3, 3)
        queue = net.given(f"{name}_queue", BYTE, 1, 6 * size.frames, rows // 2, columns // 2)
        new = net.frame(frame, transform, size.road, size.view, f"/{name}", f"{name}_new")
        net.states.append(("--queue", f"{name}_queue", f"{name}_new", 1))
        # The queue has moved on by one frame: its oldest one was the second.
        seen += [net.slice(queue, 1, 6, 12, f"/{name}"), new]
    x = net.floats(b("Concat", *seen, at="/stem", axis=1), "/stem")
    x = b("Elu", net.conv(x, 24, size.stem, 3, "/stem", 2), at="/stem")
    x, channels = net.stages(x, size.stem, size.stages)
    x = b("Elu", net.conv(x, channels, channels // 8, 1, "/summary"), at="/summary")
    scale = 2 ** (2 + len(size.stages))
    area = math.ceil(rows / scale) * math.ceil(columns / scale)
    x = b("Flatten", x, at="/summary", axis=1)
    x = b("Relu", net.dense(x, area * (channels // 8), 2 * size.features, "/summary"), at="/summary")
    features = b("Tanh", net.dense(x, 2 * size.features, size.features, "/summary"), at="/summary", out="features")
    net.head(features, size.features, size.parts, 2 * size.features, "/head", "outputs")
    net.gives("features", FLOAT, 1, size.features)
    for name in ("img", "big_img"):
        net.gives(f"{name}_new", BYTE, 1, 6, rows // 2, columns // 2)
    return net


def policy(size):
    net = Net("driving_policy", 2)
    b, width, steps = net.b, size.features, size.steps
    features = net.given("features", FLOAT, 1, width)
    queue = net.given("features_queue", FLOAT, 1, steps, width)
    desire = net.given("desire", FLOAT, 1, 8)
    wishes = net.given("desire_queue", FLOAT, 1, steps, 8)
    convention = net.given("traffic_convention", FLOAT, 1, 2)
    at = "/queues"
    queue = b("Concat", net.slice(queue, 1, 1, steps, at), b("Unsqueeze", features, net.ints(1), at=at), at=at,
              axis=1, out="features_next")
    wish = b("Unsqueeze", desire, net.ints(1), at=at, out="desire_now")
    wishes = b("Concat", net.slice(wishes, 1, 1, steps, at), wish, at=at, axis=1)
    net.states += [("--state", "features_queue", "features_next", None), ("--queue", "desire_queue", "desire_now", 1)]

    def linear(x, cin, cout, at, scale=1.0):
        w = net.weight(cin, cout, scale=scale / math.sqrt(cin))
        return b("Add", b("MatMul", x, w, at=at), net.weight(cout, scale=0.1), at=at)

    def norm(x, at):
        one = net.b.weight(f"{at}.scale", net.rng.uniform(0.8, 1.2, width).astype(np.float32))
        return b("LayerNormalization", x, one, net.weight(width, scale=0.1), at=at, axis=-1, epsilon=1e-5)

    x = b("Add", linear(queue, width, width, "/embed"), linear(wishes, 8, width, "/embed"), at="/embed")
    x = b("Add", x, net.weight(steps, width, scale=0.1), at="/embed")
    part = width // size.heads
    for layer in range(size.layers):
        at = f"/layer.{layer}"
        y = norm(x, f"{at}/norm.0")

        def split(perm):
            z = net.shaped(linear(y, width, width, at), 1, steps, size.heads, part, at=at)
            return b("Transpose", z, at=at, perm=perm)

        query, key, value = split([0, 2, 1, 3]), split([0, 2, 3, 1]), split([0, 2, 1, 3])
        scores = b("Mul", b("MatMul", query, key, at=at), b.number(1 / math.sqrt(part)), at=at)
        z = b("MatMul", b("Softmax", scores, at=at, axis=-1), value, at=at)
        z = net.shaped(b("Transpose", z, at=at, perm=[0, 2, 1, 3]), 1, steps, width, at=at)
        x = b("Add", x, linear(z, width, width, at, 0.5), at=at)
        y = linear(norm(x, f"{at}/norm.1"), width, 2 * width, at)
        x = b("Add", x, linear(net.swish(y, at), 2 * width, width, at, 0.5), at=at)
    x = b("ReduceMean", x, at="/pool", axes=[1], keepdims=0)
    x = b("Concat", x, convention, at="/pool", axis=1)
    net.head(x, width + 2, size.parts, 2 * size.features, "/head", "outputs")
    net.gives("features_next", FLOAT, 1, steps, width)
    net.gives("desire_now", FLOAT, 1, 1, 8)
    return net


def driver(size):
    net = Net("dmonitoring", 3)
    b, (rows, columns) = net.b, size.face
    frame = net.given("frame", BYTE, size.driver.bytes)
    transform = net.given("transform", FLOAT, 3, 3)
    calibration = net.given("calib", FLOAT, 1, 3)
    x = net.plane(frame, transform, rows, columns, size.driver, "/warp")
    # Squares of pixels as channels.
    x = net.shaped(x, rows // 4, 4, columns // 4, 4, at="/warp")
    x = net.shaped(b("Transpose", x, at="/warp", perm=[1, 3, 0, 2]), 1, 16, rows // 4, columns // 4, at="/warp")
    x = b("Elu", net.conv(net.floats(x, "/stem"), 16, size.stem, 3, "/stem", 2), at="/stem")
    x, channels = net.stages(x, size.stem, size.face_stages)
    x = b("Flatten", b("GlobalAveragePool", x, at="/pool"), at="/pool", axis=1)
    x = b("Concat", x, calibration, at="/pool", axis=1)
    x = b("Elu", net.dense(x, channels + 3, size.hidden, "/pool"), at="/pool")
    net.head(x, size.hidden, size.parts[1:], size.hidden, "/head", "outputs")
    return net


def matrix(rng, camera, view):
    """From pixels of a view to those of a camera, with a little perspective."""
    rows, columns = view
    across, down = (math.floor(8 * n) / 8 for n in (camera.width / columns, camera.height / rows))
    shift = rng.integers(-8, 9, 2) / 8 + 0.25
    return np.array([[across, 1 / 32, shift[0]], [0, down, shift[1]], [0, 2.0**-12, 1]], np.float32)


def values(rng, net, size):
    """What a run is given, but for its states."""
    made, states = {}, [state[1] for state in net.states]
    for port in net.inputs:
        shape = [d.dim_value for d in port.type.tensor_type.shape.dim]
        if port.name in states:
            continue
        if port.name.endswith("transform"):
            camera, view = (size.driver, size.face) if port.name == "transform" else (size.road, size.view)
            made[port.name] = matrix(rng, camera, view)
        elif port.type.tensor_type.elem_type == BYTE:
            made[port.name] = rng.integers(0, 256, shape, np.uint8)
        else:
            made[port.name] = rng.standard_normal(shape, dtype=np.float32)
    return made


def make_one(net, size, folder):
    folder.mkdir(parents=True)
    path = folder / "model.onnx"
    onnx.save_model(net.model(), str(path))
    graph.check(path)
    run, rng = graph.session(path), np.random.default_rng(7)
    names = [o.name for o in net.outputs]
    kinds = {FLOAT: np.float32, BYTE: np.uint8}
    kept = {}
    # What the first run is given, as plain bytes, for `doorbell-run`.
    (folder / "run").mkdir()
    for port in net.inputs:
        if port.name in [state[1] for state in net.states]:
            shape = [d.dim_value for d in port.type.tensor_type.shape.dim]
            kept[port.name] = np.zeros(shape, kinds[port.type.tensor_type.elem_type])
    # Without a state, runs have nothing to do with each other.
    sets = size.sets if net.states else 2
    for i in range(sets):
        feed = {**values(rng, net, size), **kept}
        feed = {port.name: feed[port.name] for port in net.inputs}
        outputs = dict(zip(names, run.run(names, feed)))
        if i == 0:
            for name in feed.keys() - kept.keys():
                (folder / "run" / f"{name}.bin").write_bytes(feed[name].tobytes())
        if not all(np.isfinite(o).all() for o in outputs.values()):
            raise SystemExit(f"scripts/models: {net.name}: not finite")
        graph.write_set(folder / f"test_data_set_{i}", list(feed.items()), list(outputs.items()))
        for _, queue, new, axis in net.states:
            new = outputs[new]
            if axis is not None:
                rest = np.take(kept[queue], range(new.shape[axis], kept[queue].shape[axis]), axis)
                new = np.concatenate([rest, new], axis)
            kept[queue] = new
    compile_with = [word for option, queue, new, axis in net.states
                    for word in (option, f"{queue}={new}" + (f"@{axis}" if axis is not None else ""))]
    weights = sum(math.prod(t.dims) for t in net.b.initializers if not t.name.startswith("grid")) * 4
    graph.write_facts(folder, weights=weights, sets=sets, compile=compile_with)
    return f"{net.name} with {len(net.b.nodes)} nodes and {weights / 4e6:.1f} M weights"


def make(size, folder):
    return ", ".join(make_one(net(size), size, folder / net(size).name) for net in (vision, policy, driver))
