"""What scripts/soak needs beside the program: a live source whose clock drifts, a watch, and a judge.

source SECONDS          writes sound at its pace, 48 kHz, two channels, s16le
watch DIR SECONDS PID…  samples memory, stops the first process (the link) for a moment now and then, and notes when the machine
                        was held up by other work
judge DIR SECONDS       says what became of the stream; exit code 1 if something is unexplained
"""

import array
import json
import math
import os
import random
import signal
import sys
import time
from pathlib import Path

RATE = 48_000
# The source's clock differs from the system's by 100 ppm x cos(2 pi t / PERIOD).
PPM = 100.0
PERIOD = 600.0
# Of the oscillator of a sound card; what is written at a time, in sample frames.
PERIOD_FRAMES = 240
# Defects show so long after what caused them, in seconds: the delay, the report of each second, and what the delay needs to rise.
LATER = 4.0
# After a stop or a loss the delay is what it was before, in seconds.
RECOVERY = 30.0
# By so much the delay may exceed what the stream needs by its own figures: a wait for a packet that is lost or late.
OVER_MS = 20.0
# A wake-up of an ordinary thread that comes so much late says that the machine was held up, in seconds: sound is stretched by up to 40 ms
# for what is late. The threads that read the source's pipe and count the sink's time are such threads.
STALL = 0.04
# So many packets fewer than usual in a second, 21 ms of sound, say that the sender or its source was held up: they came to the link late.
HELD_UP_PACKETS = 4
# The link's jitter is exponential with this mean, in milliseconds (scripts/soak): now and then a packet is later than any delay.
JITTER_MS = 1.0
# RSS may grow by so much after the first tenth: pages of buffers that are first used later.
FLAT_KB = 1024


def real_time():
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except OSError:
        pass


def frames_by(seconds):
    """Sample frames that a drifting clock has given after that time."""
    ahead = PPM * 1e-6 * PERIOD / (2 * math.pi) * math.sin(2 * math.pi * seconds / PERIOD)
    return RATE * (seconds + ahead)


def source(seconds):
    real_time()
    # A second of two notes, so that there is something to stretch and nothing clicks from one second to the next.
    left = [int(6000 * math.sin(2 * math.pi * 220 * n / RATE)) for n in range(RATE)]
    right = [int(6000 * math.sin(2 * math.pi * 330 * n / RATE)) for n in range(RATE)]
    second = array.array("h", [sample for pair in zip(left, right) for sample in pair])
    second.extend(second[: 2 * PERIOD_FRAMES])
    written, began = 0, time.monotonic()
    while (now := time.monotonic() - began) < seconds:
        while written + PERIOD_FRAMES <= frames_by(now):
            at = 2 * (written % RATE)
            sys.stdout.buffer.write(second[at : at + 2 * PERIOD_FRAMES].tobytes())
            written += PERIOD_FRAMES
        sys.stdout.buffer.flush()
        time.sleep(0.002)


def resident(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ProcessLookupError(pid)


def watch(directory, seconds, pids):
    rng = random.Random(1)
    began = last = time.monotonic()
    next_sample, next_stop = began, began + 20
    with open(directory / "events", "w") as events, open(directory / "memory", "w") as memory:
        while (now := time.monotonic()) - began < seconds:
            if now - last > 0.01 + STALL:
                print("machine", time.time(), now - last, file=events, flush=True)
            last = now
            if now >= next_sample:
                next_sample += 10
                print(now - began, *map(resident, pids), file=memory, flush=True)
            if now >= next_stop and seconds - (now - began) > 5:
                # The link stands still: what comes meanwhile waits in its socket and goes on at once afterwards.
                length = rng.uniform(0.03, 0.15)
                next_stop += rng.uniform(40, 80)
                os.kill(pids[0], signal.SIGSTOP)
                time.sleep(length)
                os.kill(pids[0], signal.SIGCONT)
                print("stop", time.time(), length, file=events, flush=True)
                last = time.monotonic()
            time.sleep(0.01)


def records(path, kind):
    found = (json.loads(line) for line in path.read_text().splitlines())
    return [record for record in found if record["record"] == kind]


def link_losses(directory):
    """When the link lost packets, and how many in all."""
    times, lost = [], 0
    for record in records(directory / "link", "interval") + records(directory / "link", "summary"):
        up = [flow["up"] for flow in record["flows"]]
        now = sum(way["lost"] + way["overflowed"] for way in up)
        if now > lost:
            times.append(record["wall_unix_s"])
            lost = now
    return times, lost


def late_at_link(directory):
    """When fewer packets than usual had come to the link."""
    rows = [
        (record["wall_unix_s"], record["monotonic_s"], sum(flow["up"]["offered"] for flow in record["flows"]))
        for record in records(directory / "link", "interval")
    ]
    seconds = [(at, after - before, new - old) for (_, before, old), (at, after, new) in zip(rows, rows[1:])]
    rates = sorted(packets / time for _, time, packets in seconds if time > 0)
    usual = rates[len(rates) // 2]
    return [at for at, time, packets in seconds if packets < usual * time - HELD_UP_PACKETS]


def beyond_jitter(received):
    """How many packets the link's jitter alone brings too late, on average, given how much sound waited."""
    counts = [
        (record["packets_received"] - before["packets_received"]) * math.exp(-before["buffer_ms"] / JITTER_MS)
        for before, record in zip(received, received[1:])
    ]
    return sum(min(1.0, max(0.0, count)) for count in counts)


def judge(directory, seconds):
    lines = [line.split() for line in (directory / "events").read_text().splitlines()]
    stops = [float(at) for kind, at, _ in lines if kind == "stop"]
    stalls = [float(at) for kind, at, _ in lines if kind == "machine"]
    losses, link_lost = link_losses(directory)
    received = records(directory / "receive", "interval") + records(directory / "receive", "summary")

    def near(times, at, before):
        return any(-1.5 <= at - event <= before for event in times)

    held_up = late_at_link(directory)
    causes = {"link lost": 0, "link stopped": 0, "machine held up": 0, "sender held up": 0, "unexplained": 0}
    unexplained, excess, usual = [], [], 0
    before = {"concealed": 0, "late": 0}
    for record in received:
        at = record["wall_unix_s"]
        new = sum(max(0, record[name] - before[name]) for name in before)
        before = {name: record[name] for name in before}
        if new:
            cause = (
                "link stopped" if near(stops, at, LATER)
                else "link lost" if near(losses, at, LATER)
                else "machine held up" if near(stalls, at, LATER)
                else "sender held up" if near(held_up, at, LATER)
                else "unexplained"
            )
            causes[cause] += new
            if cause == "unexplained":
                unexplained.append((round(at - received[0]["wall_unix_s"], 1), new))
        calm = not near(stops + losses + stalls + held_up, at, RECOVERY)
        if calm and at - received[0]["wall_unix_s"] > RECOVERY and record["record"] == "interval":
            usual += 1
            if record["latency_ms"] > record["adapted"]["target_ms"] + OVER_MS:
                excess.append(record["latency_ms"])
    summary = received[-1]
    rows = [[float(word) for word in line.split()] for line in (directory / "memory").read_text().splitlines()]
    settled = [row for row in rows if row[0] >= seconds / 10]
    growth = {
        name: max(row[at] for row in settled) - settled[0][at]
        for at, name in enumerate(["link", "send", "receive"], start=1)
    }
    drifts = [record["drift_ppm"] for record in received if record["drift_ppm"] is not None]
    print(f"{summary['played_s']:.0f} s played of {seconds}; {summary['packets_received']} packets received")
    print(f"link lost {link_lost} packets and was stopped {len(stops)} times; the machine was held up {len(stalls)} times, "
          f"the sender or its source in {len(held_up)} seconds")
    print(f"receiver: lost {summary['lost']}, late {summary['late']}, {summary['concealed']} gaps concealed")
    print("gaps and late packets by cause: " + ", ".join(f"{name} {count}" for name, count in causes.items()))
    print(f"drift from {min(drifts):.0f} to {max(drifts):.0f} ppm, the source's clock from {-PPM:.0f} to {PPM:.0f} ppm")
    adapted = summary["adapted"]
    print(
        f"playout delay {adapted['mean_ms']:.1f} ms in the mean; in {len(excess)} of {usual} calm seconds more than {OVER_MS:.0f} ms above "
        "what the stream needed"
    )
    print("resident memory at the end, and growth since a tenth of the time, in kB: " + ", ".join(
        f"{name} {rows[-1][at]:.0f} +{growth[name]:.0f}" for at, name in enumerate(growth, start=1)
    ))
    print(f"the link's jitter alone brings {beyond_jitter(received):.1f} packets too late on average, of which nothing tells when")
    faults = []
    if unexplained:
        faults.append(f"unexplained, at seconds: {unexplained[:20]}")
    if summary["lost"] > link_lost + summary["late"]:
        faults.append(f"{summary['lost']} packets lost, of which the link knows {link_lost}")
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


def main():
    match sys.argv[1:]:
        case ["source", seconds]:
            source(int(seconds))
        case ["watch", directory, seconds, *pids]:
            watch(Path(directory), int(seconds), [int(pid) for pid in pids])
        case ["judge", directory, seconds]:
            sys.exit(judge(Path(directory), int(seconds)))
        case _:
            sys.exit(__doc__)


main()
