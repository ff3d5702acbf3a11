"""Write ``docs/reference/`` again: the configuration and the OpenAPI document."""

import json
import sys
from pathlib import Path

from gateway import __version__
from gateway.config.catalogue import describe_sections
from gateway.config.documents import format_reference
from gateway.http.openapi import build_document

ROOT = Path(__file__).parents[1]


def build_documents() -> dict[str, str]:
    """Return the text of each document by its path below the checkout."""
    openapi = json.dumps(build_document(__version__), indent=2, ensure_ascii=False)
    return {
        "docs/reference/configuration.md": format_reference(describe_sections()),
        "docs/reference/openapi.json": openapi + "\n",
    }


def main() -> int:
    """Write the documents and return the exit status."""
    for path, text in build_documents().items():
        file = ROOT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        print(f"Wrote {path}")  # noqa: T201 - a command of a person
    return 0


if __name__ == "__main__":
    sys.exit(main())
