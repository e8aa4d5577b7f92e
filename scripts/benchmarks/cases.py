"""The models that are measured, and what is aimed at for them."""

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
# Trained ones, with the inputs that lie beside them.
ZOO = {}
# Those whose weights outweigh the program and its compiler, some 70 MB: for these the whole process
# is held against the size of the model.
LARGE = ["resnet50", "bvlc_alexnet", "vgg19", "zfnet512", "minilm B1S128", "minilm B8S128"]
# tinygrad takes most of a minute to compile one.
TINYGRAD = ["resnet50"]

STEADY, COLD, WARM, MEMORY = "steady", "first run cold", "first run warm", "peak memory"
ROWS = [STEADY, COLD, WARM, MEMORY]


def find_zoo():
    """Takes in what scripts/zoo has fetched."""
    ZOO.update({path.parent.name: (path, {}) for path in sorted(FOLDER.glob("zoo/*/model.onnx"))
                if not path.parent.name.endswith(".part")})
    MODELS.update(ZOO)


find_zoo()


def chosen(names, wanted):
    """The models of which a row is wanted."""
    return [name for name in names if any(wanted(f"{name} {row}") for row in ROWS)]


def given(name):
    """The file with the inputs of a model, where they are not made up."""
    path = MODELS[name][0].parent / "inputs.npz"
    return path if path.exists() else None


def facts(name):
    """What is known of a model besides its file."""
    return json.loads((MODELS[name][0].parent / "facts.json").read_text())


def memory_bound(name):
    """MB: twice the weights and the two largest activations; nothing where that is not known."""
    dims = MODELS[name][1]
    try:
        known = facts(name)
    except OSError:
        return None
    largest = known["activations"]
    if dims:
        # Kept for the largest case. Of those measured here, all that differ do so in the batch.
        batch, sequence = known["cases"][-1]
        assert sequence == dims["sequence"]
        largest = [size * dims["batch"] / batch for size in largest]
    return (2 * known["weights"] + sum(largest)) / MB
