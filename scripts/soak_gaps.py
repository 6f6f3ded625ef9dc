"""Why each gap of a soak began, from what was recorded where it arose (scripts/soak.py).

A gap is played at a time at which a packet is not there. Both ends' passports say when that packet was sent and when it came, so how late
it was is known, and on which part of its way it became so. A cause counts only where something else recorded it, too: the link a loss, or
a packet that its model kept for so long, or that it handed on late; the watch that it stopped the link; the source that it was late; a
thread that only waits that it was woken late. What is left is unexplained.
"""

import bisect
import json
from pathlib import Path

# Sample frames of a packet over their rate, in milliseconds: the blocks that `antiphon send` makes unless told otherwise.
PACKET_MS = 256 / 48.0
# Propagation of the link, in milliseconds (scripts/soak).
PROPAGATION_MS = 8.0
# Clocks of the programs are put beside each other by the wall clock: so exact they are, in seconds.
ALIKE_S = 0.03
# Within three times so many packets (24 s) the least transit, and the earliest sending, are those of a packet that nothing held up; the
# clocks drift by 100 ppm, 2.4 ms, meanwhile at most.
AROUND = 1500
# A cause explains a packet's lateness if it is as long as this share of it: the rest are threads that wake in their usual time, and pieces
# of 5 ms in which the source writes.
SHARE = 0.5
# A counter of the link is read once a second.
COUNTED_S = 1.6


def passport(path):
    """Rows by number: when sent and when arrived, in seconds since the program began."""
    rows = {}
    for line in path.read_text().splitlines():
        if line.startswith("["):
            number, sent, arrived, *_ = json.loads(line)
            rows[number] = (sent, arrived)
    return rows


def records(path, kind):
    found = (json.loads(line) for line in path.read_text().splitlines())
    return [record for record in found if record["record"] == kind]


def wall_at_zero(path):
    """The wall clock when the program's run began, to some milliseconds: its passport counts from there."""
    run = records(path, "run")[0]
    return run["wall_unix_s"]


class Least:
    """The least of the values around a place."""

    def __init__(self, values, every):
        self.every = every
        self.least = [min(values[at : at + every]) for at in range(0, len(values), every)]

    def around(self, at):
        at = min(at // self.every, len(self.least) - 1)
        return min(self.least[max(0, at - 1) : at + 2])


class Gaps:
    """All records of a soak, and the judgement of each gap."""

    def __init__(self, directory, events):
        self.received = records(directory / "receive", "interval") + records(directory / "receive", "summary")
        self.arrivals = passport(directory / "received")
        sent = passport(directory / "sent")
        # The first packet that the receiver has is not the first that was sent if the link lost that; both numbers rise by one.
        self.shift = self._shift(sent)
        self.sent = {number + self.shift: sent_at / 1e9 for number, (sent_at, _) in sent.items()}
        self.receiver_zero = wall_at_zero(directory / "receive")
        self.events = events
        self.slow = self._slow(directory / "link")
        self.losses = self._losses(directory / "link")
        self._usual()

    def _shift(self, sent):
        """What to add to a number of the sender's passport: the spacing of both ends' times of sending agrees there alone."""
        first = min(self.arrivals)
        here = [self.arrivals[first + n][0] for n in range(200) if self.arrivals.get(first + n, (None,))[0] is not None]
        best = None
        for start in range(50):
            there = [sent[start + n][0] for n in range(200) if self.arrivals.get(first + n, (None,))[0] is not None]
            error = max(abs((a - here[0]) - (b - there[0])) for a, b in zip(here, there))
            if best is None or error < best[0]:
                best = (error, first - start)
        return best[1]

    def _usual(self):
        self.numbers = [n for n, (_, arrived) in self.arrivals.items() if arrived is not None and n in self.sent]
        transits = [self.arrivals[n][1] / 1e9 - self.sent[n] for n in self.numbers]
        self.least_transit = Least(transits, AROUND)
        self.all_sent = sorted(self.sent)
        starts = [self.sent[n] - (n - self.all_sent[0]) * PACKET_MS / 1e3 for n in self.all_sent]
        self.least_start = Least(starts, AROUND)

    def _slow(self, path):
        """What the link tells of its slowest packet each second: when it was handed on, by the wall clock, and why it took long."""
        found = []
        for record in records(path, "interval"):
            zero = record["wall_unix_s"] - record["monotonic_s"]
            for flow in record["flows"]:
                if slowest := flow.get("slowest"):
                    handed = zero + slowest["at_s"] + (slowest["in_link_ms"] + slowest["held_up_ms"]) / 1e3
                    found.append((handed, slowest["in_link_ms"] - PROPAGATION_MS, slowest["held_up_ms"]))
        return found

    def _losses(self, path):
        times, lost = [], 0
        for record in records(path, "interval") + records(path, "summary"):
            now = sum(flow["up"]["lost"] + flow["up"]["overflowed"] for flow in record["flows"])
            if now > lost:
                times.append(record["wall_unix_s"])
                lost = now
        return times

    def all(self):
        """The gaps that the receiver told, and how many it did not tell."""
        found = {gap["number"]: gap for record in self.received for gap in record.get("gaps", [])}
        return [found[number] for number in sorted(found)], self.received[-1]["concealed"] - len(found)

    def wall(self, receiver_s):
        return self.receiver_zero + receiver_s

    def lateness(self, number):
        """By how many milliseconds a packet was sent late, and took longer than others."""
        sent = self.sent[number]
        at = bisect.bisect_left(self.all_sent, number)
        sent_late = sent - (number - self.all_sent[0]) * PACKET_MS / 1e3 - self.least_start.around(at)
        transit = self.arrivals[number][1] / 1e9 - sent
        slow = transit - self.least_transit.around(bisect.bisect_left(self.numbers, number))
        return sent_late * 1e3, slow * 1e3

    def judge(self, gap):
        """The cause of a gap, or `unexplained`, and what was found."""
        at, number = gap["at_s"], gap["packet"]
        if number is None or gap["cause"] == "resync":
            return "unexplained", "the stream was taken up again"
        if number not in self.sent:
            return "unexplained", "no such packet was sent"
        row = self.arrivals.get(number)
        if row is None or row[1] is None:
            return self._lost(number)
        came = row[1] / 1e9
        sent_late, slow = self.lateness(number)
        about = f"packet {number} came {1e3 * (came - at):.1f} ms after its sound was taken: sent {sent_late:.1f} ms late, {slow:.1f} ms longer " \
                f"on its way than others, at a playout delay of {gap['latency_ms']:.1f} ms"
        if came <= at:
            return "unexplained", about
        cause = self._on_its_way(number, slow) if slow >= sent_late else self._sent_late(number, sent_late)
        return cause, about

    def _lost(self, number):
        """The link lost it, if the link counted a loss then."""
        # When it should have come, by the packets beside it.
        after = next(n for n in self.numbers[bisect.bisect_left(self.numbers, number) :] or [self.numbers[-1]])
        due = self.wall(self.arrivals[after][1] / 1e9)
        counted = any(-ALIKE_S <= time - due + COUNTED_S / 2 and time - due <= COUNTED_S for time in self.losses)
        return ("link lost" if counted else "unexplained"), f"packet {number} never came"

    def _on_its_way(self, number, slow):
        came = self.wall(self.arrivals[number][1] / 1e9)
        left = came - slow / 1e3
        for end, length in self.events["stop"]:
            # It waited while the link stood still.
            if end - length - ALIKE_S <= came and left <= end + ALIKE_S and length * 1e3 >= SHARE * slow:
                return "link stopped"
        for handed, jitter, held_up in self.slow:
            if abs(handed - came) <= ALIKE_S:
                if jitter >= SHARE * slow:
                    return "link jitter"
                if held_up >= SHARE * slow:
                    return "link held up"
        return self._held_up(left, came, slow)

    def _sent_late(self, number, late):
        # The clock of the sender stands to that of the receiver as the transits say.
        transit = self.least_transit.around(bisect.bisect_left(self.numbers, number))
        left = self.wall(self.sent[number] + transit)
        for at, length in self.events["source"]:
            if left - late / 1e3 - ALIKE_S <= at <= left + ALIKE_S and length * 1e3 >= SHARE * late:
                return "source held up"
        return self._held_up(left - late / 1e3, left, late)

    def _held_up(self, begin, end, late):
        for at, length in self.events["machine"]:
            if begin - ALIKE_S <= at and at - length <= end + ALIKE_S and length * 1e3 >= SHARE * late:
                return "machine held up"
        return "unexplained"


def read_events(directory):
    """What the watch, the source and the waiting threads noted: the end of each, by the wall clock, and its length, in seconds."""
    events = {"stop": [], "machine": [], "source": []}
    for path in sorted(Path(directory).glob("events*")):
        for line in path.read_text().splitlines():
            kind, at, length = line.split()
            events[kind].append((float(at), float(length)))
    return {kind: sorted(found) for kind, found in events.items()}
