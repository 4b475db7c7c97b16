"""Play stories until the time is over: `python -m tests.simulation --seconds 120`."""

import argparse
import random
import sys
import time

from tests.simulation import playing


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="of the first story; default: a new one")
    options = parser.parse_args()
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    first, steps, begun = seed, 0, time.process_time()
    while (spent := time.process_time() - begun) < options.seconds:
        steps += playing.play(seed, playing.WORLDS[seed % len(playing.WORLDS)])
        seed += 1
    rate = steps / spent * 60
    sys.stdout.write(
        f"{seed - first:,} stories from seed {first}, {steps:,} steps, {rate:,.0f} a minute\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
