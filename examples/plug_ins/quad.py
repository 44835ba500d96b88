"""A box of four accelerators on one switch."""

from treadle.topologies import TopologyBuilder, platform


@platform(source="data sheet of the Quad, table 2", samples=("quad(2)",))
def quad(boxes: int, *, link_bandwidth: int = 100 * 10**9):
    """Quad boxes: four accelerators on a switch, the switches on one more.

    Parameters
    ----------
    boxes : int
    link_bandwidth : int
        Of every link, bytes/s.
    """
    extra = "" if link_bandwidth == 100 * 10**9 else f', link_bandwidth="{link_bandwidth}B/s"'
    builder = TopologyBuilder(f"quad({boxes}{extra})")
    switches = []
    for box in range(boxes):
        accelerators = [builder.compute(f"box{box}.a{number}") for number in range(4)]
        switches.append(builder.switch(f"box{box}.switch"))
        for accelerator in accelerators:
            builder.duplex(accelerator, switches[-1], link_bandwidth)
    if boxes > 1:
        top = builder.switch("top")
        for switch in switches:
            builder.duplex(switch, top, 4 * link_bandwidth)
    return builder.build()
