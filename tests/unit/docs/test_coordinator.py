"""The page and the OpenAPI document for members in any language are correct."""

import asyncio
import re
from http import HTTPStatus
from pathlib import Path

import msgspec
from jsonschema import Draft202012Validator

from contract.following import Denial, Refusal
from tests import asking, described
from tests.asking import Asking

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "coordinator.md"


def read_blocks(language: str) -> list[str]:
    """List the blocks of code in this language."""
    return re.findall(rf"^```{language}\n(.*?)\n```", PAGE.read_text("utf-8"), re.S | re.M)


def test_the_document_is_openapi() -> None:
    """The golden data defines OpenAPI 3.1, except for schemas and the names in a path."""
    golden = ROOT / "tests" / "golden" / "openapi-3.1.json"
    Draft202012Validator(msgspec.json.decode(golden.read_bytes())).validate(described.DOCUMENT)
    for schema in described.DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    ((path, operations),) = described.DOCUMENT["paths"].items()
    named = [each["name"] for each in operations["parameters"] if each["in"] == "path"]
    assert named == re.findall(r"\{(\w+)\}", path)


def test_every_field_says_what_it_means() -> None:
    for name, schema in described.DOCUMENT["components"]["schemas"].items():
        for field, each in schema.get("properties", {}).items():
            assert each.get("description"), f"{name}.{field}"


def test_every_reason_is_on_the_page_and_in_the_document() -> None:
    reasons = {each.value for each in (*Refusal, *Denial)}
    rows = re.findall(r"^\| [0-9]+ \| `(\w+)` \|", PAGE.read_text("utf-8"), re.M)
    assert set(rows) == reasons
    answers = described.OPERATIONS["post"]["responses"].values()
    schemas = [each["content"]["application/json"]["schema"] for each in answers]
    listed = [each["properties"]["reason"]["enum"] for each in schemas if "properties" in each]
    assert {reason for each in listed for reason in each} == reasons


def test_the_requests_of_the_page_are_answered_as_it_shows() -> None:
    request, answer = (each.partition("\n\n") for each in read_blocks("http"))
    (again,) = read_blocks("json")

    async def story(ask: Asking) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", ask.port)
        writer.write("\r\n".join([*request[0].splitlines(), "", request[2]]).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        (length,) = [each for each in head if each.startswith("Content-Length: ")]
        body = await reader.readexactly(int(length.split()[1]))
        writer.close()
        assert set(answer[0].splitlines()) <= set(head)
        assert msgspec.json.decode(body) == msgspec.json.decode(answer[2])
        status, _ = await ask({**msgspec.json.decode(again), "waitSeconds": 0}, "worker-1")
        assert status == HTTPStatus.OK

    asking.play(story, owner="worker-1", session="10s")
    described.check_request(request[2].encode())
    described.check_request(again.encode())


def test_other_requests_are_answered_as_the_introduction_of_the_document_says() -> None:
    async def story(ask: Asking) -> None:
        url = f"http://127.0.0.1:{ask.port}"
        async with ask.http.post(f"{url}/v2/groups") as answer:
            assert answer.status == HTTPStatus.NOT_FOUND
            described.check_refusal(answer.headers["Content-Type"], await answer.read())
        async with ask.http.post(url, headers={"Expect": "a miracle"}) as answer:
            assert answer.status == HTTPStatus.EXPECTATION_FAILED
            assert answer.content_type == "text/plain"
        async with ask.http.post(url, headers={"X": "x" * 10_000}) as answer:
            assert answer.status == HTTPStatus.BAD_REQUEST
            assert answer.content_type == "text/plain"

    asking.play(story)
