"""Ten fabrics: `python -m benchmarks.gallery` draws docs/images/gallery/*.svg, `make docs` their page."""

from __future__ import annotations

from dataclasses import dataclass

from tools.records import RECORDS

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
          "NVSwitch inside, two rails outside: the links of one GPU are the bottleneck."),
    Piece("dgx-h100", "Two DGX H100", "dgx_h100:2", "allreduce", None,
          "Reduce-scatter and allgather over the same trees; every link of a GPU is saturated."),
    Piece("mi250", "Two MI250, 8 dies of each", "mi250(2, gpus_per_box=8)", "allgather", None,
          "No switch within a box: a mesh of direct links, whose shape is why rings are slow here."),
    Piece("mi300x", "Two MI300X", "mi300x:2", "allreduce", None,
          "Eight fully connected GPUs and a NIC each."),
    Piece("leaf-spine", "Leaves and spines, 2:1", "leaf_spine(4, 2, gpus_per_leaf=4, oversubscription=2)",
          "allgather", None, "The uplinks carry half of what the leaves could: look at the cut."),
    Piece("pods", "Pods of boxes", "pods:4,4", "allgather", None,
          "128 GPUs, three levels: boxes are drawn as dots, links of a box as a bundle."),
    Piece("pods-65536", "65,536 GPUs", "pods:64,128", "allgather", None,
          "One subproblem of each class; the plan is factored, and the spine is all but idle."),
    Piece("torus", "Torus, all to all", "torus:4,4", "alltoall", None,
          "Steps at the optimal rate; wrap-around links are stubs at both ends."),
    Piece("hypercube", "Hypercube, breadth first", "hypercube(4)", "allreduce", "bfb",
          "As few steps as the diameter, and the least traffic as well."),
    Piece("kautz", "Generalized Kautz", "generalized_kautz:4,16", "allgather", "bfb",
          "Unidirectional links of degree four: two steps to all."),
)  # fmt: skip


OPENING = """# Gallery

Ten fabrics, the bottleneck of each, and an interactive report of its plan, which the commands shown make.
"""


def page() -> str:
    """The page in Markdown."""
    return "\n".join((OPENING, *map(section, PIECES)))


def section(piece: Piece) -> str:
    """Heading, words, picture, and the commands that make the report."""
    algorithm = f" --algorithm {piece.algorithm}" if piece.algorithm else ""
    fabric = f"'{piece.fabric}'" if "(" in piece.fabric else piece.fabric
    return f"""## {piece.title}

`{piece.fabric}`, {piece.collective}. {piece.words}

![{piece.title}](../../images/gallery/{piece.name}.svg)

```{{live-report}} {piece.name}
treadle solve {fabric} {piece.collective}{algorithm} -o {piece.name}.plan
treadle report {piece.name}.plan -o {piece.name}.html
```
"""


def main() -> None:
    """Draw the pictures."""
    for piece in PIECES:
        result = treadle.solve(piece.fabric, piece.collective, algorithm=piece.algorithm)
        write_bytes(RECORDS.parent / "images" / "gallery" / f"{piece.name}.svg", treadle.draw(result.plan))
        print(piece.name, flush=True)


if __name__ == "__main__":
    main()
