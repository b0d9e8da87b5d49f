"""``python -m tests.simulation --seeds N --first-seed K``: run seeds, print a line for each, and a summary.

With ``--keep NAME``, the one seed that fails is written to a scenario file that stays (tests/simulation/kept.py).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.simulation.keeping import NotKeptError, keep
from tests.simulation.many import remembered, resizes, resumed, shortfall, shown, table
from tests.simulation.run import SeedReport
from tests.simulation.scenario import POLICIES


def main() -> int:
    """Run the seeds that the command line asks for; return 1 if one of them fails."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds")
    parser.add_argument("--first-seed", type=int, default=1, help="the first of them")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0: one per core")
    parser.add_argument("--mutant", default="", help="a seeded defect of tests.simulation.mutants")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--quiet", action="store_true", help="only failures and the summary")
    parser.add_argument("--step", type=int, default=1, help="every so many seeds; 6: of one policy")
    parser.add_argument("--state", type=Path, help="file for the runs that are done: the next call goes on from there")
    parser.add_argument("--keep", metavar="NAME", help="write the seed down as tests/simulation/scenarios/NAME.json")
    given = parser.parse_args()
    if given.keep:
        if given.seeds != 1:
            parser.error(f"--keep writes one seed down, and --seeds is {given.seeds}: give --seeds 1")
        return _keep(given.first_seed, given.keep, given.mutant)
    began, faults, reports = time.monotonic(), Counter[str](), list[SeedReport]()
    seeds = range(given.first_seed, given.first_seed + given.seeds * given.step, given.step)
    known = {report.seed for report in remembered(given.state)} if given.state else set()
    for report in resumed(seeds, given.state, given.jobs, given.mutant):
        reports.append(report)
        faults.update(report.faults)
        if report.seed in known:
            continue
        if given.quiet and len(reports) % 100 == 0:
            print(f"{len(reports)} of {len(seeds)} seeds", flush=True)
        if report.failure or not given.quiet:
            print(report.line, flush=True)
        if report.failure:
            print("\n".join(report.run_log))
            print(f"replay: {report.replay(given.mutant)}", flush=True)
            if not given.keep_going:
                break
    seconds = time.monotonic() - began
    failed = [report.seed for report in reports if report.failure]
    rate = sum(report.seed not in known for report in reports) / seconds
    print(f"{len(reports)} seeds in {seconds:.0f} s, {rate:.2f} a second; failed: {failed or 'none'}")
    print(f"steps {sum(r.steps for r in reports)}, gangs bound {sum(r.gangs for r in reports)}, "
          f"rebuilt and compared {sum(r.compared for r in reports)}")  # fmt: skip
    often = sum(1 for count in faults.values() if count >= 100)
    print(f"faults {sum(faults.values())} of {len(faults)} kinds, {often} of them 100 times or more")
    print(shown(table(reports)))
    print(resizes(reports))
    for policy in POLICIES:
        did = sum((report.did for report in reports if report.policy == policy), Counter[str]())
        print(f"{policy}: " + ", ".join(f"{what} {count}" for what, count in sorted(did.items())))
    if missing := shortfall(reports):
        print(f"too little was done: {missing}")
    return 1 if failed or missing else 0


def _keep(seed: int, name: str, mutant: str) -> int:
    try:
        keep(seed, name, mutant)
    except NotKeptError as error:
        print(f"seed {seed} is not kept: {error}", file=sys.stderr)
        return 1
    print(f"kept as {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
