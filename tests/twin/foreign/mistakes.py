"""tinygrad with one deliberate mistake at a time: the twin must name the rule that it breaks.

A file of mistakes registers functions that get the module of the driver and change it, and calls `main`. Each
mistake runs in a process of its own, on a twin of its own; the work is the same without it.
"""
import os
import re
import subprocess
import sys

MISTAKES = {}


def mistake(rules, chip, short=False, work="work"):
    """Registers a mistake: any of the `rules` names it; `chip` is the twin's config, `work` what is done."""
    def add(function):
        name = function.__name__.replace("_", " ")
        MISTAKES[name] = (function, rules.split(), chip, short, work)
        return function
    return add


def child(name, load, works):
    """One mistake, in this process."""
    import tinygrad
    module = load()
    from test.mockgpu import mockgpu
    function, _, _, _, kind = MISTAKES[name]
    function(module)
    try:
        works[kind](module, tinygrad)
        print("no error")
    except BaseException as error:  # whatever the driver makes of it is no matter here
        print(f"{type(error).__name__}: {error}"[:300])
    print(mockgpu.reports(), flush=True)
    before = mockgpu.broken()
    # What is named at the end of a process.
    mockgpu.detach()
    print(mockgpu.reports(before), flush=True)
    os._exit(0)


def main(path, load, works):
    """Runs what the arguments name: [--short] [NAME...]. `load` gives the driver's module, `works` has what is
    done by name. Exits with 1 where a mistake is not caught."""
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], load, works)
    short = "--short" in sys.argv
    names = [a for a in sys.argv[1:] if a != "--short"] or [n for n, m in MISTAKES.items() if m[3] or not short]
    missed = 0
    for name in names:
        _, rules, chip, _, _ = MISTAKES[name]
        env = {**os.environ, "DOORBELL_TWIN_CONFIG": f"chip={chip}", "HCQDEV_WAIT_TIMEOUT_MS": "1500"}
        out = subprocess.run([sys.executable, path, "--child", name], env=env, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120).stdout
        named = re.findall(r"^rule ([A-Z0-9-]+)", out, re.M)
        caught = [r for r in named if r in rules]
        print(f"{name}: {caught[0] if caught else 'NOT CAUGHT by ' + ' or '.join(rules)}"
              + (f" (also {', '.join(sorted(set(named) - set(caught)))})" if set(named) - set(caught) else ""), flush=True)
        if not caught:
            missed += 1
            print(out[-1500:])
    print(f"{len(names) - missed} of {len(names)} mistakes caught")
    sys.exit(1 if missed else 0)
