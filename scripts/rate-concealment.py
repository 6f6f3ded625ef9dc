"""Rates the sounds that scripts/rate-concealment has made, and prints a table."""

import collections
import sys
import warnings

warnings.filterwarnings("ignore")

import numpy
import scipy.signal
import soundfile
from speechmos import plcmos
from visqol import VisqolApi

directory, speech_count = sys.argv[1], int(sys.argv[2])
sources = [line.split(" ", 1) for line in open(f"{directory}/sources").read().splitlines()]
visqol = VisqolApi()
visqol.create(mode="audio")
# PLCMOS draws raters at random.
numpy.random.seed(1)


def mono(path):
    sound, rate = soundfile.read(path)
    return (sound if sound.ndim == 1 else sound.mean(axis=1)), rate


def rate(number, name):
    sound, hz = mono(f"{directory}/{name}.wav")
    if number <= speech_count:
        sound = scipy.signal.resample_poly(sound, 16000, hz)
        return plcmos.run(numpy.clip(sound, -1, 1), 16000)["plcmos"]
    # Both to mono: ViSQOL hears one channel.
    reference = f"{directory}/reference.wav"
    soundfile.write(reference, mono(f"{directory}/{number}-none-0.wav")[0], hz)
    soundfile.write(f"{directory}/heard.wav", sound, hz)
    return visqol.measure(reference, f"{directory}/heard.wav").moslqo


scores, longest = collections.defaultdict(list), collections.defaultdict(int)
for line in open(f"{directory}/list"):
    kind, seed, number, microseconds = line.split()
    # Of music without loss this is the most that ViSQOL gives: the sound compared with itself.
    scores[number, kind].append(rate(int(number), f"{number}-{kind}-{seed}"))
    longest[kind] = max(longest[kind], int(microseconds))

kinds = ["none", "silence", "repetition", "prediction"]
print(f"{'':24}" + "".join(f"{kind:>12}" for kind in ["nothing lost", *kinds[1:]]) + "   rated by")
for number, source in sources:
    means = [scores.get((number, kind)) for kind in kinds]
    cells = "".join(f"{'':>12}" if not one else f"{numpy.mean(one):12.2f}" for one in means)
    print(f"{source.split('/')[-1]:24}{cells}   {'PLCMOS' if int(number) <= speech_count else 'ViSQOL'}")
print(f"{'longest call, µs':24}" + "".join(f"{longest[kind]:12}" for kind in kinds))
