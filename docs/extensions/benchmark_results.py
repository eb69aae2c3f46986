"""Benchmark results in pages, read when the site is built: nobody types a number.

============================ =============================================================
``{measured} first-page``    the table of the first page
``{measured} competitors``   one table a data set that was compared
``{measured} gpu``           fits on a GPU
``{measured} NAME``          ``benchmarks/results/NAME.csv`` with readable headings
``{measured-panels}``        the panels of the first page, seconds against accuracy
============================ =============================================================
"""

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import picture
import published


class Measured(SphinxDirective):
    """A table from the committed results; a build without them fails rather than show nothing."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name == "competitors":
            return [node for data in published.compared_sets() for node in self._compared(data)]
        if name == "first-page":
            return self._table(published.first_page())
        table = published.gpu_fits() if name == "gpu" else None
        if name in published.SIMPLE:
            table = published.simple(name, published.SIMPLE[name])
        if table is None:
            raise self.error(f"benchmarks/results has nothing for {name!r}")
        return self._table(table)

    def _compared(self, data: str) -> list[nodes.Node]:
        section = nodes.section(ids=[f"on-{data}"], names=[f"on {data}"])
        section += nodes.title("", f"{data}, {published.rows_of(data)}")
        section += self._table(published.competitors(data))
        return [section]

    def _table(self, table: published.Published) -> list[nodes.Node]:
        holder = nodes.container(classes=["measured"])
        lines = StringList(table.markdown().splitlines(), self.get_source_info()[0])
        self.state.nested_parse(lines, self.content_offset, holder)
        return [holder]


class MeasuredPanels(SphinxDirective):
    """The panels of the first page, as many beside each other as fit."""

    def run(self) -> list[nodes.Node]:
        panels = "".join(picture.panel(name) for name in published.FIRST_PAGE)
        html = f'<div class="panels">{panels}</div>{picture.legend()}'
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> dict:
    app.add_directive("measured", Measured)
    app.add_directive("measured-panels", MeasuredPanels)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
