"""What scripts/port-to-port measures: when threads of this machine are late, when jack_iodelay says what, and both together.

    port_to_port.py watch                   a real-time thread that only sleeps; a line with time and lateness whenever it wakes up too late
    port_to_port.py stamp                   copies lines from standard input, each behind the time at which it came
    port_to_port.py tell DIRECTORY PERIOD …  reads the lines of both, prints the delays; exit code 1: the bound is not kept

A reading counts for the machine's even stretches if the thread was on time since half a second before it, which is what a reading is made of.
Times are the monotonic clock's in seconds.
"""

import json
import os
import re
import sys
import time

SLEEP = 0.00133  # a period of 64 sample frames
LATE = 0.0003
PRIORITY = 75  # above the server's and the media threads
READING = 0.5


def watch():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    while True:
        due = time.monotonic() + SLEEP
        time.sleep(SLEEP)
        now = time.monotonic()
        if now - due > LATE:
            print(f"{now:.6f} {now - due:.6f}", flush=True)


def stamp():
    for line in sys.stdin:
        print(f"{time.monotonic():.6f} {line}", end="", flush=True)


def readings(name, begin, end):
    """Times and delays in sample frames."""
    found = (re.match(r"([0-9.]+) +([0-9.]+) frames", line) for line in open(name))
    pairs = [(float(one.group(1)), float(one.group(2))) for one in found if one]
    return [(at, delay) for at, delay in pairs if begin <= at <= end]


def quantiles(delays):
    ordered = sorted(delays)
    if not ordered:
        return "no reading"
    median, p99 = ordered[len(ordered) // 2], ordered[int(0.99 * len(ordered))]
    return f"{len(ordered)} readings, median {median:.1f}, p99 {p99:.1f}, longest {ordered[-1]:.1f} sample frames"


def tell(directory, what, name, period, begin, end, xruns):
    """Prints the delays of one run; returns the 99th percentile of all and of the even stretches, None without a reading."""
    bound = 3 * period + 48
    late = [tuple(map(float, line.split())) for line in open(f"{directory}/late")]
    late = [(at, by) for at, by in late if begin - READING <= at <= end]
    all_of = readings(f"{directory}/{name}", begin, end)
    even = [delay for at, delay in all_of if not any(at - READING <= when <= at for when, _ in late)]
    edges = [begin, *(at for at, _ in late if at > begin), end]
    longest = max(zip(edges, edges[1:]), key=lambda pair: pair[1] - pair[0])
    within = [delay for at, delay in all_of if longest[0] + READING <= at <= longest[1]]
    print(f"{what}, {end - begin:.0f} s: {quantiles([delay for _, delay in all_of])}; "
          f"{sum(delay <= bound for _, delay in all_of)} within {bound}; the server had {xruns} xruns")
    worst = max((by for _, by in late), default=0)
    print(f"  a thread that only sleeps was more than {LATE * 1e3:.1f} ms late {len(late)} times, {worst * 1e3:.1f} ms at most")
    print(f"  while it was on time: {quantiles(even)}")
    print(f"  the longest such stretch, {longest[1] - longest[0]:.1f} s: {quantiles(within)}")
    return (sorted(delays)[int(0.99 * len(delays))] if delays else None for delays in ([d for _, d in all_of], even))


def counts(directory, begin):
    """Defects since the sound settled."""
    records = [json.loads(line) for line in open(f"{directory}/receive").read().splitlines()]
    last, first = records[-1], [one for one in records if one.get("record") == "interval"][:begin][-1]
    found = {name: last[name] - first[name] for name in ["concealed", "late", "lost"]}
    return found | {name: last["device"][name] - first["device"][name] for name in ["underruns", "missing_frames"]}, last


def main():
    if sys.argv[1] == "watch":
        return watch()
    if sys.argv[1] == "stamp":
        return stamp()
    directory, period = sys.argv[2], int(sys.argv[3])
    copied, own = sys.argv[4:7], sys.argv[7:10]
    tell(directory, "two programs that only copy", "copied", period, float(copied[0]), float(copied[1]), copied[2])
    p99, _ = tell(directory, "Antiphon over loopback", "delays", period, float(own[0]), float(own[1]), own[2])
    found, last = counts(directory, int(sys.argv[10]))
    print(", ".join(f"{name} {count}" for name, count in found.items()), f"; queue {last['device']['queue_ms']} ms")
    kept = p99 is not None and p99 <= 3 * period + 48 and found["concealed"] == 0 and found["underruns"] == 0
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
