"""Words for the small pictures of the gallery's index, which come without: the example's title."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

_THUMBNAIL = re.compile(r"sphx_glr_(plot_\w+)_thumb")


def describe_thumbnails(app: Sphinx, doctree: nodes.document) -> None:
    examples = Path(app.config.sphinx_gallery_conf["examples_dirs"])
    for image in doctree.findall(nodes.image):
        found = _THUMBNAIL.search(image["uri"])
        if found and not image.get("alt"):
            title = (examples / f"{found[1]}.py").read_text().splitlines()[1]
            image["alt"] = f"Picture of the example: {title.replace('`', '')}"


def setup(app: Sphinx) -> dict:
    app.connect("doctree-read", describe_thumbnails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
