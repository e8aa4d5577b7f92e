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
# Those whose weights outweigh the program and its compiler, some 70 MB: for these the whole process
# is held against the size of the model.
LARGE = ["resnet50", "bvlc_alexnet", "vgg19", "zfnet512", "minilm B1S128", "minilm B8S128"]
# tinygrad takes most of a minute to compile one.
TINYGRAD = ["resnet50"]

STEADY, COLD, WARM, MEMORY = "steady", "first run cold", "first run warm", "peak memory"
ROWS = [STEADY, COLD, WARM, MEMORY]


def chosen(wanted):
    """The models of which a row is wanted."""
    return [name for name in MODELS if any(wanted(f"{name} {row}") for row in ROWS)]


def memory_bound(name):
    """MB: twice the weights and the two largest activations; nothing where that is not known."""
    path, dims = MODELS[name]
    try:
        facts = json.loads((path.parent / "facts.json").read_text())
    except OSError:
        return None
    largest = facts["activations"]
    if dims:
        # Kept for the largest case. Of those measured here, all that differ do so in the batch.
        batch, sequence = facts["cases"][-1]
        assert sequence == dims["sequence"]
        largest = [size * dims["batch"] / batch for size in largest]
    return (2 * facts["weights"] + sum(largest)) / MB
