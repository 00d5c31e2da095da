"""How the peers by command of this folder time a launch."""
import torch


def timed(launch, seconds):
    """
    Microseconds of single launches: `launch(i)` queues the i-th. Ten untimed ones first; 400 samples, or as many as `seconds`, two at most, have room for.
    Each stands behind a sleep of the GPU in which the host queues it: where the sleep was over first, the sample would hold host time, and is taken again behind a longer one.
    """
    for i in range(10):
        launch(i)
    torch.cuda.synchronize()
    samples, spent, cycles = [], 0.0, 200_000
    while spent < 1e6 * min(seconds, 2) and len(samples) < 400:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(cycles)
        begin.record()
        launch(len(samples))
        end.record()
        late = begin.query()
        torch.cuda.synchronize()
        if late and cycles < 100_000_000:
            cycles *= 2
            continue
        samples.append(1000 * begin.elapsed_time(end))
        spent += samples[-1]
    return samples
