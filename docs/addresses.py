"""The address of the repository, for the files that need it.

    python docs/addresses.py    # after a change of [project.urls] in pyproject.toml

`Repository` of `[project.urls]` is the only place where the address is entered; without
it, the repository has none. The command writes it into CITATION.cff, the description of
the package and the notebooks. MkDocs loads this file as a hook: links of pages to files
outside `docs/` lead to the repository, or are plain words while it has no address.
"""

import posixpath
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
# Line of pyproject.toml that makes the README's relative links absolute
SUBSTITUTIONS = (
    r"substitutions = ["
    r" {{ pattern = '(!\[[^\[\]]*\]\()(?!https?:)', replacement = '\1{0}/raw/main/' }},"
    r" {{ pattern = '\]\((?!https?:|#)', replacement = ']({0}/blob/main/' }} ]"
)


def project() -> dict:
    """Returns the table `[project]` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def repository() -> str:
    """Returns the address of the repository, "" while there is none."""
    return project()["urls"].get("Repository", "").rstrip("/")


# ------------------------------------------------------- files that have the address


def texts(address: str, read=Path.read_text) -> dict[Path, str]:
    """Returns the text of each file that has the address, with this one in it."""
    wheel = f"jaxproto-{project()['version']}-py3-none-any.whl"
    source = f"git+{address}" if address else wheel
    cited = f"repository-code: {address}\n" if address else ""
    substituted = SUBSTITUTIONS.format(address) if address else "substitutions = []"
    lines = {
        "CITATION.cff": (
            r"(?<=\nlicense: Apache-2.0\n)(repository-code: .*\n)?",
            cited,
        ),
        "pyproject.toml": (r"(?m)^substitutions = .*$", substituted),
        "colab/*.ipynb": (r'(?<="SOURCE = \\")[^"\\]*', source),
    }
    return {
        path: _replaced(read(path), *line)
        for files, line in lines.items()
        for path in sorted(ROOT.glob(files))
    }


def _replaced(text: str, pattern: str, new: str) -> str:
    text, count = re.subn(pattern, lambda _: new, text)
    assert count == 1, pattern
    return text


# ------------------------------------------------------------------------ MkDocs


def on_config(config):
    """Sets the repository of the site."""
    if address := repository():
        config.repo_url, config.edit_uri = address, "edit/main/docs/"
        config.repo_name = posixpath.basename(address)
    return config


def on_page_markdown(markdown, page, **_):
    """Replaces the links of a page to files outside `docs/`."""
    return site_links(markdown, page.file.src_uri, repository())


def site_links(markdown: str, page: str, address: str) -> str:
    """Returns a page whose links to files outside `docs/` work on the site.

    Args:
      markdown: Text of the page.
      page: Path of the page in `docs/`.
      address: Address of the repository, or "".
    """

    def replace(link):
        target = posixpath.join("docs", posixpath.dirname(page), link[2])
        path = posixpath.normpath(target)
        if path.startswith("docs/") or not (ROOT / path).exists():
            return link[0]
        if address:
            return f"[{link[1]}]({address}/blob/main/{path}{link[3] or ''})"
        return f'<span title="{path}">{link[1]}</span>'

    return LINK.sub(replace, markdown)


if __name__ == "__main__":
    for path, text in texts(repository()).items():
        path.write_text(text)
