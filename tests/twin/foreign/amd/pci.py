#!/usr/bin/env python3
"""tinygrad's own driver of AMD's GPUs without a kernel driver (AM) on a card of the twin: from power on, warm, and
after a process that was killed in the middle of its work; each time with operations whose results numpy knows.

usage: pci.py SERVER CHIP [OPERATIONS]     SERVER is the example `pci_remote` of twin-amd

It reaches the card by its own protocol for devices of other machines. One thing is ours: firmware comes from the
folder FIRMWARE (`scripts/fetch firmware`), where tinygrad would fetch releases that it names by their sums. It does not
flush the HDP before commands to the PSP, as the vendor's driver does: the card drains it by itself in time.
"""
import os
import signal
import subprocess
import sys

# What tinygrad does that the vendor's driver does not, by rule, and why it is let pass.
KNOWN = {
    "AMD-IH-POINTER": "read pointers of the interrupt ring are written in dwords, not in bytes",
    "AMD-PCI-REGISTER": "the copy of an MQD into registers also writes two dwords between them that have no name",
}

# What is so where a client was killed while its queue ran: its memory is gone before the next client resets the card.
KILLED = {
    "AMD-HUB-STALE-TLB": "the queue of a client that was killed reads pages that are gone",
    "PCI-MASTER": "the next client takes the right to access memory from the card while that queue still runs",
}


def work(count, dies):
    """One client: opens the card and runs operations; or is killed while one of them runs."""
    from tinygrad.runtime.support.am import amdev

    def firmware(folder, name, _sum):
        with open(os.path.join(os.environ["FIRMWARE"], folder, name), "rb") as file:
            return file.read()
    amdev.fetch_fw = firmware

    import numpy as np
    from operations import OPERATIONS
    from tinygrad import Tensor
    wrong = 0
    for number, (name, (inputs, ours, numpy)) in enumerate(list(OPERATIONS.items())[:count]):
        result = ours(*(Tensor(x) for x in inputs))
        if dies and number == count // 2:
            result.realize()
            os.kill(os.getpid(), signal.SIGKILL)
        got = result.numpy()
        want = np.asarray(numpy(*inputs))
        if not np.allclose(got, want, rtol=2e-3, atol=2e-4, equal_nan=True):
            print(f"{name}: differs")
            wrong += 1
    print(f"{count - wrong} of {count} operations")
    sys.exit(wrong != 0)


def clients(server, chip, count, runs, known):
    """Clients of one card, one after the other: whether all went as they should."""
    card = subprocess.Popen([server, f"chip={chip},looks=0,drain=soon"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)
    port = card.stdout.readline().split()[1]
    failed = False
    env = dict(os.environ, REMOTE=f"127.0.0.1:{port}", DEV="PCI+AMD:LLVM")
    for how in runs:
        dies = how == "killed"
        words = [sys.executable, __file__, "--die" if dies else "--work", str(count)]
        run = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        if dies and run.returncode == -signal.SIGKILL:
            continue
        last = (run.stdout.strip().splitlines() or [""])[-1]
        print(f"{chip}, {how}: {last}")
        if dies or run.returncode:
            print(run.stdout[-4000:], run.stderr[-4000:], sep="\n", file=sys.stderr)
            failed = True
            break
    report, _ = card.communicate()
    rules = {}
    for line in report.splitlines():
        rule, what = line.split(": ", 1)
        rules.setdefault(rule, []).append(what)
    for rule, seen in rules.items():
        if rule in known:
            print(f"{rule}, {len(seen)} times: known: {known[rule]}")
        else:
            print(f"{rule}, {len(seen)} times, first: {seen[0]}")
            failed = True
    return not failed


def main(server, chip, count):
    went = clients(server, chip, count, ["cold", "warm"], KNOWN)
    went &= clients(server, chip, count, ["killed", "after one that was killed"], KNOWN | KILLED)
    sys.exit(not went)


if __name__ == "__main__":
    if sys.argv[1] in ["--work", "--die"]:
        work(int(sys.argv[2]), sys.argv[1] == "--die")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 100)
