"""The measured models and their targets."""

import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "target" / "models"
LIGHT = ["resnet50", "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "shufflenet",
         "squeezenet", "vgg19", "zfnet512"]
MB = 1 << 20

# Name -> file, and the values of its named dimensions.
MODELS = {name: (FOLDER / "random" / f"light_{name}" / "model.onnx", {}) for name in LIGHT}
MODELS |= {f"minilm B{batch}S{sequence}": (FOLDER / "minilm" / "model.onnx",
                                           {"batch": batch, "sequence": sequence})
           for batch, sequence in ((1, 128), (8, 128))}
# Trained models, with the inputs stored beside them.
ZOO = {}
# Models with weights larger than the program and its compiler (about 70 MB): their memory bound is that
# of the whole process.
LARGE = ["resnet50", "bvlc_alexnet", "vgg19", "zfnet512", "minilm B1S128", "minilm B8S128"]
# tinygrad takes most of a minute to compile one.
TINYGRAD = ["resnet50"]

STEADY, COLD, WARM, MEMORY = "steady", "first run cold", "first run warm", "peak memory"
ROWS = [STEADY, COLD, WARM, MEMORY]


def find_zoo():
    """Adds the models that scripts/zoo has fetched."""
    ZOO.update({path.parent.name: (path, {}) for path in sorted(FOLDER.glob("zoo/*/model.onnx"))
                if not path.parent.name.endswith(".part")})
    MODELS.update(ZOO)


find_zoo()


def chosen(names, wanted):
    """The models with at least one wanted row."""
    return [name for name in names if any(wanted(f"{name} {row}") for row in ROWS)]


def given(name):
    """The file with the inputs of a model; None if they are generated."""
    path = MODELS[name][0].parent / "inputs.npz"
    return path if path.exists() else None


def facts(name):
    """The stored facts of a model: kind, weights, activations."""
    return json.loads((MODELS[name][0].parent / "facts.json").read_text())


def memory_bound(name):
    """MB: twice the weights plus the two largest activations; None if unknown."""
    dims = MODELS[name][1]
    try:
        known = facts(name)
    except OSError:
        return None
    largest = known["activations"]
    if dims:
        # Stored for the largest case; the measured cases differ in the batch only.
        batch, sequence = known["cases"][-1]
        assert sequence == dims["sequence"]
        largest = [size * dims["batch"] / batch for size in largest]
    return (2 * known["weights"] + sum(largest)) / MB
