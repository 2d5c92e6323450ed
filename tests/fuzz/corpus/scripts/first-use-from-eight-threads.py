"""The first use from several threads at once: each kernel is right, and its code stays as long as its callable."""

import threading

import numpy as np

import layout_ir as li

TAGS = ("nhwc", "chwn", "hwcn", "wnch", "cnhw", "nwhc", "hcwn", "whcn")
x = np.random.default_rng(0).random((2, 16, 8, 8), np.float32)
barrier = threading.Barrier(len(TAGS))
wrong: list[str] = []


def use(tag: str) -> None:
    barrier.wait()
    wanted = x.transpose(["nchw".index(letter) for letter in tag])
    for _ in range(200):
        if not np.array_equal(li.reorder(x, "nchw", tag), wanted):
            wrong.append(tag)


threads = [threading.Thread(target=use, args=(tag,)) for tag in TAGS]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
