"""Payloads of Avro: records of one schema, each without a container's header or a registry's number in front of it.

They are read by fastavro, which is an extra (`headrace[avro]`) that driver and tasks then need.
"""

import json
import struct
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any


def check_avro(schema: str) -> None:
    """Raise ValueError, where a text is no schema of Avro for objects, or there is nothing to read Avro with."""
    parsed = _parsed_avro(schema)
    if not isinstance(parsed, dict) or parsed.get("type") not in {"record", "map"}:
        raise ValueError("is no schema of a record")


@cache
def _parsed_avro(schema: str) -> Any:
    try:
        from fastavro import parse_schema  # noqa: PLC0415  (an extra, for those who have Avro)
        from fastavro.schema import SchemaParseException, UnknownType  # noqa: PLC0415
    except ImportError:
        raise ValueError("needs fastavro: pip install 'headrace[avro]'") from None
    try:
        return parse_schema(json.loads(schema))
    except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"is no schema of Avro: {error}") from None


def avro_reader(schema: str) -> Callable[[bytes], dict[str, Any]]:
    """Return what reads records of a schema; it raises ValueError."""
    from fastavro import schemaless_reader  # noqa: PLC0415

    parsed = _parsed_avro(schema)

    def read(payload: bytes) -> dict[str, Any]:
        source = BytesIO(payload)
        try:
            found = schemaless_reader(source, parsed, None)
        except (EOFError, IndexError, struct.error):
            raise ValueError("the payload ends too early") from None
        except (TypeError, KeyError, ArithmeticError) as error:
            raise ValueError(f"the payload is not of its schema: {error}") from None
        if source.tell() != len(payload):
            raise ValueError("the payload has more than one value")
        if not isinstance(found, dict):
            raise ValueError("the payload is no object")
        return found

    return read
