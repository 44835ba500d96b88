"""docs/results/gallery.md: ten fabrics with a picture of each; `make docs` makes their live reports.

python -m benchmarks.gallery --docs docs        # page and docs/images/gallery/*.svg, seconds
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import treadle
from treadle.atomic import write_bytes


@dataclass(frozen=True)
class Piece:
    """A fabric of the gallery: a name for files, a title, what is solved, and what to look at."""

    name: str
    title: str
    fabric: str
    collective: str
    algorithm: str | None
    words: str


PIECES = (
    Piece("dgx-a100", "Two DGX A100, rails", "dgx_a100:2", "allgather", None,
          "NVSwitch inside, two rails outside: the links of one GPU bind, not the network between boxes."),
    Piece("dgx-h100", "Two DGX H100", "dgx_h100:2", "allreduce", None,
          "Reduce-scatter and allgather over the same trees; every link of a GPU is busy all the time."),
    Piece("mi250", "Two MI250, 8 dies of each", "mi250(2, gpus_per_box=8)", "allgather", None,
          "No switch within a box: a mesh of direct links, whose shape is why rings are slow here."),
    Piece("mi300x", "Two MI300X", "mi300x:2", "allreduce", None,
          "Eight fully connected GPUs and a NIC each."),
    Piece("leaf-spine", "Leaves and spines, 2:1", "leaf_spine(4, 2, gpus_per_leaf=4, oversubscription=2)",
          "allgather", None, "The uplinks carry half of what the leaves could: look at the cut."),
    Piece("pods", "Pods of boxes", "pods:4,4", "allgather", None,
          "128 GPUs, three levels: boxes are drawn as dots, links of a box as a bundle."),
    Piece("pods-65536", "65,536 GPUs", "pods:64,128", "allgather", None,
          "One piece of each kind; the plan is factored, and the spine is all but idle."),
    Piece("torus", "Torus, all to all", "torus:4,4", "alltoall", None,
          "Steps at the optimal rate; wrap-around links are stubs at both ends."),
    Piece("hypercube", "Hypercube, breadth first", "hypercube(4)", "allreduce", "bfb",
          "As few steps as the diameter, and the least traffic as well."),
    Piece("kautz", "Generalized Kautz", "generalized_kautz:4,16", "allgather", "bfb",
          "One-way links of degree four: two steps to everybody."),
)  # fmt: skip


OPENING = """# Gallery

Ten fabrics, what binds each, and a page about its plan to click through: loads, bottleneck, trees or steps,
times. Generated: `python -m benchmarks.gallery --docs docs`; the reports are made by the commands shown.
"""


def section(piece: Piece, optimum: str) -> str:
    """Heading, words, picture, and the commands that make the report."""
    algorithm = f" --algorithm {piece.algorithm}" if piece.algorithm else ""
    fabric = f"'{piece.fabric}'" if "(" in piece.fabric else piece.fabric
    return f"""## {piece.title}

`{piece.fabric}`, {piece.collective}, {optimum}. {piece.words}

![{piece.title}](../images/gallery/{piece.name}.svg)

```{{live-report}} {piece.name}
treadle solve {fabric} {piece.collective}{algorithm} -o {piece.name}.plan
treadle report {piece.name}.plan -o {piece.name}.html
```
"""


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--docs", type=Path, required=True, help="folder of the documentation")
    docs = parser.parse_args().docs
    (docs / "images" / "gallery").mkdir(exist_ok=True)
    parts = [OPENING]
    for piece in PIECES:
        result = treadle.solve(piece.fabric, piece.collective, algorithm=piece.algorithm)
        picture = docs / "images" / "gallery" / f"{piece.name}.svg"
        write_bytes(picture, treadle.draw(result.plan))
        parts.append(
            section(piece, f"{float(result.algbw) / 1e9:.4g} GB/s" if result.algbw > 10**7 else "unit links")
        )
        print(piece.name, flush=True)
    write_bytes(docs / "results" / "gallery.md", "\n".join(parts).encode())


if __name__ == "__main__":
    main()
