"""``treadle diagnose``."""

from __future__ import annotations

import textwrap
from fractions import Fraction
from typing import TYPE_CHECKING

from treadle.cli.designing.names import describe_links
from treadle.cli.fabric_arguments import import_keywords, left_of, read_fabric, tell_warnings
from treadle.cli.output import Output, ProgressLine, late
from treadle.cli.quantities import counted
from treadle.cli.status import USAGE, fail
from treadle.diagnosis.log_figures import nvls_line
from treadle.errors import FormatError
from treadle.options.measuring import Diagnose
from treadle.options.rows import keywords
from treadle.options.shared import TimeLimit
from treadle.planning.measuring.diagnose import diagnose
from treadle.planning.measuring.diagnosed import IN_NETWORK, OPTIMUM, RING, Diagnosis, JudgedTable, Yardstick
from treadle.planning.measuring.diagnosis_summary import diagnosis_summary
from treadle.units import format_size

if TYPE_CHECKING:
    from treadle.diagnosis.suspect import Suspect

_WIDTH = 80
_LABEL = 12


def command(o: Diagnose) -> int:
    """Explain a measured busbw: % of rings, of the optimum, and what in the log makes it slow."""
    output = Output.of(o)
    topology, imports = None, import_keywords(o)
    if o.fabric is not None:
        imported = read_fabric(o.fabric, o)
        if not o.quiet:
            tell_warnings(imported)
        topology, imports = left_of(imported.topology, o.without), {}
    elif o.without:
        raise FormatError("--without is about the fabric of --topology; a log's own tree lacks what failed")
    with ProgressLine(quiet=output.is_silent) as progress:
        found = diagnose(
            o.log,
            topology=topology,
            collective=o.collective,
            progress=progress,
            **keywords(o, TimeLimit),
            **imports,
        )
    _Report(output).print(found)
    output.result(diagnosis_summary(found))
    reason = found.missing or (found.unjudged[0][1] if found.unjudged and not found.judgements else "")
    if found.late:
        return late(f"not known: {', '.join(found.late)}; allow more (--time-limit)")
    return fail(f"{o.log}: {reason}", USAGE) if reason else 0


class _Report:
    """A diagnosis in lines of at most 80 columns."""

    def __init__(self, output: Output) -> None:
        self._output, self._rates = output, output.rates

    def _say(self, label: str, text: str, *, indent: int = _LABEL) -> None:
        lines = textwrap.wrap(
            text,
            _WIDTH,
            initial_indent=label.ljust(indent),
            subsequent_indent=" " * indent,
            break_long_words=True,
            break_on_hyphens=False,
        )
        for line in lines:
            self._output.line(line)

    def print(self, found: Diagnosis) -> None:
        """All of it."""
        log = found.log
        words = [counted(log.n_lines, "line"), counted(len(log.tables), "table")]
        words += [f"NCCL {log.version}"] if log.version else []
        words += [counted(len(log.hosts), "host")] if log.hosts else []
        self._say("log", f"{log.source}: {', '.join(words)}")
        if found.topology is not None:
            self._fabric(found)
        for judgement in found.judgements:
            self._judgement(found, judgement)
        for table, reason in found.unjudged:
            peak = table.peak
            self._say(
                "measured",
                f"{self._gb(peak.busbw)} busbw at {format_size(peak.size)} (line {peak.line.number})",
            )
            self._say("", f"not judged: {reason}")
        if not log.tables:
            self._say("measured", "nothing: the log has no table of nccl-tests; its lines alone are judged")
        self._suspects(found)

    def _fabric(self, found: Diagnosis) -> None:
        assert found.topology is not None
        nics, all_nics = "", found.fabric_nics
        if found.used_nics < all_nics:
            nics = f", {found.used_nics} of {all_nics} NICs of a box used"
        elif all_nics:
            nics = f", {counted(all_nics, 'NIC')} of a box"
        name = found.topology.name if found.imported is None else "from the system tree in the log"
        self._say("fabric", f"{name}: {counted(len(found.topology.compute_nodes), 'rank')}{nics}")
        for text in found.assumed:
            self._say("", f"assumed: {text}")
        if found.imported is not None:
            for finding in (*found.imported.defaulted, *found.imported.warnings):
                self._say("", f"note: {finding}")

    def _judgement(self, found: Diagnosis, one: JudgedTable) -> None:
        peak = one.peak
        self._output.line()
        self._say("collective", f"{one.collective}, {one.n_ranks} ranks")
        figures = f"{self._gb(peak.busbw)} busbw, {self._gb(peak.algbw)} algbw"
        place = f"{format_size(peak.size)}, the peak (line {peak.line.number})"
        self._say("measured", f"{figures} at {place}")
        for yardstick in one.yardsticks:
            self._yardstick(one, yardstick)
        if one.above:
            self._say("", one.above)
            line = nvls_line(found.log)
            if line is not None:
                self._say("", f"line {line.number}: {line.text}")
        self._binding(one)

    def _binding(self, one: JudgedTable) -> None:
        """The cut, or the prices, that set each limit; once where several have the same."""
        label = "binds"
        told: set[str] = set()
        for yardstick in one.yardsticks:
            limit = yardstick.limit
            cut = f"{yardstick.place}, {self._rates(limit.capacity)}:"
            if limit.is_priced:
                cut = f"{yardstick.place}; scarce are"
            if yardstick.is_whole or cut in told or not limit.links:
                continue
            told.add(cut)
            links = describe_links(one.topology, limit.links, self._rates)
            self._say(label, f"{yardstick.name}: {cut} {links}")
            label = ""

    def _yardstick(self, one: JudgedTable, yardstick: Yardstick) -> None:
        is_part = any(other.is_whole for other in one.yardsticks)
        scope = "" if not is_part else ", all NICs" if yardstick.is_whole else ", NICs in use"
        what = {
            RING: "what rings carry",
            OPTIMUM: "the optimum, exact",
            IN_NETWORK: "the optimum with sums in the switches",
        }[yardstick.name]
        if yardstick.limit.is_upper_bound:
            what = "an upper bound with sums in the switches"
        bandwidth = self._rates(yardstick.limit.busbw)
        self._say(yardstick.name, f"{bandwidth:>12} {yardstick.share:>5.0%}  of {what}{scope}")

    def _suspects(self, found: Diagnosis) -> None:
        self._output.line()
        if not found.suspects and found.judgements:
            self._say("suspects", "none: no line of the log speaks against the figure")
        elif not found.suspects:
            self._say("suspects", "none; what only a low figure brings up was not looked for")
        for number, suspect in enumerate(found.suspects, start=1):
            self._suspect(number, suspect)
        if found.log.n_warnings:
            self._say(
                "warnings",
                f"{counted(found.log.n_warnings, 'warning')} of NCCL; the first, line "
                f"{found.log.warnings[0].number}: {found.log.warnings[0].text}",
            )

    def _suspect(self, number: int, suspect: Suspect) -> None:
        self._say(f"suspect {number}", suspect.text)
        for line in suspect.lines:
            self._say("", f"line {line.number}: {line.text}")
        self._say("", f"remedy: {suspect.remedy}")

    def _gb(self, value: float) -> str:
        """A figure of nccl-tests, in GB/s with two decimals."""
        return self._rates(Fraction(round(value * 100)) * 10**7)
