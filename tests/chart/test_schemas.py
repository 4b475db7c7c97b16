"""The schemas for kubeconform are stricter than the definitions: an unknown field is an error."""

import json
from pathlib import Path

from sandbox import schemas

DEFINITION = {
    "spec": {
        "group": "example.com",
        "names": {"kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "metadata": {"type": "object"},
                            "open": {
                                "type": "object",
                                "properties": {"a": {"type": "string"}},
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                            "list": {
                                "type": "array",
                                "items": {"type": "object", "properties": {}},
                            },
                            "map": {
                                "type": "object",
                                "additionalProperties": {"type": "object", "properties": {}},
                            },
                        },
                    }
                },
            }
        ],
    }
}


def test_objects_take_only_the_fields_that_are_defined(tmp_path: Path) -> None:
    schemas.write(DEFINITION, tmp_path)
    schema = json.loads((tmp_path / "example.com" / "thing_v1.json").read_text("utf-8"))
    found = schema["properties"]
    assert schema["additionalProperties"] is False
    assert found["list"]["items"]["additionalProperties"] is False
    assert found["map"]["additionalProperties"]["additionalProperties"] is False


def test_what_is_left_open_stays_open(tmp_path: Path) -> None:
    schemas.write(DEFINITION, tmp_path)
    schema = json.loads((tmp_path / "example.com" / "thing_v1.json").read_text("utf-8"))
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert "additionalProperties" not in schema["properties"]["open"]
