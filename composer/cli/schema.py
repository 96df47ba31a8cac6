"""`compose schema`."""

from __future__ import annotations

import json

import click

__all__ = ["command"]


@click.command("schema")
@click.argument("document", type=click.Choice(["images", "module", "lock"]))
def command(document: str) -> None:
    """Print the JSON Schema of a document, for editors that complete and check TOML."""
    from pydantic import BaseModel

    from .. import lock, spec

    models: dict[str, type[BaseModel]] = {
        "images": spec.ImagesFile,
        "module": spec.ModuleFile,
        "lock": lock.Lock,
    }
    schema = models[document].model_json_schema(by_alias=True)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    click.echo(json.dumps(schema, indent=2))
