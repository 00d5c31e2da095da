"""How the peers by command of this folder time a launch."""
import torch


def timed(launch, seconds):
    """Microseconds of single launches: `launch(i)` queues the i-th. Ten untimed ones first; 400 samples, or as many as `seconds`, two at most, have room for."""
    for i in range(10):
        launch(i)
    torch.cuda.synchronize()
    samples, spent = [], 0.0
    while spent < 1e6 * min(seconds, 2) and len(samples) < 400:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # Behind a sleep, so that the launch is queued before the first event.
        torch.cuda._sleep(200_000)
        begin.record()
        launch(len(samples))
        end.record()
        torch.cuda.synchronize()
        samples.append(1000 * begin.elapsed_time(end))
        spent += samples[-1]
    return samples
