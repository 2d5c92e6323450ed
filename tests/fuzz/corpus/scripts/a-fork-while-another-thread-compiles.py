"""A child that is forked while another thread compiles does not wait for ever: it is right, or says what is wrong."""

import os
import signal
import threading
import time

import numpy as np

import layout_ir as li
from layout_ir.caches import forget

x = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
stop = False


def compile_for_ever() -> None:
    while not stop:
        li.reorder(x, "nchw", "nhwc")
        forget()


thread = threading.Thread(target=compile_for_ever, daemon=True)
thread.start()
li.reorder(x, "nchw", "chwn")
for _ in range(20):
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            right = np.array_equal(li.reorder(x, "nchw", "hwcn"), x.transpose(2, 3, 1, 0))
            os._exit(0 if right else 1)
        except li.LayoutError:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"a child ended with {status}"
    time.sleep(0.01)
stop = True
thread.join()
