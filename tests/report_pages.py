"""Reports as a browser sees them: their texts, tables and pictures."""

from html.parser import HTMLParser

import hockeystick as hs

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Texts, table rows and attributes of a page; fails on tags that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.texts, self.tags, self.attributes = [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    def row(self, first):
        (found,) = {tuple(row) for row in self.rows if row and row[0] == first}
        return found


def page(source, tmp_path, **options):
    path = tmp_path / "report.html"
    assert hs.report(source, path, **options) == path
    return Page(path.read_text("utf-8"))


def words(found):
    return " ".join(" ".join(found.texts).split())
