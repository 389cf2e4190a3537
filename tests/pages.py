"""Pages as a strict parser reads them."""

from xml.etree.ElementTree import Element

import html5lib

XHTML = "{http://www.w3.org/1999/xhtml}"


def parsed(page: str) -> Element:
    """The tree of a page; any parse error of the HTML standard raises."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=True)
    tree: Element = parser.parse(page)
    return tree


def words(element: Element) -> str:
    """The text of an element and of everything in it, with single spaces."""
    return " ".join("".join(element.itertext()).split())


def named(tree: Element, name: str) -> list[Element]:
    """Every HTML element of that name, in order."""
    return list(tree.iter(f"{XHTML}{name}"))
