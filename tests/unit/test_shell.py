"""Which files a shell command may change: never taken for harmless by quoting, nor for harmful by its texts."""

from __future__ import annotations

import os
import statistics
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher.shell.effects import find_effects

_NAMED = [
    ("rm a b", "a b"),
    ("/bin/rm -rf a", "a"),
    ("r\\m x", "x"),
    ("'r'\"m\" x", "x"),
    ("$'rm' x", "x"),
    ("\\\nrm x", "x"),
    ("rm -- -x", "-x"),
    ("rmdir d", "d"),
    ("unlink f", "f"),
    ("shred f", "f"),
    ("truncate -s 0 f", "f"),
    ("dd if=a of=b", "b"),
    ("tee -a f", "f"),
    ("echo hi | tee f", "f"),
    ("mv a b", "a b b/a"),
    ("cp -r a d", "d d/a"),
    ("cp -t d a", "d d/a"),
    ("install -m 644 a d", "d d/a"),
    ("rsync -a --delete src/ dst", "dst dst/src"),
    ("ln -sf a b", "b b/a"),
    ("sed -i s/a/b/ f", "f"),
    ("sed -i.bak -e s/a/b/ f g", "f g"),
    ("sed -e 's/x/y/' --in-place f", "f"),
    ("perl -pi -e 's/a/b/' f", "f"),
    ("echo a > b", "b"),
    ("> b", "b"),
    ("echo a >> b", "b"),
    ("echo a >| b", "b"),
    ("echo a &> b", "b"),
    ("cat > f <<EOF && rm y\nhi $(rm z)\nEOF\n", "f y z"),
    ("cd sub && rm x && cd .. && rm y", "sub/x y"),
    ("(cd a && rm x) && rm y", "a/x y"),
    ("(cd a && rm x) & wait", "a/x"),
    ("sudo -u root env A=b nice -n 5 rm x", "x"),
    ("timeout 5 rm x", "x"),
    ("nohup rm x &", "x"),
    ("watch -n 1 'rm x'", "x"),
    ("env -S 'rm x'", "x"),
    ("env -i A=b rm x", "x"),
    ("su -c 'rm x' me", "x"),
    ("flock lock rm x", "x"),
    ("command cd sub && rm x", "sub/x"),
    ("find . -exec sh -c 'rm x' \\;", "x"),
    ("time rm x", "x"),
    ("command rm x", "x"),
    ("! rm x", "x"),
    ("if true; then rm x; fi", "x"),
    ("while read l; do rm x; done", "x"),
    ("case $a in b) rm x;; esac", "x"),
    ("f() { rm x; }; f", "x"),
    ("a=$(rm x)", "x"),
    ('echo "$(rm x)"', "x"),
    ("echo `rm x`", "x"),
    ("cat <(rm x)", "x"),
    ("true && { rm x; }", "x"),
    ("false || rm x", "x"),
    ("bash -c 'rm x; bash -c \"rm y\"'", "x y"),
    ("sh -ec 'rm x'", "x"),
    ("sudo bash <<'EOF'\nrm x\nEOF\n", "x"),
    ("bash <<< 'rm x'", "x"),
    ("eval 'rm x'", "x"),
    ("eval rm x", "x"),
    ("trap 'rm -f t' EXIT", "t"),
    ("gzip f", "f"),
    ("curl -o f http://x", "f"),
    ("sort -o f f", "f"),
    ("find . -fprint f", "f"),
]
_ANYTHING = [
    "rm *.txt",
    'rm "$f"',
    "rm ~/x",
    "rm {a,b}",
    "for f in *.txt; do rm $f; done",
    "$CMD x",
    '"$(echo rm)" x',
    "{rm,x}",
    "find . -name f -delete",
    "find . -exec rm {} \\;",
    "find . -execdir mv {} d +",
    "ls | xargs rm",
    "xargs -n1 -I{} mv {} d",
    "find . -print0 | xargs -0 sed -i s/a/b/",
    "curl http://x | sh",
    "echo rm x | sudo bash",
    'bash -c "$X"',
    "bash <<EOF\nrm $x\nEOF\n",
    'eval "$X"',
    "git reset --hard",
    "git -C sub clean -fd",
    "git checkout .",
    "git restore a",
    "git switch main",
    "git stash",
    "git rebase main",
    "git merge x",
    "git pull",
    "git rm a",
    "git apply p",
    "git -c alias.x='!rm a' x",
    "/usr/bin/git checkout -- a",
    "tar xzf a.tgz",
    "tar -C d -xf a.tar",
    "tar --extract -f a",
    "unzip a.zip",
    "patch -p1 < p",
    "gawk -i inplace 1 f",
    "cd $X && rm y",
    "popd; rm y",
    "if a; then cd b; fi; rm x",
    "if then rm",
    "echo 'open",
]
_HARMLESS = [
    "ls",
    "ls -la 2>&1",
    "ls > /dev/null 2>&1",
    "ls 2> /dev/null",
    "echo a >&2",
    "echo hi 2>&-",
    'echo "a > b"',
    "echo 'rm x'",
    "echo rm x",
    "echo a \\> b",
    'git commit -m "rm > x"',
    "git status && git log --oneline | head",
    "git stash list",
    "git apply --check p",
    "git diff HEAD",
    "git add .",
    "pip install x",
    "npm install",
    "apt install x",
    "cat f | grep rm",
    "grep -rn 'rm -rf' .",
    "sed -n 's/i/e/p' f",
    "sed -e 's/-i/x/' f",
    "perl -e 'print 1'",
    "awk '{ print $1 }' f",
    "find . -name rm",
    "find . -exec cat {} \\;",
    "ls | xargs cat",
    "find . -exec sudo cat {} +",
    "find . -exec sh -c 'cat a' \\; -print",
    "watch ls",
    "env",
    "tar tzf a.tgz",
    "tar czf a.tgz d",
    "unzip -l a.zip",
    "ln -s a b",
    "rsync --dry-run a b",
    "patch --dry-run -p1",
    "gzip -c f",
    "curl http://x",
    "[ a ] && [[ a > b ]]",
    "(( a > b ))",
    "cat <<'EOF'\nrm x > y\nEOF\n",
    "python3 - <<'EOF'\nprint('rm x')\nEOF\n",
    "# rm x",
    "ls # > x",
    "man rm",
    "which rm",
    "cat < f",
    "make",
    "bash script.sh",
    "bash -c 'ls; echo \"rm x\"'",
    "true",
    "",
]


@pytest.mark.parametrize(("command", "paths"), _NAMED)
def test_the_files_that_a_command_names_are_found(command: str, paths: str) -> None:
    effects = find_effects(command, "/p")
    assert sorted(effects.paths) == sorted(f"/p/{path}" for path in paths.split())
    assert not effects.anything


@pytest.mark.parametrize("command", _ANYTHING)
def test_what_is_not_known_beforehand_may_be_anything(command: str) -> None:
    assert find_effects(command, "/p").anything


@pytest.mark.parametrize("command", _HARMLESS)
def test_what_only_looks_harmful_is_not(command: str) -> None:
    effects = find_effects(command, "/p")
    assert (effects.paths, effects.anything) == (frozenset(), False)


def test_a_command_of_any_size_and_depth_has_an_answer() -> None:
    assert find_effects("rm \ud800", "/p").anything
    assert find_effects("rm \udcff", "/p").paths == {"/p/\udcff"}
    assert find_effects("(" * 5000 + "ls" + ")" * 5000, "/p").anything
    assert find_effects("ls;" * 200_000, "/p").anything
    assert find_effects("sudo " * 5000 + "rm x", "/p").anything


@given(st.text(st.characters(), max_size=200))
def test_no_text_is_too_odd_for_an_answer(command: str) -> None:
    assert all(os.path.isabs(path) for path in find_effects(command, "/p").paths)


def test_a_common_line_takes_less_than_a_millisecond() -> None:
    def measure(command: str) -> float:
        began = time.perf_counter()
        find_effects(command, "/p")
        return time.perf_counter() - began

    assert statistics.median(measure(command) for command in (*_HARMLESS, *_ANYTHING) for _ in range(3)) < 0.001
