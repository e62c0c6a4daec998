"""The repository has the address of pyproject.toml and no other."""

import re
import subprocess
import tomllib

from support.runs import ROOT

from docs import addresses

HERE = "https://host.example/us/it"  # a repository
HOST = r"(?:https?://|git@|\b[\w.-]+\.(?:com|org|io|dev|app)/)"
WORD = r"""[^\s<>()\[\]"'`\\]*"""
ADDRESS = re.compile(rf"{HOST}{WORD}jaxproto{WORD}", re.IGNORECASE)
# What pip looks up in an index, where the name is nobody's
INDEX = re.compile(
    r"""pip install\b[^\n|`]*[\s"']jaxproto(?:\[[a-z0-9,-]+\])?(?! @)["'`\s]"""
)


def texts():
    """Name and text of every file of the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(command, cwd=ROOT, text=True).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            yield name, (ROOT / name).read_text(errors="replace")


def test_the_files_that_need_the_address_have_it():
    """After a change of pyproject.toml: python docs/addresses.py."""
    for path, text in addresses.texts(addresses.repository()).items():
        assert path.read_text() == text, path


def test_no_file_has_another_address_or_installs_what_has_this_name_in_an_index():
    own, found = addresses.repository(), []
    for name, text in texts():
        there = [a for a in ADDRESS.findall(text) if not own or own not in a]
        if name.endswith((".md", ".ipynb")):
            there += INDEX.findall(text)
        found += [(name, address) for address in there]
    assert found == []


def test_these_would_be_found():
    host, name = "github.com", "jaxproto"
    for address in (
        f"https://{host}/{name}/{name}",
        f"git+https://{host}/{name}/{name}",
        f"https://raw.githubusercontent.com/{name}/it/main/docs/spiral.png",
        f"git clone git@{host}:{name}/{name}",
        f"see {host}/{name}/it",
        f"https://{name}.readthedocs.io",
    ):
        assert ADDRESS.search(address), address
    for line in (f"pip install {name}\n", f"python -m pip install -q '{name}[plots]'"):
        assert INDEX.search(line), line
    for line in ("pip install '.[plots]'", f"pip install './{name}[flower]'"):
        assert not INDEX.search(line), line


def test_an_address_that_is_entered_comes_into_the_files_and_goes_again():
    made = addresses.texts(HERE)
    text = {path.name: words for path, words in made.items()}
    assert f"\nrepository-code: {HERE}\n" in text["CITATION.cff"]
    assert f'"SOURCE = \\"git+{HERE}\\"' in text["sweep.ipynb"]
    hooks = tomllib.loads(text["pyproject.toml"])["tool"]["hatch"]["metadata"]["hooks"]
    page = "![a](docs/a.png) [b](docs/b.md#c) [d](https://d) [![e](https://e)](f)"
    for line in hooks["fancy-pypi-readme"]["substitutions"]:
        page = re.sub(line["pattern"], line["replacement"], page)
    assert page == (
        f"![a]({HERE}/raw/main/docs/a.png) [b]({HERE}/blob/main/docs/b.md#c) "
        f"[d](https://d) [![e](https://e)]({HERE}/blob/main/f)"
    )
    assert addresses.texts("", made.get) == addresses.texts("")
    assert addresses.texts(HERE, made.get) == made


def test_links_of_pages_out_of_docs_lead_to_the_repository_or_are_words():
    page = (
        "[a](../index.md#b) [c](https://d/e) [f](../../gone.md) ![g](../spiral.png) "
        "`h[0](x)` {} and [folder][1]"
    )
    link = "[`one`\ntwo](../../main.py#three)"

    def shown(address):
        return addresses.site_links(page.format(link), "how_to/data.md", address)

    plain = '<span title="main.py">`one`\ntwo</span>'
    assert shown("") == page.format(plain)
    assert shown(HERE) == page.format(f"[`one`\ntwo]({HERE}/blob/main/main.py#three)")
