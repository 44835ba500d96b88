"""Every fabric of the catalogue is named by the expression that makes it."""

import ast
import inspect

import pytest

from samples.catalogue_samples import SAMPLES
from treadle.topologies import catalogue, catalogue_entries, parse

DIRECT_CONNECT = {
    "graphs",
    "direct-connect graphs",
    "distance-regular graphs",
    "low-diameter networks",
    "random graphs",
    "Cayley graphs",
    "expansions",
}
UNIT_LINKS = {entry.name for entry in catalogue_entries() if entry.group in DIRECT_CONNECT}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_fabric_is_named_by_the_expression_that_makes_it(name):
    for topology in SAMPLES[name]:
        assert topology.name.startswith(f"{name}(")
        again = parse(topology.name)
        assert again == topology
        assert again.name.replace("'", '"') == topology.name.replace("'", '"')


def value_of(argument):
    """What an expression that is an argument says; fabrics are expressions too."""
    return parse(ast.unparse(argument)) if isinstance(argument, ast.Call) else ast.literal_eval(argument)


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"with_host_bottleneck"}))  # whose fabric may need one
def test_names_leave_out_what_is_so_by_default(name):
    words = inspect.signature(catalogue()[name]).parameters
    for topology in SAMPLES[name]:
        call = ast.parse(topology.name, mode="eval").body
        call.keywords = [word for word in call.keywords if words[word.arg].default is inspect.Parameter.empty]
        if not any(word.kind is inspect.Parameter.VAR_POSITIONAL for word in words.values()):
            call.args = call.args[: sum(w.default is inspect.Parameter.empty for w in words.values())]
        least = ast.unparse(call)
        plain = parse(least)
        if name != "with_links":  # whose bandwidths are read from words
            given = {word.arg: value_of(word.value) for word in call.keywords}
            plain = catalogue()[name](*map(value_of, call.args), **given)
        assert plain.name.replace('"', "'") == least.replace('"', "'")
        if name in UNIT_LINKS and not any(isinstance(word, ast.Call) for word in call.args):
            assert set(plain.bandwidths.tolist()) == {1}
            assert set(plain.latencies_ns.tolist()) == {0}
        if {"nvls", "sharp"} & set(words):
            assert not plain.multicast.any()
            assert not plain.aggregation.any()
