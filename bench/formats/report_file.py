"""A report.json back into its record.

In: a run's folder or the file itself. Out: the Report. BadInput when it is absent, cut short, not
ours, or of a schema that this version does not know.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.records import SCHEMA, BadInput, Report

# A four-host report is under 300 KB and a thousand hosts make some 60 MB; more is not a report.
MAX_BYTES = 512 << 20


class _Schema(msgspec.Struct):
    schema: int


def load(path: Path) -> Report:
    """The report at `path`, which may be the folder of a run. Raises BadInput."""
    file = path / "report.json" if path.is_dir() else path
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        if path.is_dir():
            raise BadInput(
                "holds no report.json; expected a run's folder", file=str(path)
            ) from None
        raise BadInput("no such file", file=str(path)) from None
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(file)) from None
    if len(raw) > MAX_BYTES:
        raise BadInput("is larger than 512 MiB; expected a report.json", file=str(file))
    try:
        schema = msgspec.json.decode(raw, type=_Schema).schema
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadInput("is not a report.json of this program", file=str(file)) from None
    if schema != SCHEMA:
        sentence = f"has schema {schema}; this version reads schema {SCHEMA}"
        raise BadInput(sentence, file=str(file))
    try:
        return msgspec.json.decode(raw, type=Report)
    except msgspec.ValidationError as error:
        reason = str(error).replace("`", "").replace("$.", "")
        raise BadInput(f"is not a whole report: {reason}", file=str(file)) from None
