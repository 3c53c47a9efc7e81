"""What mkdocs does not do by itself: Markdown as GitHub reads it, anchors as GitHub names them,
search without a web server, and a check of every link of the finished site."""

import html.parser
import json
import os
import posixpath
import re
import urllib.parse

from mkdocs.exceptions import PluginError

ITEM = re.compile(r"^( *)([-*]|\d+\.) +(?=\S)")
LINK = re.compile(r"\[((?:`[^`]*`|!?\[[^\]]*\]\([^)]*\)|[^\[\]`])*)\]\(([^)\s]+)\)")


def on_config(config):
    config["mdx_configs"].setdefault("toc", {})["slugify"] = anchor
    return config


def anchor(text, separator):
    """Names an anchor as GitHub does: small letters, hyphens for spaces, no punctuation."""
    return re.sub(r"[^\w -]", "", text.lower()).replace(" ", separator)


def on_page_markdown(markdown, page, config, files):
    return inside_the_site(indented(markdown), page, files)


def indented(markdown):
    """Re-indents lists: GitHub nests by the width of the marker, Python-Markdown by four columns."""
    out, items, fence, before = [], [], None, ""
    for line in markdown.split("\n"):
        text = line.lstrip(" ")
        indent = len(line) - len(text)
        if fence is None and text:
            while items and indent < items[-1]:
                items.pop()
        level = len(items)
        if fence is None:
            item = ITEM.match(line)
            if item:
                if not items and before.strip() and not before.startswith(("    ", "#")) and not in_list(out):
                    out.append("")
                items.append(item.end())
                line = "    " * level + line[indent:]
                line = re.sub(r"^( *(?:[-*]|\d+\.)) +", r"\1 ", line)
            elif text and items:
                line = "    " * level + " " * (indent - items[-1]) + text
            opening = re.match(r"(`{3,}|~{3,})", text)
            if opening:
                fence, fence_indent, fence_level = opening.group(1), indent, level
        else:
            line = ("    " * fence_level + line[min(indent, fence_indent):]) if text else ""
            if text.startswith(fence) and not text.strip("`~"):
                fence = None
        out.append(line)
        before = line
    return "\n".join(out)


def in_list(out):
    """Reports whether the last paragraph is part of a list."""
    for line in reversed(out):
        if not line.strip():
            return False
        if ITEM.match(line):
            return True
    return False


def inside_the_site(markdown, page, files):
    """Turns links to files that are not part of the site, such as source, into plain text."""
    folder = posixpath.dirname(page.file.src_path)
    known = {f.src_path for f in files}

    def replace(link):
        text, target = link.group(1), link.group(2)
        if re.match(r"[a-z]+:|#", target):
            return link.group(0)
        path = posixpath.normpath(posixpath.join(folder, target.split("#")[0]))
        if path in known:
            return link.group(0)
        return text

    # Code is left as it is: it has no links.
    parts = re.split(r"(^ *```.*?^ *```)", markdown, flags=re.M | re.S)
    return "".join(p if i % 2 else LINK.sub(replace, p) for i, p in enumerate(parts))


def on_post_page(output, page, config):
    """Loads the index of search as a script, before the theme asks for it by a request."""
    base = posixpath.relpath(".", posixpath.dirname(page.file.dest_path) or ".")
    scripts = "".join(f'<script src="{base}/{s}"></script>' for s in ("site/offline.js", "search/search_index.js"))
    return output.replace("</head>", scripts + "</head>", 1)


def on_post_build(config):
    site = config["site_dir"]
    path = os.path.join(site, "search", "search_index.json")
    with open(path, encoding="utf-8") as f:
        index = json.load(f)
    # The reference of JSON names every word of the handbook in its headings, and would come first.
    index["docs"] = [e for e in index["docs"] if not e["location"].startswith("docs/json.html#")]
    text = json.dumps(index, ensure_ascii=False, sort_keys=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    with open(os.path.join(site, "search", "search_index.js"), "w", encoding="utf-8") as f:
        f.write("var __search = {index: Promise.resolve(" + text + ")};\n")
    broken = check(site)
    if broken:
        raise PluginError("%d broken links:\n%s" % (len(broken), "\n".join(broken)))


class Page(html.parser.HTMLParser):
    """The links and anchors of a page."""

    def __init__(self):
        super().__init__()
        self.links, self.anchors = set(), set()

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src", "srcset") and value:
                self.links.add(value)


def check(site):
    """Lists each link to a file or an anchor that the site lacks, or to another machine's script or picture."""
    pages = {}
    for folder, _, names in os.walk(site):
        for name in names:
            if name.endswith(".html"):
                path = os.path.relpath(os.path.join(folder, name), site)
                pages[path] = Page()
                with open(os.path.join(site, path), encoding="utf-8") as f:
                    pages[path].feed(f.read())
    broken = []
    for path, page in sorted(pages.items()):
        if path == "404.html":  # its links are those of the root of a web server
            continue
        for link in sorted(page.links):
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            to = path
            if url.path:
                to = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(url.path)))
            if os.path.isdir(os.path.join(site, to)):
                to = os.path.join(to, "index.html")
            if not os.path.exists(os.path.join(site, to)):
                broken.append(f"{path}: {link}: no such file")
            elif url.fragment and to in pages and urllib.parse.unquote(url.fragment) not in pages[to].anchors:
                broken.append(f"{path}: {link}: no such heading")
    if len(pages) < 40:
        broken.append(f"only {len(pages)} pages were built")
    return broken
