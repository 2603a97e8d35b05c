# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a picture of a command's output on a terminal: run it, and draw what a person sees as an SVG.

python tests/tools/terminal.py docs/images/verify.svg --from "TASK" -- ansible-playbook -i inventories/lab rdmaops.gpu_fabric.verify
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import re
import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

WIDTH = 120
# Sequences that move the cursor, set a title or reset the terminal, which a picture does not need.
CONTROL = re.compile(r"\x1b\][^\x07]*\x07|\x1b\[[0-9;?]*[A-LN-Za-ln-z]|\x1b[ -/]*[0-Z\\^-~]")
# Without the fonts that rich's own template loads from elsewhere.
TEMPLATE = """\
<!-- Copyright: (c) 2026, rdmaops contributors. SPDX-License-Identifier: GPL-3.0-or-later -->
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def run(argv: list[str]) -> tuple[str, int]:
    """Run a command on a terminal of its own, and return what it has written and its exit status."""
    output = io.BytesIO()

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 65536)
        output.write(data)
        return data

    os.environ.update(COLUMNS=str(WIDTH), TERM="xterm-256color")
    status = os.waitstatus_to_exitcode(pty.spawn(argv, read))
    return output.getvalue().decode("utf-8", "replace").replace("\r\n", "\n"), status


def picture(text: str, title: str) -> str:
    """Return what a terminal shows as an SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(CONTROL.sub("", text)))
    return console.export_svg(title=title, theme=DEFAULT_TERMINAL_THEME, code_format=TEMPLATE)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument(
        "--from", dest="start", default="", help="leave out the lines before the last one that begins with this"
    )
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    text, status = run(arguments.command)
    lines = text.splitlines()
    if arguments.start:
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
        first = max((number for number, line in enumerate(plain) if line.startswith(arguments.start)), default=0)
        lines = lines[first:]
    arguments.picture.write_text(picture("\n".join(lines), shlex.join(arguments.command)))
    return status


if __name__ == "__main__":
    sys.exit(main())
