"""A small training loop in plain Python, to be flight-recorded:

    daybook record -o run.omni -- python3 examples/train.py

It fits a network with one hidden layer to two interleaved half moons by gradient descent. Halfway
the learning rate is cut to a tenth. Every step prints one JSON object, which the recorder stores as
telemetry, and the cut is told as a change, for `daybook why run.omni lr`; everything else it prints is
stored as log lines.
"""

import argparse
import json
import math
import random


def half_moons(count, rng):
    """Points on two interleaved half circles with noise, and the moon each belongs to."""
    points = []
    for index in range(count):
        moon = index % 2
        angle = math.pi * rng.random()
        x, y = math.cos(angle), math.sin(angle)
        if moon:
            x, y = 1.0 - x, 0.5 - y
        points.append((x + rng.gauss(0, 0.1), y + rng.gauss(0, 0.1), moon))
    return points


class Network:
    """Two inputs, one hidden layer of tanh units, one logit."""

    def __init__(self, hidden, rng):
        self.w1 = [[rng.gauss(0, 1), rng.gauss(0, 1)] for _ in range(hidden)]
        self.b1 = [0.0] * hidden
        self.w2 = [rng.gauss(0, 1 / math.sqrt(hidden)) for _ in range(hidden)]
        self.b2 = 0.0

    def step(self, batch, learning_rate):
        """One step of gradient descent; returns mean loss, accuracy and the gradient's norm."""
        hidden = len(self.w2)
        gw1 = [[0.0, 0.0] for _ in range(hidden)]
        gb1, gw2, gb2 = [0.0] * hidden, [0.0] * hidden, 0.0
        loss, right = 0.0, 0
        for x, y, label in batch:
            h = [math.tanh(w[0] * x + w[1] * y + b) for w, b in zip(self.w1, self.b1)]
            logit = sum(w * a for w, a in zip(self.w2, h)) + self.b2
            probability = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))
            loss -= math.log(max(1e-12, probability if label else 1.0 - probability))
            right += (probability > 0.5) == bool(label)
            d = (probability - label) / len(batch)
            gb2 += d
            for i, a in enumerate(h):
                gw2[i] += d * a
                back = d * self.w2[i] * (1.0 - a * a)
                gb1[i] += back
                gw1[i][0] += back * x
                gw1[i][1] += back * y
        norm = gb2 * gb2
        for i in range(hidden):
            norm += gw2[i] ** 2 + gb1[i] ** 2 + gw1[i][0] ** 2 + gw1[i][1] ** 2
            self.w2[i] -= learning_rate * gw2[i]
            self.b1[i] -= learning_rate * gb1[i]
            self.w1[i][0] -= learning_rate * gw1[i][0]
            self.w1[i][1] -= learning_rate * gw1[i][1]
        self.b2 -= learning_rate * gb2
        return loss / len(batch), right / len(batch), math.sqrt(norm)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--lr", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    rng = random.Random(args.seed)
    data = half_moons(128, rng)
    network = Network(12, rng)
    learning_rate = args.lr
    print(f"training on {len(data)} points, {args.steps} steps, seed {args.seed}", flush=True)
    for step in range(1, args.steps + 1):
        if step == args.steps // 2 + 1:
            before, learning_rate = learning_rate, learning_rate / 10
            change = {"name": "lr", "old": before, "new": learning_rate, "cause": "half of the steps done"}
            print(json.dumps({"mutation": change}), flush=True)
        loss, accuracy, norm = network.step(rng.sample(data, 32), learning_rate)
        state = {"step": step, "loss": loss, "accuracy": accuracy, "lr": learning_rate, "grad_norm": norm}
        print(json.dumps(state), flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
