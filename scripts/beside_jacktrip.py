"""How late two receivers play what the first channel of a recording has, and how much of it is missing (scripts/beside-jacktrip).

The sound is noise below 3 kHz, so half a sample of delay hardly changes it, and no piece resembles another. A piece of 64 sample frames is missing where
its correlation with what was played is below 0.9: silence, concealment and what stands in the wrong place all are. The delay follows the sound
by a sample frame a piece, for resamplers, and jumps where the sound does.
"""

import array
import math
import sys
import wave
from operator import mul

PIECE = 64
ALIKE = 0.9
AGAIN = 150  # pieces in a row after which the sound is looked for elsewhere: 0.2 s
MOST = 48 * 150  # a delay of 150 ms


def correlation(played, heard, at, delay, length):
    """From -1 to 1; of silence 0."""
    a, b = played[at - delay : at - delay + length], heard[at : at + length]
    size = math.sqrt(sum(map(mul, a, a)) * sum(map(mul, b, b)))
    return sum(map(mul, a, b)) / size if size > 0 else 0.0


def search(played, heard, at, length):
    """The delay at which a stretch is most alike."""
    def best(delays):
        return max((correlation(played, heard, at, delay, length), delay) for delay in delays)

    # Noise below 3 kHz is alike for a few sample frames.
    _, near = best(range(0, MOST, 4))
    return best(range(max(near - 4, 0), near + 5))


def judge(played, heard):
    """The delays of the pieces that are there, and the share of those that are not."""
    delays, missing, pieces, at = [], 0, 0, MOST
    alike, delay = 0.0, 0
    # The first stretch that came whole.
    while alike < ALIKE and at + 48_000 < len(heard):
        alike, delay = search(played, heard, at, 8 * PIECE)
        at += AGAIN * PIECE
    wrong = 0
    while at + PIECE <= len(heard):
        best, near = max((correlation(played, heard, at, d, PIECE), d) for d in (delay, delay - 1, delay + 1))
        pieces += 1
        if best >= ALIKE:
            delay, wrong = near, 0
            delays.append(near)
        else:
            missing, wrong = missing + 1, wrong + 1
            # It goes on elsewhere.
            if wrong % AGAIN == AGAIN - 1 and at + 8 * PIECE <= len(heard):
                found, there = search(played, heard, at, 8 * PIECE)
                delay = there if found >= ALIKE else delay
        at += PIECE
    return sorted(delays), missing / max(pieces, 1)


def main():
    with wave.open(sys.argv[1]) as file:
        channels, rate = file.getnchannels(), file.getframerate()
        samples = array.array("h", file.readframes(file.getnframes()))
    assert (channels, rate) == (3, 48_000), f"{channels} channels at {rate} Hz"
    played, *heard = (samples[channel::channels] for channel in range(channels))
    rows = []
    for name, sound in zip(("Antiphon", "JackTrip"), heard):
        delays, missing = judge(played, sound)
        if not delays:
            print(f"  {name}: nothing of the sound came")
            rows.append((math.inf, 1.0))
            continue
        median, p99 = delays[len(delays) // 2] / 48, delays[int(0.99 * len(delays))] / 48
        print(f"  {name}: {median:.1f} ms from port to port (p99 {p99:.1f}), {100 * missing:.3f} % missing")
        rows.append((median, missing))
    (ours, our_missing), (theirs, their_missing) = rows
    sys.exit(0 if ours <= theirs and our_missing <= their_missing else 1)


main()
