# A program with page faults in many kinds of Python's frames. It prints a line, waits for one, has the faults, and ends.
import gc
import json
import re
import sys

gc.disable()


def fresh(size):
    return bytearray(size)  # so large that it has fresh pages


class Key:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        self.memory = fresh(300000)
        return self.value < other.value


def deep(n):
    if n == 0:
        return len(fresh(400000))
    return max([n], key=lambda x: deep(n - 1) * x) + len(fresh(200000))


def work(n):
    sorted(Key(k * 7919 % 41) for k in range(12))
    deep(n % 8)
    json.dumps({1: object(), 2: [object()]}, default=lambda _: len(fresh(200000)))
    re.sub("[a-c]", lambda _: str(len(fresh(250000))), "abcabc")
    list(map(fresh, [150000] * 3))
    exec(compile("[fresh(200000) for _ in range(3)]", "generated", "exec"), {"fresh": fresh})


print("ready", flush=True)
sys.stdin.readline()
for i in range(3):
    work(3 * i)
