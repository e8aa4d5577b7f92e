#!/usr/bin/env python3
"""tinygrad's own driver of AMD's GPUs behind a USB3 bridge, on a bridge and a card of the twin: from power on, warm,
and after the cable has been out; each time with operations whose results numpy knows.

usage: usb.py SERVER LIBRARY CHIP [OPERATIONS]     SERVER is the example `usb_remote` of twin-amd, LIBRARY the
                                                   stand-in for libusb (twin-libusb)

All that it is told is where its libusb lies (LIBUSB_PATH). Firmware comes as in `pci.py`.
"""
import os
import subprocess
import sys

from pci import KNOWN, work

# Beside what it does over PCI, too.
KNOWN = KNOWN | {
    "AMD-HUB-RANGE": "the bridge's buffer is mapped, and the TLB told so, before the hub has its ranges",
}


def main(server, library, chip, count):
    bridge = subprocess.Popen([server, f"chip={chip},looks=0,drain=soon"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    port = bridge.stdout.readline().split()[1]
    failed = False
    env = dict(os.environ, DOORBELL_USB=f"127.0.0.1:{port}", LIBUSB_PATH=library, DEV="USB+AMD:LLVM")
    for how in ["cold", "warm", "plugged in again"]:
        if how == "plugged in again":
            print("unplug\nplug", file=bridge.stdin, flush=True)
        run = subprocess.run([sys.executable, __file__, "--work", str(count)], env=env, capture_output=True, text=True,
                             check=False)
        last = (run.stdout.strip().splitlines() or [""])[-1]
        print(f"{chip}, {how}: {last}")
        if run.returncode:
            print(run.stdout[-4000:], run.stderr[-4000:], sep="\n", file=sys.stderr)
            failed = True
            break
    report, _ = bridge.communicate()
    rules = {}
    for line in report.splitlines():
        rule, what = line.split(": ", 1)
        rules.setdefault(rule, []).append(what)
    for rule, seen in rules.items():
        if rule in KNOWN:
            print(f"{rule}, {len(seen)} times: known: {KNOWN[rule]}")
        else:
            print(f"{rule}, {len(seen)} times, first: {seen[0]}")
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(int(sys.argv[2]), False)
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 100)
