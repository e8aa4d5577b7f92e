"""What trained models are made for, made up: speech, chords, brain waves, pages, photographs, tables.

A net that gets noise answers "nothing there" with its outputs saturated, which hides errors. So each
of these has the structure and the range of values that the real thing has. All depend on the
generator that they are given, and on nothing else.
"""

import numpy as np

# The ten digits, 5 columns of 7 bits each, the top one lowest.
DIGITS = bytes.fromhex("3e5149453e00427f400042615149462141454b311814127f10"
                       "27454545393c4a49493001710905033649494936064949291e")


def speech(rng, samples, rate=16000):
    """Voiced syllables: a gliding pitch and its harmonics under three formants, with some breath."""
    t = np.arange(samples) / rate
    pitch = 130 + 35 * np.sin(2 * np.pi * 0.7 * t + rng.uniform(0, 6)) + 8 * np.sin(2 * np.pi * 5 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    formants = [(600 + 250 * np.sin(2 * np.pi * 1.3 * t), 110), (1500 + 500 * np.sin(2 * np.pi * 0.9 * t), 160),
                (2600 + 0 * t, 220)]
    wave = np.zeros(samples)
    for harmonic in range(1, 26):
        frequency = harmonic * pitch
        gain = sum(np.exp(-((frequency - centre) / (2 * width)) ** 2) for centre, width in formants)
        wave += (gain + 0.02) / harmonic ** 0.5 * np.sin(harmonic * phase)
    syllables = 0.55 + 0.45 * np.sin(2 * np.pi * 4 * t + 1)
    wave = wave * syllables + 0.02 * rng.standard_normal(samples)
    return (0.4 * wave / np.abs(wave).max()).astype(np.float32)


def chords(rng, samples, rate):
    """Chords of three or four notes, half a second each, which fade as those of a piano do."""
    wave, length = np.zeros(samples), rate // 2
    for start in range(0, samples, length):
        t = np.arange(min(length, samples - start)) / rate
        for note in rng.choice(np.arange(48, 84), rng.integers(3, 5), replace=False):
            frequency = 440 * 2 ** ((note - 69) / 12)
            for harmonic in range(1, 6):
                wave[start:start + len(t)] += np.sin(2 * np.pi * harmonic * frequency * t) \
                    * np.exp(-3 * harmonic ** 0.5 * t) / harmonic ** 1.5
    return (0.6 * wave / np.abs(wave).max()).astype(np.float32)


def brain(rng, samples, rate):
    """Noise that falls with frequency, slow waves, and a few spindles of 13 Hz."""
    spectrum = np.fft.rfft(rng.standard_normal(samples))
    spectrum /= np.maximum(np.arange(len(spectrum)), 4) ** 0.8
    t = np.arange(samples) / rate
    wave = np.fft.irfft(spectrum, samples)
    wave = wave / wave.std() + 1.5 * np.sin(2 * np.pi * 0.9 * t)
    for centre in rng.uniform(0, t[-1], 6):
        wave += 2.5 * np.exp(-((t - centre) / 0.4) ** 2) * np.sin(2 * np.pi * 13 * t)
    return ((wave - wave.mean()) / wave.std()).astype(np.float32)


def spectrum(rng, bands, steps, correlation=0.9):
    """Bands that drift and burst, each with mean 0 and deviation 1."""
    field = rng.standard_normal((bands, steps))
    for step in range(1, steps):
        field[:, step] += correlation * field[:, step - 1]
    for centre in rng.integers(0, steps, 5):
        shape = np.exp(-((np.arange(steps) - centre) / (steps / 40 + 2)) ** 2)
        field += 4 * np.exp(-np.arange(bands) / (bands / 3))[:, None] * shape
    field -= field.mean(1, keepdims=True)
    return (field / field.std(1, keepdims=True)).astype(np.float32)


def smooth(rng, height, width, cells):
    """A grid of random numbers in 0..1, stretched over the area."""
    grid = rng.random((cells + 1, cells + 1))
    y, x = np.linspace(0, cells, height), np.linspace(0, cells, width)
    i, j = np.minimum(y.astype(int), cells - 1), np.minimum(x.astype(int), cells - 1)
    v, u = (y - i)[:, None], (x - j)[None, :]
    i, j = i[:, None], j[None, :]
    return (grid[i, j] * (1 - v) + grid[i + 1, j] * v) * (1 - u) \
        + (grid[i, j + 1] * (1 - v) + grid[i + 1, j + 1] * v) * u


def photo(rng, height, width):
    """Three channels in 0..1: a soft background, things with edges before it, grain."""
    image = np.stack([smooth(rng, height, width, 4) for _ in range(3)])
    y, x = np.mgrid[0:height, 0:width]
    for _ in range(7):
        cy, cx = rng.uniform(0.1, 0.9) * height, rng.uniform(0.1, 0.9) * width
        ry, rx = rng.uniform(0.05, 0.3) * height, rng.uniform(0.05, 0.3) * width
        inside = ((y - cy) / ry) ** 2 + ((x - cx) / rx) ** 2 < 1
        shade = 0.7 + 0.3 * (y - cy) / ry
        image = np.where(inside, rng.random((3, 1, 1)) * shade, image)
    image += 0.02 * rng.standard_normal(image.shape)
    return np.clip(image, 0, 1).astype(np.float32)


def page(rng, height, width, lines=1):
    """Dark lines of digits on light paper, in 0..1."""
    paper = 0.85 + 0.1 * smooth(rng, height, width, 3)
    pitch = height // lines
    scale = max(1, pitch * 6 // 10 // 7)
    for line in range(lines):
        top, left = line * pitch + (pitch - 7 * scale) // 2, scale * 2
        while left + 6 * scale < width:
            if rng.random() < 0.85:
                digit = DIGITS[5 * rng.integers(10):][:5]
                ink = np.array([[column >> bit & 1 for column in digit] for bit in range(7)])
                ink = np.kron(ink, np.ones((scale, scale)))
                paper[top:top + 7 * scale, left:left + 5 * scale] *= 1 - 0.85 * ink
            left += 6 * scale
    # A lens is never sharp.
    soft = sum(np.roll(paper, by, axis) for axis in (0, 1) for by in (-1, 0, 1)) / 6
    return np.clip(soft + 0.01 * rng.standard_normal(soft.shape), 0, 1).astype(np.float32)


def table(rng, rows, columns):
    """Columns of many kinds: shares, counts, switches, skewed amounts; one value in twenty is unknown."""
    made = np.empty((rows, columns))
    for column in range(columns):
        kind = column % 4
        made[:, column] = (rng.random(rows), rng.poisson(8, rows), rng.integers(0, 2, rows),
                           rng.lognormal(0, 1.5, rows))[kind]
    made[rng.random(made.shape) < 0.05] = np.nan
    return made


def switches(rng, count, channels, steps):
    """Signals that are on or off for a while, with an impulse at some changes."""
    flips = rng.random((count, channels, steps)) < 0.03
    state = (np.cumsum(flips, axis=2) + rng.integers(0, 2, (count, channels, 1))) % 2
    impulse = flips * rng.random(flips.shape)
    return np.where(np.arange(channels)[:, None] % 3 == 2, impulse, state).astype(np.float32)


def molecules(rng, sizes):
    """Atoms of molecules in a row: kinds, numbers of neighbours, distances along bonds."""
    total = sum(sizes)
    kinds, distance = rng.choice([6, 6, 6, 6, 7, 8, 8, 9, 16, 17], total), np.zeros((total, total), np.int64)
    neighbours, start = np.zeros(total, np.int64), 0
    for size in sizes:
        own = np.full((size, size), 99)
        np.fill_diagonal(own, 0)
        for atom in range(1, size):
            # Each atom hangs on one of the three before it: chains with branches.
            other = rng.integers(max(0, atom - 3), atom)
            own[atom, other] = own[other, atom] = 1
            neighbours[[start + atom, start + other]] += 1
        for middle in range(size):
            own = np.minimum(own, own[:, [middle]] + own[[middle], :])
        distance[start:start + size, start:start + size] = np.minimum(own, 9) + 2
        start += size
    return kinds + 2, neighbours + 2, distance
