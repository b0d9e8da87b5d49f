"""``python -m tests.mutation``: make small changes to policy/, extender/ and lab/, and see whether tests fail."""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path

from tests.mutation.changes import Changes, CodeChange
from tests.mutation.executed import Executed
from tests.mutation.recording import CODE, TESTS
from tests.mutation.report import FULL, GATE, NOT_EXECUTED, SURVIVED, MutationResult, reached, tables
from tests.mutation.tree import Tree, head


def drawn(tree: Path, seed: int) -> Iterator[CodeChange]:
    """Yield random changes of the code, none twice. First a file is drawn (weighted by its lines), then an operator
    that applies to it, then a place in the file.
    """
    chance = random.Random(seed)
    files = sorted(str(path.relative_to(tree)) for part in CODE for path in (tree / part).rglob("*.py"))
    lines = [(tree / file).read_text().count("\n") for file in files]
    changes = cache(lambda file: Changes(tree, file))
    seen = set[tuple[str, str]]()
    while True:
        change = changes(chance.choices(files, lines)[0]).draw(chance)
        if change and (change.file, change.source) not in seen:
            seen.add((change.file, change.source))
            yield change


def judged(tree: Tree, executed: Executed, change: CodeChange) -> tuple[str, str, int]:
    """Return which command catches the change, which test fails, and how many tests execute the changed line.

    The command is `make test` or `make full`; texts in its place say that no test failed, or that no test executes the
    line.
    """
    tests = executed.tests(change)
    if not tests:
        return NOT_EXECUTED, "", 0
    unsound = set[str]()
    while left := {name: told for name, told in tests.items() if name not in unsound}:
        with tree.changed(change):
            found = tree.play(left)
        if not found:
            break
        # If the test fails on the unchanged code, too, its failure proves nothing.
        again = found if found in left else min(left, key=lambda name: left[name]["seconds"])
        if not tree.play({again: left[again]}):
            by_gate = not left[found]["full"] if found in left else any(not told["full"] for told in left.values())
            return GATE if by_gate else FULL, found, len(tests)
        unsound.add(again)
    return SURVIVED, "", len(tests)


def main() -> int:
    """Try the changes that are not in the state file yet, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="what is drawn at random follows from it")
    parser.add_argument("--changes", type=int, default=60, help="so many that a test executes (default: 60)")
    parser.add_argument("--state", type=Path, required=True, help="file of what is done; a stopped run goes on from it")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # With this, SIGTERM ends the running tests, too.
    commit = head()
    folder = (args.state.parent / f"mutation-{commit[:12]}").resolve()
    tree = Tree(folder)
    tree.copy()
    print(f"seed {args.seed}, commit {commit}; what is not committed is not played", flush=True)
    if not (folder / TESTS).exists():
        print(f"running the units once, to see which lines each test executes: {folder / 'record.log'}", flush=True)
        tree.record(folder / "record.log")
    executed = Executed(folder, tree.path)
    print(f"{executed.count} tests; not used, since they fail on the unchanged code: {executed.failed}", flush=True)
    lines = args.state.read_text().splitlines() if args.state.exists() else []
    known = [
        one
        for one in (MutationResult(**json.loads(line)) for line in lines)
        if (one.head, one.seed) == (commit, args.seed)
    ]
    done = {one.number: one for one in known}
    results = list[MutationResult]()
    for number, change in enumerate(drawn(tree.path, args.seed), 1):
        if sum(one.caught != NOT_EXECUTED for one in results) == args.changes:
            break
        if number not in done:
            caught, test, tests = judged(tree, executed, change)
            found = MutationResult(
                commit, args.seed, number, change.file, change.line, change.operator, change.diff, caught, test, tests
            )
            with args.state.open("a") as out:
                out.write(json.dumps(asdict(found)) + "\n")
            done[number] = found
        results.append(done[number])
        print(f"{number}: {done[number].said}", flush=True)
    print(tables(results))
    return 0 if reached(results) else 1


if __name__ == "__main__":
    sys.exit(main())
