"""Prints what places.c has counted in two periods as the table of docs/studies/foglia-2001.md.

Usage: tables.py FOLDER CONSOLE. The console says at which address system calls enter the kernel.
Copyright (C) 2026 the Ropewalk developers; GPL-2.0-or-later, see LICENSE.
"""

import math
import re
import sys

# Caches of 8, 32 and 128 KiB among those that double from 8 KiB on.
SHOWN = (0, 2, 4)

# As many structures as 512 pages of the simulated kernel have, less what they share pages with.
MOST_POPULAR = 8192


class Period:
    """What was counted in one period."""

    def __init__(self, path):
        self.lines = {}
        self.places = {"code": [], "data": []}
        self.entries = {}
        for line in open(path):
            name, *numbers = line.split()
            if name in self.places:
                self.places[name].append(int(numbers[0]))
            elif name == "entry":
                self.entries[int(numbers[0], 16)] = [int(number) for number in numbers[1:]]
            else:
                self.lines[name] = [int(number) for number in numbers]
        for counts in self.places.values():
            counts.sort(reverse=True)

    def misses(self, kind, of):
        misses = self.lines["cache_" + kind][1:]
        return ", ".join("%.1f" % (100 * misses[i] / of) for i in SHOWN)


def have(counts, share):
    """How many of the most popular places have that share of all."""
    wanted, had = share * sum(counts), 0
    for number, count in enumerate(counts, 1):
        had += count
        if had >= wanted:
            return number
    return len(counts)


def exponent(counts):
    """Of the Zipf distribution over so many places under which the counts are most likely."""
    logs = [math.log(rank) for rank in range(1, len(counts) + 1)]
    mean = sum(count * log for count, log in zip(counts, logs)) / sum(counts)

    def likelihood(k):
        return -k * mean - math.log(sum(math.exp(-k * log) for log in logs))

    low, high = 0.0, 4.0  # it is concave
    while high - low > 0.005:
        third = (high - low) / 3
        if likelihood(low + third) < likelihood(high - third):
            low += third
        else:
            high -= third
    return (low + high) / 2


def visits(counts):
    number, references, words, lines, writes, writing, begin = counts
    return "%.1f, %.0f %% writes; %.1f, %.1f; %.0f, %.0f" % (
        references / number, 100 * writes / references, words / number, lines / number,
        100 * writing / number, 100 * begin / number)


def rows(period, system_calls_at):
    user, kernel = period.lines["instructions"]
    code, data = period.places["code"], period.places["data"]
    looks = period.lines["cache_data"][0]
    calls, instructions = period.entries[system_calls_at]
    top = lambda count: "%.1f %%" % (100 * sum(data[:count]) / sum(data))
    yield "Instructions of the kernel, million; of all", "%.0f; %.0f %%" % (
        kernel / 1e6, 100 * kernel / (user + kernel))
    yield "Code: places of 32 bytes that were used", "{:,}".format(len(code))
    yield "places that have 99 % of it", "{:,}".format(have(code, 0.99))
    yield "instructions in a row", "%.1f" % (kernel / period.lines["runs"][0])
    yield "misses for 100 instructions, 8K, 32K, 128K", period.misses("code", kernel)
    yield "Data but stacks: places of 192 bytes that several tasks used", "{:,}".format(len(data))
    yield "places that have 90 % of it", "{:,}".format(have(data, 0.9))
    yield "Zipf's exponent, most likely; of the {:,} most popular".format(MOST_POPULAR), (
        "%.2f; %.2f" % (exponent(data), exponent(data[:MOST_POPULAR])))
    yield "the most popular one; the ten most popular", "%s; %s" % (top(1), top(10))
    yield "misses for 100 references, 8K, 32K, 128K", period.misses("data", looks)
    for name, counts in period.lines.items():
        if name.startswith("visits_"):
            yield ("Visits, %s at a time: references; words, lines; of 100: writing, beginning so"
                   % name.removeprefix("visits_")), visits(counts)
    yield "System calls; instructions of the kernel for each", "{:,}; {:,.0f}".format(
        calls, instructions / calls)


def main(folder, console):
    symbol = re.search(r"([0-9a-f]{16}) T entry_SYSCALL_64", open(console, errors="replace").read())
    if not symbol:
        sys.exit("tables.py: %s does not say where entry_SYSCALL_64 is" % console)
    periods = [Period("%s/%d" % (folder, number)) for number in (1, 2)]
    columns = [list(rows(period, int(symbol.group(1), 16))) for period in periods]
    print("| | utilities, start | requests, queries |\n|---|---|---|")
    for (name, first), (_, second) in zip(*columns):
        print("| %s | %s | %s |" % (name, first, second))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
