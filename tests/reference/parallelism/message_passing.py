"""Sequential tree-reweighted message passing in numpy, edge by edge: the same as the compiled one, slowly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Sent = list[list[FloatArray]]


def passes(
    scopes: list[tuple[int, int]],
    unary: list[FloatArray],
    pairs: list[FloatArray],
    sent: Sent,
    *,
    n_passes: int,
    tolerance: float,
) -> tuple[tuple[float, float], list[int], list[FloatArray]]:
    """Sums of minima after the last forward pass and before it, labels, slacks; `sent` is changed."""
    before = [[e for e, (_, v) in enumerate(scopes) if v == node] for node in range(len(unary))]
    after = [[e for e, (u, _) in enumerate(scopes) if u == node] for node in range(len(unary))]

    def received(node: int) -> FloatArray:
        return unary[node] + sum(sent[e][0] for e in after[node]) + sum(sent[e][1] for e in before[node])

    def forward() -> tuple[float, list[int], list[FloatArray]]:
        labels: list[int] = []
        slack: list[FloatArray] = []
        total = 0.0
        for node in range(len(unary)):
            for e in before[node]:
                sent[e][1] = (pairs[e] - sent[e][0][:, None]).min(axis=0)
            now = received(node)
            given = unary[node] + sum(sent[e][0] for e in after[node])
            labels.append(int((given + sum(pairs[e][labels[scopes[e][0]]] for e in before[node])).argmin()))
            slack.append(now - now.min())
            for e in after[node]:
                sent[e][0] = sent[e][0] - slack[-1] / max(len(before[node]), len(after[node]))
            total += received(node).min()
        return total, labels, slack

    def backward() -> float:
        total = 0.0
        for node in reversed(range(len(unary))):
            for e in after[node]:
                sent[e][0] = (pairs[e] - sent[e][1]).min(axis=1)
            now = received(node)
            for e in before[node]:
                sent[e][1] = sent[e][1] - (now - now.min()) / max(len(before[node]), len(after[node]))
            total += received(node).min()
        return total

    forward()
    now = -np.inf
    for _ in range(n_passes):
        last, earlier = now, backward()
        now, labels, slack = forward()
        if now - last <= tolerance * abs(now):
            break
    return (now, earlier), labels, slack
