#!/usr/bin/env python3
"""What pycachesim counts on random traces: the answers that pycachesim.rs compares with.

    pip install pycachesim==0.3.1
    python3 pycachesim.py > pycachesim.txt

One level, least recently used replaced first, written back, allocated on writes. A line of the
output is KIB WAYS BLOCK_BYTES SEED PAGES and then, after every so many references, MISSES/UPDATES
up to there: blocks that were fetched, and dirty blocks that were written to memory. The traces are
made here and in pycachesim.rs, by the same few lines.
"""

from cachesim import Cache, CacheSimulator, MainMemory

REFERENCES = 60_000
CHECKPOINT = 5_000
PAGE_BYTES = 4096
GEOMETRIES = [
    (1, 1, 32), (2, 2, 32), (4, 1, 64), (8, 4, 32), (8, 8, 64), (16, 2, 128), (16, 16, 256),
    (28, 7, 64), (32, 8, 64), (40, 5, 128), (48, 3, 256), (48, 12, 64), (64, 1, 256), (64, 4, 64),
    (64, 16, 32), (128, 4, 128), (256, 2, 128), (512, 16, 128), (1024, 4, 256), (2048, 2, 256),
]
MASK = (1 << 64) - 1


class Generator:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, bound):
        return (self.next() * bound) >> 64


def trace(seed, pages):
    """Physical addresses, bytes, and whether they are written. Nothing straddles 16 bytes."""
    generator = Generator(seed)
    end = (pages + 1) * PAGE_BYTES
    address = PAGE_BYTES
    for _ in range(REFERENCES):
        what = generator.below(8)
        if what == 0:  # anywhere
            address = PAGE_BYTES + generator.below(pages * PAGE_BYTES)
        elif what == 1:  # where it often is
            address = PAGE_BYTES + generator.below(pages * PAGE_BYTES // 8)
        else:  # near
            address = min(address + generator.below(200), end - 1)
        length = 1 << generator.below(5)
        yield address // length * length, length, generator.below(10) < 3


def counted(kib, ways, block_bytes, seed, pages):
    memory = MainMemory()
    sets = kib * 1024 // block_bytes // ways
    cache = Cache("L1", sets, ways, block_bytes, "LRU", write_back=True, write_allocate=True)
    memory.load_to(cache)
    memory.store_from(cache)
    simulator = CacheSimulator(cache, memory)
    for number, (address, length, write) in enumerate(trace(seed, pages), 1):
        # A store by itself leaves the order of use as it was: the load makes it a use.
        simulator.load(address, length)
        if write:
            simulator.store(address, length)
        if number % CHECKPOINT == 0:
            stats = cache.stats()
            yield f"{stats['MISS_count']}/{stats['EVICT_count']}"


def main():
    print("# by pycachesim.py: KIB WAYS BLOCK_BYTES SEED PAGES MISSES/UPDATES...")
    for seed, (kib, ways, block_bytes) in enumerate(GEOMETRIES, 1):
        pages = max(2, kib * 1024 * 2 // PAGE_BYTES) + 1
        shape = (kib, ways, block_bytes, seed, pages)
        print(*shape, *counted(*shape))


main()
