"""Balances a pole in Gymnasium's CartPole, records it, and does it again from the record:

    pip install ./python gymnasium
    python3 examples/cartpole.py first.omni
    python3 examples/cartpole.py again.omni --replay first.omni
    daybook diff first.omni again.omni

Whatever comes from outside is an input: the seed of each episode, and what the policy decides, which is
nobody's to repeat: now and then it pushes at random. The rest follows from that, so a second run that is
given the inputs of the first shows the same observations, bit for bit. `daybook diff` says so, or at which
tick and in which variable they part.
"""

import argparse
import random
import secrets

import gymnasium

from omniloop import InputReplayer, TrainingLoop


def policy(observation):
    """Push to where the pole leans; one time in ten, to either side."""
    chance = random.SystemRandom()
    if chance.random() < 0.1:
        return chance.randrange(2)
    _, _, angle, turning = observation
    return int(angle + 0.5 * turning > 0)


def live(channel, tick, decide):
    """Give what is decided now."""
    return decide()


def recorded(path):
    """Give what was decided in the run that was recorded at `path`."""
    inputs = InputReplayer(path)
    return lambda channel, tick, decide: inputs.next_input(channel, tick)


def balance(path, outside, steps=500):
    """Record so many steps; `outside(channel, tick, decide)` says what comes in."""
    environment = gymnasium.make("CartPole-v1")
    with TrainingLoop(path, task="CartPole-v1", gymnasium=gymnasium.__version__) as loop:

        def take(channel, decide):
            return loop.input(channel, outside(channel, loop.current_tick, decide))

        is_over, episode = True, 0
        for _ in range(steps):
            if is_over:
                episode += 1
                seed = take("seed:episode", lambda: secrets.randbits(31))
                observation, _ = environment.reset(seed=seed)
                held = 0
            action = take("action", lambda seen=observation: policy(seen))
            observation, reward, has_fallen, is_out_of_time, _ = environment.step(action)
            held += reward
            is_over = has_fallen or is_out_of_time
            position, speed, angle, turning = observation
            pole = {"position": position, "speed": speed, "angle": angle, "turning": turning}
            loop.tick(episode=episode, held=held, pole=pole, fallen=has_fallen)
    environment.close()
    return episode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("path", help="where the run is recorded")
    parser.add_argument("--replay", help="a recorded run whose inputs are taken")
    parser.add_argument("--steps", type=int, default=500)
    args = parser.parse_args()
    outside = recorded(args.replay) if args.replay else live
    print(f"{balance(args.path, outside, args.steps)} episodes")


if __name__ == "__main__":
    main()
