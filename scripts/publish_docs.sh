#!/bin/sh
# Puts site/ into the branch gh-pages, under the folder of a version, and lists the versions for readers.
# usage: publish_docs.sh VERSION, where VERSION is "dev" or a tag such as v0.1.0; DRY_RUN=1 commits and does not push
set -eu
cd "$(dirname "$0")/.."
version=${1#v}
case $version in
    dev | [0-9]*.[0-9]*) ;;
    *) echo "VERSION must be dev or a tag such as v0.1.0, got '$1'" >&2; exit 2 ;;
esac
[ -f site/index.html ] && [ -f site/calculator/engine.js ] || { echo "run 'make calculator docs' first" >&2; exit 1; }

pages=$(mktemp -d)
first=publish-docs-$$
trap 'git worktree remove --force "$pages/tree" 2> /dev/null || true; git branch -qD "$first" 2> /dev/null || true
    rm -rf "$pages"' EXIT
if git fetch --quiet origin gh-pages 2> /dev/null; then
    git worktree add --quiet --detach "$pages/tree" FETCH_HEAD
else
    git worktree add --quiet --detach "$pages/tree"
    git -C "$pages/tree" checkout --quiet --orphan "$first"
    git -C "$pages/tree" rm -rfq .
fi
rm -rf "${pages:?}/tree/$version"
cp -R site "$pages/tree/$version"
if [ "$version" != dev ]; then
    rm -rf "$pages/tree/latest"
    cp -R site "$pages/tree/latest"
fi
# mkdocs-material reads this list for its menu of versions.
python3 - "$pages/tree" << 'END'
import json
import sys
from pathlib import Path

top = Path(sys.argv[1])
names = sorted((path.name for path in top.iterdir() if path.name[0].isdigit()), reverse=True,
               key=lambda name: [int(part) if part.isdigit() else -1 for part in name.replace("-", ".").split(".")])
entries = [{"version": name, "title": name, "aliases": ["latest"] if i == 0 else []} for i, name in enumerate(names)]
entries += [{"version": "dev", "title": "dev", "aliases": []}] if (top / "dev").exists() else []
(top / "versions.json").write_text(json.dumps(entries, indent=2) + "\n")
start = "latest" if names else "dev"
(top / "index.html").write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={start}/">\n')
(top / ".nojekyll").touch()
END
git -C "$pages/tree" add --all
git -C "$pages/tree" -c user.name=documentation -c user.email=documentation@localhost commit --quiet --allow-empty \
    -m "Publish the documentation of $version"
if [ -n "${DRY_RUN:-}" ]; then
    git -C "$pages/tree" ls-tree --name-only HEAD
else
    git -C "$pages/tree" push --quiet origin HEAD:gh-pages
fi
