"""The MiniLM sentence encoder (BERT, 6 layers) as an ONNX graph, with its real weights.

The graph is what an exporter writes: dimensions named `batch` and `sequence`, shapes computed by
Shape, Gather and Concat, weights of the products transposed beforehand, the mask as a large negative
number chosen by Where. The weights are external data, in one file beside the model.
"""

import json
import math
import pathlib
import struct
import unicodedata

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import graph

OPSET, IR = 17, 8
# The data sets, in this order: batch, sequence.
CASES = [(batch, sequence) for batch in (1, 8) for sequence in (16, 64, 128)]

PARAGRAPHS = [
    "The harbour was quiet when the first boats came back in the morning, their nets heavy with "
    "herring and their crews too tired to talk. On the quay, buyers from the town walked from crate "
    "to crate, lifted a fish here and there, and wrote prices on small slips of paper. By nine "
    "o'clock everything had been sold, the ice had been swept into the water, and only the gulls "
    "were still arguing about what was left. An old man who had mended nets there for fifty years "
    "said that the fish were smaller now, and that the young ones no longer knew how to wait. Nobody "
    "answered him; the ferry to the islands was about to leave, and the queue moved slowly forward.",
    "A compiler reads a program, decides what it means, and writes another program that does the "
    "same thing on a machine. Most of the work lies between the two: loops are split and reordered "
    "so that values stay close to the processor, additions that always give the same result are "
    "done once, and memory that nobody reads any more is used again.",
    "Bread needs flour, water, salt, yeast and time; the last of these is what most recipes leave "
    "out. Left overnight in a cool room, even a plain dough becomes something worth eating.",
    "In 1969 two people walked on the moon for about two and a half hours.",
    "The committee postponed its decision on the new bridge until spring, because the estimates of "
    "the three firms differed by more than forty percent.",
    "My neighbour's cat sleeps on our roof whenever the sun is out.",
    "Interest rates rose again, and the shares of several banks fell sharply before noon.",
    "Can you tell me how to get to the railway station?",
]

ALIKE = [
    ("How do I get to the railway station?", "Which way is it to the train station?"),
    ("The cat is sleeping on the roof.", "A kitten naps on top of the house."),
    ("Interest rates rose again this month.", "Borrowing money became more expensive."),
]


class WordPiece:
    """The tokens of an uncased BERT: words and signs, then the longest pieces that are known."""

    def __init__(self, vocabulary):
        lines = vocabulary.read_text(encoding="utf-8").splitlines()
        self.ids = {piece: i for i, piece in enumerate(lines)}

    @staticmethod
    def words(text):
        word = ""
        for c in unicodedata.normalize("NFD", text.lower()):
            kind = unicodedata.category(c)
            if kind == "Mn":
                continue
            sign = kind.startswith("P") or c in "$+<=>^`|~"
            if sign or c.isspace():
                if word:
                    yield word
                if sign:
                    yield c
                word = ""
            else:
                word += c
        if word:
            yield word

    def pieces(self, word):
        found, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self.ids:
                    found.append(self.ids[piece])
                    start = end
                    break
            else:
                return [self.ids["[UNK]"]]
        return found

    def batch(self, texts, length=None):
        """Token ids, mask and token types; cut and filled to a length, or as long as the longest."""
        rows = [[i for w in self.words(t) for i in self.pieces(w)] for t in texts]
        length = length or max(len(r) for r in rows) + 2
        ids = np.full((len(rows), length), self.ids["[PAD]"], np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(rows):
            tokens = [self.ids["[CLS]"], *tokens[:length - 2], self.ids["[SEP]"]]
            ids[row, :len(tokens)] = tokens
            mask[row, :len(tokens)] = 1
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def read(path):
    """The tensors of a safetensors file."""
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    kinds = {"F32": np.float32, "I64": np.int64}
    return {name: np.frombuffer(raw[8 + size:][slice(*t["data_offsets"])], kinds[t["dtype"]])
            .reshape(t["shape"])
            for name, t in json.loads(raw[8:8 + size]).items() if name != "__metadata__"}


class Builder:
    """Nodes and initializers, named after the module that they come from."""

    def __init__(self):
        self.nodes, self.initializers, self.count, self.numbers = [], [], 0, {}

    def __call__(self, op, *inputs, at="", out=None, **attributes):
        self.count += 1
        name = f"{at}/{op}_{self.count}"
        out = out or f"{name}_output_0"
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=name, **attributes))
        return out

    def weight(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def number(self, value, kind=np.float32):
        """A small constant, as the output of a Constant node."""
        key = (str(value), kind)
        if key not in self.numbers:
            tensor = numpy_helper.from_array(np.array(value, kind))
            self.numbers[key] = self("Constant", at="/constants", value=tensor)
        return self.numbers[key]


def build(weights, config):
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    width, epsilon = hidden // heads, config["layer_norm_eps"]
    b = Builder()

    def size(x, axis, at):
        return b("Gather", b("Shape", x, at=at), b.number(axis, np.int64), at=at, axis=0)

    def shape(at, *sizes):
        """A shape of numbers and of sizes that are known at run time."""
        each = [b.number([s], np.int64) if isinstance(s, int)
                else b("Unsqueeze", s, b.number([0], np.int64), at=at) for s in sizes]
        return b("Concat", *each, at=at, axis=0)

    def linear(x, module, at):
        w = b.weight(f"onnx::MatMul_{module}", weights[f"{module}.weight"].T)
        return b("Add", b.weight(f"{module}.bias", weights[f"{module}.bias"]),
                 b("MatMul", x, w, at=at), at=at)

    def norm(x, module, at, out=None):
        scale, bias = (b.weight(f"{module}.{n}", weights[f"{module}.{n}"]) for n in ("weight", "bias"))
        return b("LayerNormalization", x, scale, bias, at=at, out=out, axis=-1, epsilon=epsilon)

    at = "/embeddings"
    length = size("input_ids", 1, at)
    positions = b("Slice", b.weight("embeddings.position_ids", weights["embeddings.position_ids"]),
                  b.number([0], np.int64), b("Unsqueeze", length, b.number([0], np.int64), at=at),
                  b.number([1], np.int64), b.number([1], np.int64), at=at)
    looked_up = [b("Gather", b.weight(f"embeddings.{table}.weight", weights[f"embeddings.{table}.weight"]),
                   ids, at=at)
                 for table, ids in (("word_embeddings", "input_ids"),
                                    ("token_type_embeddings", "token_type_ids"),
                                    ("position_embeddings", positions))]
    x = b("Add", b("Add", looked_up[0], looked_up[1], at=at), looked_up[2], at=at)
    x = norm(x, "embeddings.LayerNorm", at)

    # The mask as a term of the scores: 0 where a token is, the lowest number where there is none.
    at = "/mask"
    batch = size("attention_mask", 0, at)
    columns = size("attention_mask", 1, at)
    mask = b("Unsqueeze", "attention_mask", b.number([1], np.int64), at=at)
    mask = b("Unsqueeze", mask, b.number([2], np.int64), at=at)
    mask = b("Expand", mask, shape(at, batch, 1, length, columns), at=at)
    mask = b("Cast", mask, at=at, to=TensorProto.FLOAT)
    away = b("Sub", b.number(1), mask, at=at)
    lowest = b.number(np.finfo(np.float32).min)
    mask = b("Where", b("Cast", away, at=at, to=TensorProto.BOOL), lowest, away, at=at)

    for layer in range(config["num_hidden_layers"]):
        module, at = f"encoder.layer.{layer}", f"/encoder/layer.{layer}/attention/self"

        def split(part, perm):
            y = linear(x, f"{module}.attention.self.{part}", f"{at}/{part}")
            y = b("Reshape", y, shape(at, size(y, 0, at), size(y, 1, at), heads, width), at=at)
            return b("Transpose", y, at=at, perm=perm)

        query, key = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1])
        value = split("value", [0, 2, 1, 3])
        scores = b("Div", b("MatMul", query, key, at=at), b.number(math.sqrt(width)), at=at)
        scores = b("Softmax", b("Add", scores, mask, at=at), at=at, axis=-1)
        y = b("Transpose", b("MatMul", scores, value, at=at), at=at, perm=[0, 2, 1, 3])
        y = b("Reshape", y, shape(at, size(y, 0, at), size(y, 1, at), hidden), at=at)

        at = f"/encoder/layer.{layer}/attention/output"
        y = linear(y, f"{module}.attention.output.dense", at)
        x = norm(b("Add", y, x, at=at), f"{module}.attention.output.LayerNorm", at)

        at = f"/encoder/layer.{layer}/intermediate"
        y = linear(x, f"{module}.intermediate.dense", at)
        erf = b("Erf", b("Div", y, b.number(math.sqrt(2)), at=at), at=at)
        y = b("Mul", b("Mul", y, b("Add", erf, b.number(1), at=at), at=at), b.number(0.5), at=at)

        at = f"/encoder/layer.{layer}/output"
        y = linear(y, f"{module}.output.dense", at)
        last = layer == config["num_hidden_layers"] - 1
        x = norm(b("Add", y, x, at=at), f"{module}.output.LayerNorm", at,
                 "last_hidden_state" if last else None)

    at = "/pooling"
    there = b("Unsqueeze", "attention_mask", b.number([-1], np.int64), at=at)
    there = b("Expand", there, b("Shape", x, at=at), at=at)
    there = b("Cast", there, at=at, to=TensorProto.FLOAT)
    along = b.number([1], np.int64)
    total = b("ReduceSum", b("Mul", x, there, at=at), along, at=at, keepdims=0)
    tokens = b("Clip", b("ReduceSum", there, along, at=at, keepdims=0), b.number(1e-9), at=at)
    mean = b("Div", total, tokens, at=at)
    at = "/normalize"
    length = b("Clip", b("ReduceL2", mean, at=at, axes=[1], keepdims=1), b.number(1e-12), at=at)
    b("Div", mean, b("Expand", length, b("Shape", mean, at=at), at=at), at=at, out="sentence_embedding")

    def value(name, kind, *dims):
        return helper.make_tensor_value_info(name, kind, dims)

    inputs = [value(name, TensorProto.INT64, "batch", "sequence")
              for name in ("input_ids", "attention_mask", "token_type_ids")]
    outputs = [value("last_hidden_state", TensorProto.FLOAT, "batch", "sequence", hidden),
               value("sentence_embedding", TensorProto.FLOAT, "batch", hidden)]
    g = helper.make_graph(b.nodes, "minilm", inputs, outputs, b.initializers)
    return helper.make_model(g, producer_name="doorbell", ir_version=IR,
                             opset_imports=[helper.make_opsetid("", OPSET)])


def make(package, folder, say):
    config = json.loads((package / "config.json").read_text())
    weights = read(package / "model.safetensors")
    path = folder / "model.onnx"
    model = build(weights, config)
    onnx.save_model(model, str(path), save_as_external_data=True, all_tensors_to_one_file=True,
                    location="model.onnx.data", size_threshold=1024)
    graph.check(path)

    tokens, run = WordPiece(package / "vocab.txt"), graph.session(path)
    names = [o.name for o in run.get_outputs()]
    # The sentences of a pair mean the same, those of two pairs do not.
    texts = [text for pair in ALIKE for text in pair]
    (embedding,) = run.run(["sentence_embedding"], tokens.batch(texts))
    cosine = embedding @ embedding.T
    pair = np.arange(len(texts)) // 2
    same = cosine[(pair[:, None] == pair) & ~np.eye(len(texts), dtype=bool)]
    unlike = cosine[pair[:, None] != pair]
    if not same.min() > unlike.max():
        raise SystemExit(f"scripts/models: paraphrases have a cosine of {same.min():.3f} or more, "
                         f"unrelated sentences of up to {unlike.max():.3f}: the graph is wrong")
    say(f"cosine of paraphrases at least {same.min():.3f}, of unrelated sentences at most "
        f"{unlike.max():.3f}")

    for i, (batch, sequence) in enumerate(CASES):
        feed = tokens.batch(PARAGRAPHS[:batch], sequence)
        if not feed["attention_mask"][0].all():
            raise SystemExit(f"scripts/models: the first text has fewer than {sequence} tokens")
        outputs = run.run(names, feed)
        if not all(np.isfinite(o).all() for o in outputs):
            raise SystemExit(f"scripts/models: minilm, batch {batch}, sequence {sequence}: not finite")
        graph.write_set(folder / f"test_data_set_{i}", list(feed.items()), list(zip(names, outputs)))
    batch, sequence = CASES[-1]
    scores = batch * config["num_attention_heads"] * sequence * sequence
    inner = batch * sequence * config["intermediate_size"]
    used = sum(t.nbytes for name, t in weights.items() if not name.startswith("pooler."))
    graph.write_facts(folder, weights=used, cases=CASES,
                      activations=[4 * n for n in sorted((scores, scores, inner, inner))[-2:]])
    return f"{len(model.graph.node)} nodes, {len(CASES)} data sets"
