"""Write ``docs/reference/configuration.md``: ``python -m gateway.config.reference``."""

import sys
from pathlib import Path
from typing import Final

from gateway.config.catalogue import describe_sections
from gateway.config.documents import format_reference

PATH: Final = Path("docs/reference/configuration.md")


def main() -> int:
    """Write the file below the working directory."""
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(format_reference(describe_sections()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
