"""Small texts of each format that fabrics are read from, in the words of its own tools."""

from __future__ import annotations

from collections.abc import Mapping

GB = 10**9


def _adapter(guid: str, name: str, leaf: int, port: int, rate: str) -> tuple[str, str]:
    """A leaf's line of an adapter, and the adapter's block."""
    below = f'[{port}]\t"{guid}"[1]({guid[2:]}) \t\t# "{name}" lid 9{rate}'
    own = f'[1]({guid[2:]}) \t"S-a{leaf:03x}"[{port}]\t\t# lid 9 lmc 0 "leaf{leaf}" lid {leaf + 2}{rate}'
    return below, f'caguid=0x1\nCa\t1 "{guid}"\t\t# "{name}"\n{own}'


def ib_text(leaves: int = 2, hosts: int = 3, *, rate: str = " 4xHDR") -> str:
    """``ibnetdiscover`` of leaves below one spine, each with an aggregation node."""
    blocks = ["#\n# Topology file: generated on Mon Jan  1 00:00:00 2024\n#"]
    adapters: list[str] = []
    spine = ['Switch\t40 "S-ff00"\t\t# "spine" enhanced port 0 lid 1 lmc 0']
    for leaf in range(leaves):
        tail = f'\t\t# "leaf{leaf}" enhanced port 0 lid {leaf + 2} lmc 0'
        spine.append(f'[{leaf + 1}]\t"S-a{leaf:03x}"[40]\t\t# "leaf{leaf}" lid {leaf + 2}{rate}')
        rows = [f'vendid=0x2c9\nswitchguid=0x1(1)\nSwitch\t41 "S-a{leaf:03x}"{tail}']
        for host in range(hosts):
            below, block = _adapter(f"H-{leaf:02x}{host:02x}", f"n{leaf}-{host} mlx5_0", leaf, host + 1, rate)
            rows.append(below)
            adapters.append(block)
        rows.append(f'[40]\t"S-ff00"[{leaf + 1}]\t\t# "spine" lid 1{rate}')
        below, block = _adapter(f"H-e{leaf:03x}", "Mellanox Technologies Aggregation Node", leaf, 41, rate)
        blocks.append("\n".join([*rows, below]))
        adapters.append(block)
    return "\n\n".join([*blocks, "\n".join(spine), *adapters]) + "\n"


_EDR, _HDR = "( 4X      25.78125 Gbps Active/  LinkUp)", "( 4X         53.125 Gbps Active/  LinkUp)"
_FDR10 = "( 4X   10.0 Gbps (FDR10) Active/  LinkUp)"
IB_LINKS = f"""\
CA: n0 HCA-1:
      0xb8000000000000a1     11    1[  ] =={_EDR}==>       7    1[  ] "leaf" ( )
      0xb8000000000000a2     12    2[  ] =={_EDR}==>       7    2[  ] "leaf" ( )
CA: n1 HCA-1:
      0xb8000000000000b1     13    1[  ] =={_HDR}==>       7    3[  ] "leaf" ( )
CA: n2 HCA-1:
      0xb8000000000000c1     14    1[  ] =={_FDR10}==>       7    5[  ] "leaf" ( )
Switch: 0x0c00000000000bfa leaf:
           7    1[  ] =={_EDR}==>      11    1[  ] "n0 HCA-1" (  Could be 53.125 Gbps)
           7    2[  ] =={_EDR}==>      12    2[  ] "n0 HCA-1" ( )
           7    3[  ] =={_HDR}==>      13    1[  ] "n1 HCA-1" ( )
           7    4[  ] ==(                Down/ Polling)==>             [  ] "" ( )
           7    5[  ] =={_FDR10}==>      14    1[  ] "n2 HCA-1" ( )
"""
"""Of ``iblinkinfo``: an adapter with two cables, a port that could be faster, one without a cable."""

TACCL = """{
    "name": "NDv2_1MB",
    "gpus_per_node": 8,
    "nics_per_node": 1,
    "alpha": 0.3,
    "node_betas_list": [23, 46],
    "node_invbws_list":  [23, 46],
    "remote_invbw": 107,
    "remote_alpha": 2.6,
    "remote_beta": 105
}"""

ASTRA = """# two boxes
topology: [ Switch, Ring ]  # Ring, Switch, FullyConnected
npus_count: [ 8, 2 ]
bandwidth: [400, 50 ]  # GB/s
latency: [ 936.25, 1000 ]  # ns
"""

TUX = """# four leaves below one switch
SwitchName=s0 Nodes=tux[0-3]
SwitchName=s1 Nodes=tux[4-7]
SwitchName=s2 Nodes=tux[8-11]
SwitchName=s3 Nodes=tux[12-15]
SwitchName=s4 Switches=s[0-3]
"""

TUX_YAML = """---
- topology: flat
  flat: true
- topology: tree
  cluster_default: true
  tree:
    switches:
      - switch: s0
        nodes: tux[0-3]
      - switch: s1
        nodes: tux[4-7]
      - switch: s2
        nodes: tux[8-11]
      - switch: s3
        nodes: tux[12-15]
      - switch: s4
        children: s[0-3]
"""


def platform_text(topology: str, shape: str, hosts: int, more: str = "") -> str:
    """A SimGrid platform with one cluster of 125 MB/s links."""
    return (
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        '<platform version="4.1">\n  <!-- a cluster -->\n  <zone id="world" routing="Full">\n'
        f'    <cluster id="c" prefix="node-" suffix=".example.org" radical="0-{hosts - 1}" speed="1Gf"\n'
        f'             bw="125MBps" lat="50us" topology="{topology}" topo_parameters="{shape}" {more}/>\n'
        "  </zone>\n</platform>\n"
    )


INFRA = """name: rail
devices:
  - name: server
    components:
      - {name: cpu, choice: cpu, count: 1}
      - {name: xpu, choice: xpu, count: 4}
      - {name: nvlsw, choice: switch, count: 1}
      - {name: nic, choice: nic, count: 4}
      - {name: mgmt, choice: custom, count: 1, custom: {type: mgmt-nic}}
    links:
      - name: nvlink
        physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 450}}
      - name: pcie
        physical:
          bandwidth: {choice: gigabits_per_second, gigabits_per_second: 504}
          latency: {choice: us, us: 0.5}
    edges:
      - {scheme: many2many, link: nvlink, ep1: {component: xpu}, ep2: {component: "nvlsw[0]"}}
      - {scheme: one2one, link: pcie, ep1: {component: "xpu[0:4]"}, ep2: {component: nic}}
      - {scheme: many2many, link: pcie, ep1: {component: mgmt}, ep2: {component: "cpu[0]"}}
  - name: tor
    components:
      - {name: asic, choice: cpu, count: 1}
      - {name: port, choice: port, count: 8}
    links:
      - name: ic
    edges:
      - {scheme: many2many, link: ic, ep1: {component: asic}, ep2: {component: port}}
links:
  - name: eth
    physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}}
instances:
  - {name: host, device: server, count: 2}
  - {name: rail, device: tor, count: 1}
edges:
  - scheme: one2one
    link: eth
    ep1: {instance: "host[0]", component: nic}
    ep2: {instance: rail, component: "port[0:4]"}
  - scheme: one2one
    link: eth
    ep1: {instance: "host[1:2]", component: nic}
    ep2: {instance: rail, component: "port[4:8]"}
""".replace("name: asic, choice: cpu", "name: asic, choice: custom")

GRAPHML = """<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="kind" attr.type="string"><default>compute</default></key>
  <key id="d1" for="edge" attr.name="bandwidth" attr.type="string"/>
  <key id="d2" for="node" attr.name="colour" attr.type="string"/>
  <graph id="star" edgedefault="undirected">
    <node id="a"/><node id="b"><data key="d2">red</data></node><node id="c"/>
    <node id="hub"><data key="d0">switch</data></node>
    <edge source="a" target="hub"><data key="d1">25GB/s</data></edge>
    <edge source="b" target="hub"><data key="d1">25GB/s</data></edge>
    <edge source="c" target="hub"><data key="d1">200Gbit/s</data></edge>
  </graph>
</graphml>
"""

EDGES = """# a ring
# directed
a b 25GB/s 5us
b c 25GB/s 5us
c d {'bandwidth': '25GB/s', 'latency_ns': 5000}
d a 25GB/s
"""

MATRIX = """,a,b,c,d
a,0,100,100,100
b,100,0,100,100
c,100,100,X,100
d,100,100,100,
"""

TEXTS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "ibnetdiscover": (ib_text(), {}),
    "iblinkinfo": (IB_LINKS, {}),
    "taccl": (TACCL, {"chunk_size": 10**6}),
    "astra-sim": (ASTRA, {}),
    "infragraph": (INFRA, {}),
    "slurm": (TUX, {"nic_bandwidth": 50 * GB, "oversubscription": "1:1"}),
    "slurm-yaml": (TUX_YAML, {"nic_bandwidth": 50 * GB, "oversubscription": "1:1"}),
    "simgrid": (platform_text("FAT_TREE", "2;4,4;1,2;1,2", 16), {}),
    "graphml": (GRAPHML, {}),
    "edge-list": (EDGES, {}),
    "csv-matrix": (MATRIX, {"bandwidth": GB}),
}
"""A text of each format, with the options that it needs."""
