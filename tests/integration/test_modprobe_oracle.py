# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""modprobe itself says what a configuration means; the collection's own evaluation has to agree with it.

Two ways to ask it: `modprobe -C DIR ... --showconfig` with the directories in kmod's order, for anybody, and
`modprobe --showconfig` in a chroot, for root, where the priority of the directories and the kernel command line are
modprobe's own business. `KMOD_ROOT=/dir` takes the modprobe of another root directory (another version of kmod).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod import cmdline, config
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.kmod import (
    RELEASE,
    Oracle,
    Tree,
    dummy_module,
    fill,
    kernel_words,
    ours,
    shown,
)

ETC, RUN, LOCAL, _USR, LIB = (directory + "/" for directory in config.DIRECTORIES)
NULL = Path("/dev/null")
LONG = "x" * 5000

# name: files
TREES: dict[str, Tree] = {
    "nothing": {},
    "empty file": {ETC + "a.conf": ""},
    "one line": {ETC + "a.conf": "options ib_core netns_mode=0\n"},
    "no newline at the end": {ETC + "a.conf": "options ib_core netns_mode=0"},
    "several parameters on a line": {ETC + "a.conf": "options ib_core netns_mode=0 send_queue_size=64 x=1\n"},
    "dash in the module's name": {ETC + "a.conf": "options ib-core netns_mode=0\n"},
    "dash in the parameter's name": {ETC + "a.conf": "options ib_core netns-mode=0\n"},
    "dash and underscore mixed": {ETC + "a.conf": "options a-b_c-d x-y=1\noptions a_b-c_d x_y=2\n"},
    "two lines, last wins": {ETC + "a.conf": "options ib_core netns_mode=0\noptions ib_core netns_mode=1\n"},
    "the same line twice": {ETC + "a.conf": "options ib_core netns_mode=0\n" * 2},
    "twice on a line": {ETC + "a.conf": "options ib_core netns_mode=0 netns_mode=1 netns_mode=0\n"},
    "blanks and tabs": {ETC + "a.conf": " \t options\t\tib_core \t netns_mode=0\t x=1  \n"},
    "tab in a quoted value": {ETC + "a.conf": 'options ib_core a="x\ty" b=2\n'},
    "only blanks after the module": {ETC + "a.conf": "options ib_core  \noptions ib_core \noptions ib_core\noptions\n"},
    "comment": {ETC + "a.conf": "# options ib_core netns_mode=0\noptions ib_core x=1\n"},
    "comment with blanks before it": {ETC + "a.conf": "  # options ib_core netns_mode=0\noptions ib_core x=1\n"},
    "what looks like a comment at the end of a line": {ETC + "a.conf": "options ib_core x=1 # netns_mode=0\n"},
    "number sign in a value": {ETC + "a.conf": "options ib_core x=1#netns_mode=0 y=#\n"},
    "no blank after the number sign": {ETC + "a.conf": "#options ib_core netns_mode=0\n"},
    "continuation": {ETC + "a.conf": "options ib_core \\\nnetns_mode=0 \\\n x=1\noptions foo y=2\n"},
    "continuation within a word": {ETC + "a.conf": "opti\\\nons ib_c\\\nore netns_mo\\\nde=0\n"},
    "continued comment": {ETC + "a.conf": "# a comment \\\noptions ib_core netns_mode=0\noptions ib_core x=1\n"},
    "comment after a continuation": {ETC + "a.conf": "options ib_core x=1 \\\n# netns_mode=0\noptions ib_core y=2\n"},
    "continuation at the end of the file": {ETC + "a.conf": "options ib_core x=1 \\"},
    "continuation and newline at the end": {ETC + "a.conf": "options ib_core x=1 \\\n"},
    "continuation does not cross files": {
        ETC + "a.conf": "options ib_core x=1 \\\n",
        ETC + "b.conf": "netns_mode=0\noptions ib_core y=1\n",
    },
    "two backslashes": {ETC + "a.conf": "options ib_core path=c:\\\\dir\\\\\noptions ib_core x=1\n"},
    "three backslashes": {ETC + "a.conf": "options ib_core path=c:\\\\\\\nx y=2\n"},
    "backslash before any letter": {ETC + "a.conf": 'opt\\ions ib\\_core net\\ns_mode=\\0 \\"q=\\#\n'},
    "escaped number sign at the start": {ETC + "a.conf": "\\# options ib_core netns_mode=0\n"},
    "backslash and blank": {ETC + "a.conf": "options ib_core x=1 \\ \nnetns_mode=0\n"},
    "CR LF": {ETC + "a.conf": "options ib_core netns_mode=0\r\noptions ib_core x=1\r\n"},
    "CR LF after the module": {ETC + "a.conf": "options ib_core\r\noptions ib_core x=1\r\n"},
    "CR LF and a continuation": {ETC + "a.conf": "options ib_core x=1 \\\r\nnetns_mode=0\r\n"},
    "CR alone": {ETC + "a.conf": "options ib_core netns_mode=0\roptions ib_core x=1\n"},
    "form feed and vertical tab": {ETC + "a.conf": "\foptions ib_core x=1\noptions ib_core y=1\fz=2\vw=3\n"},
    "quotes": {ETC + "a.conf": 'options ib_core a="b c" "d=e f" g=h"i j"k l="" m="n\n'},
    "quote left open reaches into the next line": {ETC + "a.conf": 'options ib_core a="b\noptions ib_core c=d" e=f\n'},
    "single quotes": {ETC + "a.conf": "options ib_core a='b c'\n"},
    "two dashes end it": {ETC + "a.conf": "options ib_core a=1 -- b=2\noptions ib_core c=3\n"},
    "name without a value": {ETC + "a.conf": "options ib_core netns_mode\noptions ib_core x= =y z==1\n"},
    "dots and commas in values": {ETC + "a.conf": "options foo addr=10.0.0.1,10.0.0.2 pci=0000:3b:00.0 v=1.2.3\n"},
    "other commands": {
        ETC + "a.conf": "blacklist ib_core\nsoftdep ib_core pre: foo\nremove ib_core true\nOptions ib_core a=1\n"
        "option ib_core a=1\ninclude /x\nconfig /y\noptions ib_core b=2\n"
    },
    "alias and its options": {
        ETC + "a.conf": "options my-alias netns_mode=0\noptions ib_core x=1\n",
        ETC + "b.conf": "alias my-alias ib_core\n",
    },
    "brackets in names": {
        ETC + "a.conf": "options a-[b-c]-d x=1\noptions a] x=1\noptions [a x=1\noptions [a]-[b] x=1\n"
    },
    "long line": {ETC + "a.conf": "options ib_core " + " ".join(f"p{n}={LONG}" for n in range(20)) + " netns_mode=0\n"},
    "many lines": {ETC + "a.conf": "".join(f"options ib_core p{n % 7}={n}\n" for n in range(500))},
    "UTF-8": {ETC + "a.conf": "# größe\noptions ib_core name=größe à=1 netns_mode=0\n"},
    "a byte order mark hides the first line": {ETC + "a.conf": "\ufeffoptions ib_core a=1\noptions ib_core b=2\n"},
    "files are read in the order of their names": {
        ETC + "b.conf": "options ib_core x=b\n",
        ETC + "a.conf": "options ib_core x=a\n",
        ETC + "10.conf": "options ib_core x=10\n",
        ETC + "9.conf": "options ib_core x=9\n",
        ETC + "B.conf": "options ib_core x=B\n",
        ETC + "a-b.conf": "options ib_core x=a-b\n",
        ETC + "a_b.conf": "options ib_core x=a_b\n",
        ETC + "ä.conf": "options ib_core x=ä\n",
        ETC + "zz.conf": "options ib_core x=zz\n",
    },
    "names are sorted across directories": {
        LIB + "d.conf": "options ib_core x=lib\n",
        LOCAL + "c.conf": "options ib_core x=local\n",
        RUN + "b.conf": "options ib_core x=run\n",
        ETC + "a.conf": "options ib_core x=etc\n",
    },
    "etc hides run": {RUN + "a.conf": "options ib_core x=run\n", ETC + "a.conf": "options ib_core x=etc\n"},
    "run hides local": {LOCAL + "a.conf": "options ib_core x=local\n", RUN + "a.conf": "options ib_core x=run\n"},
    "local hides lib": {LOCAL + "a.conf": "options ib_core x=local\n", LIB + "a.conf": "options ib_core x=lib\n"},
    "etc hides all": {directory + "a.conf": f"options ib_core x={directory}\n" for directory in (LIB, LOCAL, RUN, ETC)},
    "an empty file hides": {ETC + "a.conf": "", LIB + "a.conf": "options ib_core x=lib\n"},
    "a link to /dev/null hides": {ETC + "a.conf": NULL, LIB + "a.conf": "options ib_core x=lib\n"},
    "a link to another file": {
        "/srv/real": "options ib_core x=linked\n",
        ETC + "a.conf": Path("/srv/real"),
        LIB + "a.conf": "options ib_core x=lib\n",
    },
    "a relative link to another file": {
        "/etc/real": "options ib_core x=linked\n",
        ETC + "a.conf": Path("../real"),
        ETC + "b.conf": Path("a.conf"),
    },
    "a link to nowhere that hides nothing": {ETC + "a.conf": Path("/nowhere"), ETC + "b.conf": "options ib_core x=1\n"},
    "a directory is no file and hides nothing": {ETC + "a.conf": None, LIB + "a.conf": "options ib_core x=lib\n"},
    "a link to a directory": {
        ETC + "a.conf": Path("/run"),
        RUN + "x.conf": "options ib_core x=1\n",
        LIB + "a.conf": "options ib_core x=lib\n",
    },
    "only *.conf": {
        ETC + name: f"options ib_core x={name}\n"
        for name in ("a", "a.conf.bak", "a.conf~", "a.CONF", "aconf", ".a.conf", ".conf", "#a.conf#", "a.conf.conf")
    },
    "names of backups": {
        ETC + name: f"options ib_core x={name}\n"
        for name in ("a.conf.rdmaops-backup", "a.conf.rdmaops-backup.1", ".a.conf.rdmaops-new", "a.conf.dpkg-old")
    },
    "a name with blanks": {ETC + "a b.conf": "options ib_core x=1\n"},
    "a directory of a directory": {ETC + "sub/a.conf": "options ib_core x=1\n"},
    "the same in many files": {
        f"{directory}{n:02}-{n % 3}.conf": f"options ib_core x={n} y={directory} # {n}\n"
        for n, directory in enumerate((ETC, RUN, LOCAL, LIB) * 6)
    },
    "deep duplicates with comments between": {
        ETC + "50-a.conf": "# first\noptions ib_core netns_mode=1\n\n\n# then\noptions ib-core netns-mode=0\n",
        LIB + "50-a.conf": "options ib_core netns_mode=2\n",
        RUN + "40-a.conf": "options ib_core netns_mode=3\n",
        LIB + "60-a.conf": "options ib_core recv_queue_size=4 netns_mode=1\n",
        ETC + "60-a.conf.off": "options ib_core netns_mode=5\n",
    },
}

# Command lines, as they stand in /proc/cmdline.
CMDLINES: dict[str, str] = {
    "none": "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro quiet\n",
    "one": "ro ib_core.netns_mode=0 quiet\n",
    "dashes": "ro ib-core.netns-mode=0\n",
    "twice": "ib_core.netns_mode=0 ib_core.netns_mode=1\n",
    "quoted value": 'a=b ib_core.x="a b" ib_core.y=1\n',
    "quoted as GRUB writes it": 'a=b "ib_core.x=a b" ib_core.y=1\n',
    "quote left open": 'ib_core.x=1 ib_core.y="a ib_core.z=2\n',
    "quote in the name": 'ib_"core.x=1" "ib_core".y=1 ib_core.z=2\n',
    "quoted without value": '"ib_core.x" ib_core.y\n',
    "blank in quotes before the value": '"ib_core .x=1" ib_core.y=2\n',
    "after the two dashes": "ib_core.x=1 -- ib_core.y=2\n",
    "dot in the value": "ib_core.x=1.2.3 ib_core.y.z=1 root=a.b\n",
    "equals before the dot": "a=ib_core.x=1 ib_core.y=a=b ib_core.=1 .z=1\n",
    "tabs": "\tib_core.x=1\tib_core.y=2\t\n",
    "no newline": "ib_core.x=1",
    "quotes inside the value": 'ib_core.x=a"b c"d ib_core.y="a"b ib_core.z=1\n',
    "comment sign": "ib_core.x=1 # ib_core.y=2\n",
    "cut after 4095 bytes": "x" * 4080 + " ib_core.x=1 ib_core.y=2\n",
    "cut within a value": "x" * 4080 + " ib_core.x=1234567\n",
    "blacklist": "modprobe.blacklist=ib_core,foo ib_core.x=1\n",
}


@pytest.fixture(scope="module")
def modprobe() -> tuple[str, int]:
    """Return modprobe and the version of kmod."""
    tool = need_tool("modprobe")
    version = re.search(r"version (\d+)", subprocess.run([tool, "--version"], capture_output=True, text=True).stdout)
    assert version
    return tool, int(version.group(1))


@pytest.fixture(scope="module")
def oracle(modprobe: tuple[str, int], tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """Return modprobe in a chroot: itself, the libraries it needs, and an empty configuration."""
    need_root()
    need_tool("ldd")
    tool, version = modprobe
    root = tmp_path_factory.mktemp("kmod")
    other = os.environ.get("KMOD_ROOT")
    if other:
        subprocess.run(["cp", "-a", other + "/.", str(root)], check=True, timeout=120)
        text = subprocess.run(["chroot", str(root), "/usr/sbin/modprobe", "--version"], capture_output=True).stdout
        version = int(re.search(rb"version (\d+)", text).group(1))  # type: ignore[union-attr]
    else:
        copies = {"/usr/sbin/modprobe": os.path.realpath(tool)}
        listed = subprocess.run(["ldd", os.path.realpath(tool)], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/[^ ]+) \(0x", listed):
            copies[library] = library
        for name, source in copies.items():
            (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, root / name[1:])
    for directory in ("etc", "proc", "dev", "run", "lib"):
        (root / directory).mkdir(exist_ok=True)
    subprocess.run(["mknod", "-m", "666", str(root / "dev/null"), "c", "1", "3"], check=True)
    (root / "proc/cmdline").write_text("")
    return Oracle(root, version)


def test_there_are_enough_trees() -> None:
    assert len(TREES) >= 40


@pytest.mark.parametrize("name", TREES)
def test_tree_in_a_chroot(oracle: Oracle, name: str) -> None:
    oracle.fill(TREES[name])
    tree = config.read_tree(str(oracle.root))
    assert not tree.unreadable
    assert ours(tree) == oracle.options()


@pytest.mark.parametrize("name", TREES)
def test_tree_by_option_C(modprobe: tuple[str, int], tmp_path: Path, name: str) -> None:  # noqa: N802
    tree = {path: link_inside(tmp_path, content) for path, content in TREES[name].items()}
    fill(tmp_path, tree)
    assert ours(config.read_tree(str(tmp_path))) == by_option(modprobe, tmp_path)


def link_inside(root: Path, content: str | Path | None) -> str | Path | None:
    """Without a chroot an absolute link has to name the place on this machine."""
    if isinstance(content, Path) and content.is_absolute() and content != NULL:
        return Path(os.path.relpath(str(root) + str(content), str(root) + "/etc/modprobe.d"))
    return content


def by_option(modprobe: tuple[str, int], root: Path) -> list[tuple[bytes, bytes]]:
    tool, version = modprobe
    directories = [str(root) + directory for directory in config.DIRECTORIES]
    (root / "empty").mkdir(exist_ok=True)

    def ask(where: list[str]) -> list[tuple[bytes, bytes]]:
        arguments = [part for directory in where for part in ("-C", directory)]
        done = subprocess.run([tool, *arguments, "--showconfig"], capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return shown(done.stdout, version)

    # Parameters from this machine's own command line come last, whatever the configuration.
    from_cmdline = ask([str(root / "empty")])
    result = ask(directories)
    return result[: len(result) - len(from_cmdline)]


def agree_on_cmdline(oracle: Oracle, text: str) -> None:
    oracle.fill({})
    (oracle.root / "proc/cmdline").write_text(text)
    try:
        expected: dict[str, str] = {}
        for module, rest in oracle.options():
            if module == b"ib_core":
                expected.update(kernel_words(rest.decode()))
    finally:
        (oracle.root / "proc/cmdline").write_text("")
    assert cmdline.cmdline_settings(text, "ib_core") == expected


@pytest.mark.parametrize("name", CMDLINES)
def test_kernel_command_line(oracle: Oracle, name: str) -> None:
    agree_on_cmdline(oracle, CMDLINES[name])


@pytest.fixture(scope="module")
def modules(oracle: Oracle) -> Oracle:
    """Return the oracle with one module, ib_core, for which modprobe tells what it would hand to the kernel."""
    depmod = need_tool("depmod")
    where = oracle.root / "lib/modules" / RELEASE / "kernel"
    where.mkdir(parents=True)
    (where / "ib_core.ko").write_bytes(dummy_module())
    done = subprocess.run([depmod, "-b", str(oracle.root), RELEASE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return oracle


def test_later_lines_come_later_in_what_the_kernel_gets(modules: Oracle) -> None:
    """The kernel's parse_args() sets parameters one by one, so the last one stays."""
    modules.fill(
        {
            ETC + "b.conf": "options ib_core netns_mode=b\n",
            LIB + "a.conf": "options ib_core netns_mode=a\noptions ib_core netns_mode=a2\n",
        }
    )
    (modules.root / "proc/cmdline").write_text("ro ib_core.netns_mode=cmdline\n")
    try:
        assert modules.parameters().split() == [f"netns_mode={value}" for value in ("a", "a2", "b", "cmdline")]
    finally:
        (modules.root / "proc/cmdline").write_text("")
    tree = config.read_tree(str(modules.root), module="ib_core")
    assert [setting.value for setting in config.history(tree, "ib-core", "netns-mode")] == ["a", "a2", "b"]
    assert config.settings(tree, "ib_core")["netns_mode"].value == "b"


@pytest.mark.parametrize("name", TREES)
def test_what_the_kernel_gets(modules: Oracle, name: str) -> None:
    modules.fill(TREES[name])
    tree = config.read_tree(str(modules.root), module="ib_core")
    expected = dict(kernel_words(modules.parameters()))
    assert {key: setting.value for key, setting in config.settings(tree, "ib_core").items()} == expected


def test_options_of_an_alias_count_only_where_it_is_loaded_by_the_alias(modules: Oracle) -> None:
    modules.fill(
        {ETC + "a.conf": "alias my-alias ib_core\noptions my_alias netns_mode=0\noptions ib_core netns_mode=1\n"}
    )
    assert modules.parameters().split() == ["netns_mode=1"]
    assert modules.parameters("my-alias").split() == ["netns_mode=0", "netns_mode=1"]
    tree = config.read_tree(str(modules.root), module="ib_core")
    assert [(assignment.module, assignment.value) for assignment in tree.assignments] == [
        ("my_alias", "0"),
        ("ib_core", "1"),
    ]


def test_what_we_write_is_what_the_kernel_gets(modules: Oracle) -> None:
    options = {"a": "x", "b": "x y", "c": "a#b", "d": "c:\\dir\\", "e": "", "f": "tab\there", "g": "größe à", "h": "'"}
    modules.fill({ETC + "a.conf": config.render("ib_core", options, "# ours")})
    # kmod makes a blank of every tab.
    assert dict(kernel_words(modules.parameters())) == {**options, "f": "tab here"}


NAMES = st.sampled_from(["a.conf", "b.conf", "a.b.conf", "zz.conf", "B.conf", "c", "a.conf.bak"])
DIRS = st.sampled_from([ETC, RUN, LOCAL, LIB])
PIECES = st.sampled_from(
    [
        "options", "options ", "options ib_core ", "\noptions ib-core ", "alias ", "ib_core", "ib-core", "foo ", " ",
        "\t", "\n", "\\\n", "\\", "\r\n", "#", "# ", '"', "=", "netns_mode=0", " netns-mode=1", ' a="b c"', " --",
        "x=1", "[", "]", "\v", "ä", "\u00a0", "'", ".",
    ]
)  # fmt: skip
# What is no text is refused before it is evaluated.
LETTERS = st.characters(
    min_codepoint=9, max_codepoint=0x2FF, exclude_characters=[chr(n) for n in range(14, 32)] + ["\x7f"]
)
TEXTS = st.one_of(
    st.lists(PIECES, max_size=30).map("".join),
    st.text(LETTERS, max_size=80).map(lambda text: "options ib_core " + text),
)
FORESTS = st.dictionaries(st.tuples(DIRS, NAMES).map("".join), TEXTS, max_size=5)
FEW, MANY = (
    settings(max_examples=number, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    for number in (40, 3000)
)


def agree(oracle: Oracle, forest: dict[str, str]) -> None:
    tree_of_texts: Tree = dict(forest)
    oracle.fill(tree_of_texts)
    assert ours(config.read_tree(str(oracle.root))) == oracle.options()
    tree = config.read_tree(str(oracle.root), module="ib_core")
    if any(line.command == "alias" and line.module == "ib_core" for line in tree.directives):
        # By that name modprobe looks for what the alias leads to. Other modules load ib_core by its file, as ever.
        return
    expected = dict(kernel_words(oracle.parameters()))
    assert {key: setting.value for key, setting in config.settings(tree, "ib_core").items()} == expected


@FEW
@given(forest=FORESTS)
def test_any_tree(modules: Oracle, forest: dict[str, str]) -> None:
    agree(modules, forest)


@pytest.mark.long
@MANY
@given(forest=FORESTS)
def test_very_many_trees(modules: Oracle, forest: dict[str, str]) -> None:
    agree(modules, forest)


CMDLINE_PIECES = st.sampled_from(
    ["ib_core", "ib-core", ".", "=", '"', " ", "\t", "netns_mode", "x", "1", "--", "ib_core.x=1", ' "ib_core.y=', "#",
     "a.b"]
)  # fmt: skip


@FEW
@given(text=st.lists(CMDLINE_PIECES, max_size=25).map("".join))
def test_any_command_line(oracle: Oracle, text: str) -> None:
    agree_on_cmdline(oracle, text)


@pytest.mark.long
@MANY
@given(text=st.lists(CMDLINE_PIECES, max_size=25).map("".join))
def test_very_many_command_lines(oracle: Oracle, text: str) -> None:
    agree_on_cmdline(oracle, text)
