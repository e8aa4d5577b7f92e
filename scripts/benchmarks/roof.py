"""Why the slower models are slower: what they would take at the rate of a large product, and where the
rest goes."""

# From profiles (DEBUG=2) of the date of the report; a model that is not slower any more is left out.
REASONS = {
    "ddddocr": "two LSTMs of 20 steps read 8 MB of weights a step, at what the caches give; a product of 20 rows "
               "with 33 MB of weights gets 13 GB/s of the 30 that plain reading gets, cause not found",
    "ddddocr-det": "3x3 convolutions of 96 channels run at two thirds of a large product's rate, and windows are "
                   "copied before each of them",
    "lac": "a step of its GRU ends in two sigmoids and a tanh for each of 128 outputs, done one at a time, "
           "since the lanes run along the sums",
    "nudenet": "64 small convolutions: windows are copied, and parts of concatenations",
    "open-nsfw": "convolutions of 7x7 and 14x14 pictures: 49 and 196 columns fill tiles of 64 to three quarters",
    "page-orientation": "products of 256 and 512 channels with 196 and 49 columns; both operands are packed at each "
                        "run, and depthwise 5x5 convolutions read padded copies",
    "ppocr-det": "depthwise convolutions and products of few channels, bound by memory",
    "ppocr-rec": "products of few channels; windows are copied",
    "rxnmap": "46 rows: weights of 84 MB come from memory once for each run",
    "seizure": "LSTMs: each step reads its weights from the second cache",
    "spindles": "convolutions along one axis of long signals copy their windows",
    "traffic-lanes": "trees: 6 levels of gathers, which wait for each other",
    "traffic-pairs": "convolutions of 32 channels along one axis end in GELUs, whose erf takes as long as the sums",
    "voicefilter-speaker": "the gates of its LSTM are kernels of their own between products of bytes",
    "wakeword-mycroft": "kernels of a few microseconds, for which two threads have to meet",
    "resnet50": "3x3 convolutions of 7x7 and 14x14 pictures fill three quarters of their tiles; windows are copied",
    "inception_v2": "3x3 convolutions of 7x7 and 14x14 pictures fill three quarters of their tiles; windows are "
                    "copied",
    "vgg19": "3x3 convolutions of 14x14 and 28x28 pictures run at two thirds of a large product's rate: packed "
             "windows go through memory",
    "squeezenet": "windows of 3x3 convolutions are copied, as are the halves of concatenations; the last product "
                  "has 1000 rows and 169 columns",
    "densenet121": "products of 32 rows: 3x3 convolutions of 128 channels to 32",
}


def table(ratios, times, work, rate):
    """The models of `ratios`; `times` in ms, `work` in operations, `rate` in operations a second."""
    lines = ["", "## Slower than a peer", "",
             f"*floor* is the work of a model at the {rate / 1e9:.0f} GFLOP/s that `gemm f32 1024` reaches on two "
             "threads; one",
             "that waits for memory, or for another thread, cannot come near it.", "",
             "| model | ratio | GFLOP | floor ms | Doorbell ms | what the rest is |",
             "|---|---:|---:|---:|---:|---|"]
    for name in sorted(ratios, key=ratios.get):
        flops = work.get(name)
        known = [f"{flops / 1e9:.3g}", f"{1e3 * flops / rate:.3g}"] if flops else ["", ""]
        lines.append(f"| {name} | {ratios[name]:.2f}x | {known[0]} | {known[1]} | {times[name]:.3g} | "
                     f"{REASONS.get(name, 'not looked at')} |")
    return "\n".join(lines) + "\n"
