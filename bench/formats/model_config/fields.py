"""The fields of a config.json, checked: whole numbers within bounds, or one sentence.

In: the decoded file. Out: values. Kinds of models call the same thing by several names
(hidden_size, n_embd, d_model); the first that is there counts.
"""

from __future__ import annotations

from typing import Any

from bench.records import BadInput

LARGEST = 1 << 32  # of one dimension or count


class Fields:
    """A config.json, or a part of it. `file` is for complaints."""

    def __init__(self, values: dict[str, Any], file: str) -> None:
        self.values, self.file = values, file

    def number(self, *names: str, default: int | None = None) -> int:
        """A whole number above 0 under one of `names`; BadInput where there is none and no
        default."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST:
                raise BadInput(f"{name} is a whole number above 0, not {value!r}", file=self.file)
            return value
        if default is None:
            raise BadInput(f"lacks {names[0]}, without which no shape is known", file=self.file)
        return default

    def count(self, *names: str, default: int = 0) -> int:
        """Like `number`, where 0 is a value as well."""
        for name in names:
            if self.values.get(name) == 0 and self.values.get(name) is not False:
                return 0
        return self.number(*names, default=default) if default else self._maybe(*names)

    def _maybe(self, *names: str) -> int:
        present = [name for name in names if self.values.get(name) is not None]
        return self.number(*present) if present else 0

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise BadInput(f"{name} is true or false, not {value!r}", file=self.file)
        return value

    def text(self, name: str) -> str:
        value = self.values.get(name)
        return value if isinstance(value, str) else ""
