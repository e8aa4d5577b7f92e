"""The models that are slower than a peer: their time at the rate of a large product, and the causes of the rest."""

# From profiles (DEBUG=2) at the date of the report; only slower models are printed.
REASONS = {
    "ddddocr": "two LSTMs of 20 steps read 8 MB of weights per step, at the bandwidth of the caches; a product of 20 rows "
               "with 33 MB of weights gets 13 GB/s of the 30 that plain reading gets, cause not found",
    "ddddocr-det": "3x3 convolutions of 96 channels run at two thirds of a large product's rate, and windows are "
                   "copied before each of them",
    "lac": "a step of its GRU ends in two sigmoids and a tanh for each of 128 outputs, done one at a time, "
           "since the lanes run along the sums",
    "nudenet": "64 small convolutions: windows and parts of concatenations are copied",
    "open-nsfw": "convolutions of 7x7 and 14x14 pixels: 49 and 196 columns fill three quarters of tiles of 64",
    "page-orientation": "products of 256 and 512 channels with 196 and 49 columns; both operands are packed at each "
                        "run, and depthwise 5x5 convolutions read padded copies",
    "ppocr-det": "depthwise convolutions and products of few channels, bound by memory",
    "ppocr-rec": "products of few channels; windows are copied",
    "rxnmap": "46 rows: each run reads 84 MB of weights from memory",
    "seizure": "LSTMs: each step reads its weights from the L2 cache",
    "spindles": "convolutions along one axis of long signals copy their windows",
    "traffic-lanes": "trees: 6 dependent levels of gathers",
    "traffic-pairs": "convolutions of 32 channels along one axis end in GELUs, whose erf takes as long as the sums",
    "voicefilter-speaker": "the gates of its LSTM are separate kernels between 8-bit products",
    "wakeword-mycroft": "kernels of a few microseconds, each with a barrier between two threads",
    "resnet50": "3x3 convolutions of 7x7 and 14x14 pixels fill three quarters of their tiles; windows are copied",
    "inception_v2": "3x3 convolutions of 7x7 and 14x14 pixels fill three quarters of their tiles; windows are "
                    "copied",
    "vgg19": "3x3 convolutions of 14x14 and 28x28 pixels run at two thirds of a large product's rate: packed "
             "windows go through memory",
    "squeezenet": "windows of 3x3 convolutions are copied, as are the halves of concatenations; the last product "
                  "has 1000 rows and 169 columns",
    "densenet121": "products of 32 rows: 3x3 convolutions of 128 channels to 32",
}


def table(ratios, times, work, rate):
    """The models of `ratios`; `times` in ms, `work` in operations, `rate` in operations per second."""
    lines = ["", "## Slower than a peer", "",
             f"*floor* is the time of a model's work at the {rate / 1e9:.0f} GFLOP/s that `gemm f32 1024` reaches on "
             "two threads. Models",
             "limited by memory or by synchronisation cannot reach it.", "",
             "| model | ratio | GFLOP | floor ms | Doorbell ms | cause |",
             "|---|---:|---:|---:|---:|---|"]
    for name in sorted(ratios, key=ratios.get):
        flops = work.get(name)
        known = [f"{flops / 1e9:.3g}", f"{1e3 * flops / rate:.3g}"] if flops else ["", ""]
        lines.append(f"| {name} | {ratios[name]:.2f}x | {known[0]} | {known[1]} | {times[name]:.3g} | "
                     f"{REASONS.get(name, 'not analysed')} |")
    return "\n".join(lines) + "\n"
