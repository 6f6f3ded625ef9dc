"""What scripts/soak needs beside the program: a live source whose clock drifts, a watch, and a judge.

source DIR SECONDS      writes sound at its pace, 48 kHz, two channels, s16le, and notes when it was late
watch DIR SECONDS PID…  samples memory, stops the first process (the link) for a moment now and then, and notes how late a thread that
                        only waits is woken on each processor
judge DIR SECONDS       says what became of the stream; exit code 1 if something is unexplained
"""

import array
import math
import os
import random
import signal
import sys
import time
from multiprocessing import Process
from pathlib import Path

from soak_gaps import Gaps, read_events, records

RATE = 48_000
# The source's clock differs from the system's by 100 ppm x cos(2 pi t / PERIOD).
PPM = 100.0
PERIOD = 600.0
# Of the oscillator of a sound card; what is written at a time, in sample frames.
PERIOD_FRAMES = 240
# After a stop or a loss the delay is what it was before, in seconds.
RECOVERY = 30.0
# By so much the delay may exceed what the stream needs by its own figures: a wait for a packet that is lost or late.
OVER_MS = 20.0
# A wake-up that comes by so much too late is noted, in seconds: less than any playout delay.
NOTED = 0.003
# So often a thread that only waits is to be woken, and the source, in seconds.
TURN = 0.002
# RSS may grow by so much after the beginning: pages of buffers that are first used later.
FLAT_KB = 1024
# The queue of a passport has room for 65536 events: for so long, in seconds, each packet touches memory that none has used before.
QUEUE_S = 65536 * 256 / RATE


def real_time():
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except OSError:
        pass


def frames_by(seconds):
    """Sample frames that a drifting clock has given after that time."""
    ahead = PPM * 1e-6 * PERIOD / (2 * math.pi) * math.sin(2 * math.pi * seconds / PERIOD)
    return RATE * (seconds + ahead)


def source(directory, seconds):
    real_time()
    # A second of two notes, so that there is something to stretch and nothing clicks from one second to the next.
    left = [int(6000 * math.sin(2 * math.pi * 220 * n / RATE)) for n in range(RATE)]
    right = [int(6000 * math.sin(2 * math.pi * 330 * n / RATE)) for n in range(RATE)]
    second = array.array("h", [sample for pair in zip(left, right) for sample in pair])
    second.extend(second[: 2 * PERIOD_FRAMES])
    written, began = 0, time.monotonic()
    with open(directory / "events-source", "w") as events:
        waking = time.monotonic()
        while (now := time.monotonic() - began) < seconds:
            note("source", waking, events)
            while written + PERIOD_FRAMES <= frames_by(now):
                at = 2 * (written % RATE)
                sys.stdout.buffer.write(second[at : at + 2 * PERIOD_FRAMES].tobytes())
                written += PERIOD_FRAMES
            sys.stdout.buffer.flush()
            # A sender that does not read holds up the writing, which is not the source's lateness.
            waking = time.monotonic() + TURN
            time.sleep(TURN)


def note(kind, due, events):
    """Notes a wake-up that came too late: when it came, and by how much."""
    late = time.monotonic() - due
    if late > NOTED:
        print(kind, time.time(), late, file=events, flush=True)


def wait_on(processor, directory, seconds):
    """Only waits, on one processor, and notes how late it is woken."""
    os.sched_setaffinity(0, [processor])
    end = time.monotonic() + seconds
    with open(directory / f"events-{processor}", "w") as events:
        while (now := time.monotonic()) < end:
            time.sleep(TURN)
            note("machine", now + TURN, events)


def resident(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ProcessLookupError(pid)


def watch(directory, seconds, pids):
    rng = random.Random(1)
    for processor in os.sched_getaffinity(0):
        Process(target=wait_on, args=(processor, directory, seconds), daemon=True).start()
    began = time.monotonic()
    next_sample, next_stop = began, began + 20
    with open(directory / "events", "w") as events, open(directory / "memory", "w") as memory:
        while (now := time.monotonic()) - began < seconds:
            if now >= next_sample:
                next_sample += 10
                print(now - began, *map(resident, pids), file=memory, flush=True)
            if now >= next_stop and seconds - (now - began) > 5:
                # The link stands still: what comes meanwhile waits in its socket and goes on at once afterwards.
                length = rng.uniform(0.03, 0.15)
                next_stop += rng.uniform(40, 80)
                stopped = time.time()
                os.kill(pids[0], signal.SIGSTOP)
                time.sleep(length)
                os.kill(pids[0], signal.SIGCONT)
                print("stop", time.time(), time.time() - stopped, file=events, flush=True)
            time.sleep(0.01)


def link_lost(directory):
    """How many packets the link lost."""
    flows = records(directory / "link", "summary")[-1]["flows"]
    return sum(flow["up"]["lost"] + flow["up"]["overflowed"] for flow in flows)


def judge(directory, seconds):
    events = read_events(directory)
    gaps = Gaps(directory, events)
    lost = link_lost(directory)
    received = gaps.received
    told, untold = gaps.all()
    causes, unexplained = {}, []
    for gap in told:
        cause, about = gaps.judge(gap)
        causes[cause] = causes.get(cause, 0) + 1
        print(f"gap at {gap['at_s']:.3f} s, {gap['cause']}: {cause}: {about}")
        if cause == "unexplained":
            unexplained.append(round(gap["at_s"], 1))
    if untold:
        causes["not told"] = untold
    # What may make the delay longer for a while, whether it makes a gap or not.
    disturbed = [at for at, _ in events["stop"]] + gaps.losses + [at for found in ("machine", "source") for at, length in events[found]
                                                             if length > OVER_MS / 1e3]
    excess, usual = [], 0
    for record in received:
        at = record["wall_unix_s"]
        calm = not any(-1.5 <= at - event <= RECOVERY for event in disturbed)
        if calm and at - received[0]["wall_unix_s"] > RECOVERY and record["record"] == "interval":
            usual += 1
            if record["latency_ms"] > record["adapted"]["target_ms"] + OVER_MS:
                excess.append(record["latency_ms"])
    summary = received[-1]
    rows = [[float(word) for word in line.split()] for line in (directory / "memory").read_text().splitlines()]
    settled = [row for row in rows if row[0] >= max(seconds / 10, QUEUE_S + 10)]
    growth = {
        name: max((row[at] for row in settled), default=0) - (settled[0][at] if settled else 0)
        for at, name in enumerate(["link", "send", "receive"], start=1)
    }
    drifts = [record["drift_ppm"] for record in received if record["drift_ppm"] is not None]
    print(f"{summary['played_s']:.0f} s played of {seconds}; {summary['packets_received']} packets received")
    print(f"link lost {lost} packets and was stopped {len(events['stop'])} times; a thread that only waits was woken late by "
          f"{1e3 * NOTED:.0f} ms or more {len(events['machine'])} times, by {longest(events['machine']):.0f} ms at most; "
          f"the source {len(events['source'])} times, by {longest(events['source']):.0f} ms at most")
    print(f"receiver: lost {summary['lost']}, late {summary['late']}, {summary['concealed']} gaps concealed")
    print("gaps by cause: " + ", ".join(f"{name} {count}" for name, count in sorted(causes.items())))
    print(f"drift from {min(drifts):.0f} to {max(drifts):.0f} ppm, the source's clock from {-PPM:.0f} to {PPM:.0f} ppm")
    adapted = summary["adapted"]
    print(
        f"playout delay {adapted['mean_ms']:.1f} ms in the mean; in {len(excess)} of {usual} calm seconds more than {OVER_MS:.0f} ms above "
        "what the stream needed"
    )
    since = f"since {settled[0][0]:.0f} s" if settled else "not judged: the run is too short"
    print(f"resident memory at the end, and growth {since}, in kB: " + ", ".join(
        f"{name} {rows[-1][at]:.0f} +{growth[name]:.0f}" for at, name in enumerate(growth, start=1)
    ))
    faults = []
    if unexplained:
        faults.append(f"{len(unexplained)} gaps unexplained, at seconds: {unexplained[:20]}")
    if untold:
        faults.append(f"{untold} gaps of which the receiver told nothing")
    if summary["lost"] > lost + summary["late"]:
        faults.append(f"{summary['lost']} packets lost, of which the link knows {lost}")
    if len(excess) > usual / 100:
        faults.append(f"the delay did not come back: up to {max(excess):.0f} ms")
    if max(growth.values()) > FLAT_KB:
        faults.append("memory grows")
    if summary["played_s"] < seconds - 5:
        faults.append("sound is missing")
    if seconds > 2 * PERIOD and (max(drifts) < PPM / 2 or min(drifts) > -PPM / 2):
        faults.append("the drift was not followed")
    for fault in faults:
        print("fault:", fault)
    print("failed" if faults else "passed")
    return 1 if faults else 0


def longest(events):
    """The longest, in milliseconds."""
    return 1e3 * max((length for _, length in events), default=0.0)


def main():
    match sys.argv[1:]:
        case ["source", directory, seconds]:
            source(Path(directory), int(seconds))
        case ["watch", directory, seconds, *pids]:
            watch(Path(directory), int(seconds), [int(pid) for pid in pids])
        case ["judge", directory, seconds]:
            sys.exit(judge(Path(directory), int(seconds)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
