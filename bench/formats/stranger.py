"""What a file looks like that is of no kind we read: one phrase for the sentence that says so.

In: a source's beginning. Out: "a PNG picture", "output of iperf3"; the words that a person needs
to see that it is the wrong file, or which other tool it came from.
"""

from __future__ import annotations

import re

# First bytes of formats that people hand in by mistake: file(1)'s magic. NUL bytes are gone.
MAGIC = (
    ("\x7fELF", "a program or library"),
    ("PK\x03\x04", "a ZIP archive or a PyTorch checkpoint; unpack it first"),
    ("\x89PNG", "a PNG picture; the text itself is needed"),
    ("GIF8", "a picture; the text itself is needed"),
    ("%PDF", "a PDF"),
    ("BZh", "packed by bzip2; unpack it first"),
    ("7z", "a 7z archive; unpack it first"),
    ("SQLite format 3", "an SQLite database (Nsight Systems makes such)"),
    ("-----BEGIN ", "a key or certificate"),
)
# The same for beginnings that are no UTF-8: as they come out of decoding with replacement.
MAGIC_DAMAGED = (
    ("\ufffd7zXZ", "packed by xz; unpack it first"),
    ("(\ufffd/\ufffd", "packed by zstd; unpack it first"),
    ("\ufffdPNG", "a PNG picture; the text itself is needed"),
    ("\ufffd\ufffd\ufffd", "a picture; the text itself is needed"),
    ("\ufffdHDF", "an HDF5 file"),
    ("\ufffdNUMPY", "a NumPy array"),
    ("\ufffd\x02", "a Python pickle, as Flight Recorder dumps are"),
    ("\ufffd\x03", "a Python pickle, as Flight Recorder dumps are"),
    ("\ufffd\x04", "a Python pickle, as Flight Recorder dumps are"),
    ("\ufffd\x05", "a Python pickle, as Flight Recorder dumps are"),
)
JSON_WORDS = (("pg_config", "a Flight Recorder dump"), ("traceEvents", "a profiler's trace"))
# Words that tell a text's origin, the most telling first.
WORDS = (
    ("compute_environment:", "an Accelerate config"),
    ("Traceback (most recent call last)", "a job's output with a Python traceback"),
    ("#bytes     #iterations", "output of perftest (ib_write_bw and the like)"),
    ("Connecting to host", "output of iperf3"),
    ("| NVIDIA-SMI", "the overview of nvidia-smi; `nvidia-smi topo -m` has the topology"),
    ("[ ID] Interval", "output of iperf3"),
    ("mtu ", "output of ip or ifconfig"),
    ("<!DOCTYPE html", "a web page; the text itself is needed"),
    ("<html", "a web page; the text itself is needed"),
    ("<?xml", "XML that is no topology of NCCL's"),
    ("#SBATCH", "a Slurm batch script without settings of NCCL"),
    ("#!", "a script without settings of NCCL"),
    ("import ", "a program's source"),
)
# "[rank8] Warning: …" begins with a bracket as well.
_JSON = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*(?:[\"{\[\]]|-?\d[\d.eE+-]*\s*[,\]]\s*[^<\s]))")
UNPRINTABLE_SHARE = 0.1  # a text in any script has fewer


def looks_like(head: str) -> str:
    """A noun phrase for what the file is, from its beginning (as Source.head gives it)."""
    if not head.strip():
        return "an empty file" if not head else "a file of blank lines"
    for start, phrase in (*MAGIC, *MAGIC_DAMAGED):
        if head.startswith(start):
            return phrase
    beginning = head[:4096]
    if "ustar" in beginning[:300] and "0000" in beginning[:300]:  # the header's modes and mark
        return "a tar archive; unpack it first"
    strange = sum(not (letter.isprintable() or letter in "\n\t\f") for letter in beginning)
    strange += beginning.count("\ufffd")
    if strange > UNPRINTABLE_SHARE * len(beginning):
        return "binary data"
    if _JSON.match(head):
        told = [phrase for word, phrase in JSON_WORDS if word in head]
        return told[0] if told else "JSON of another program"
    for word, phrase in WORDS:
        if word in head and (len(word) > 6 or f"\n{head}".find(f"\n{word}") >= 0):
            return phrase
    return "text without a line of NCCL, its tests or the tools around them"
