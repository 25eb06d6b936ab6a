"""An IOMMU that translates what GPUs and NICs send each other, seen without any ACS.

In: a Dossier (kernel lines, peer tests). Out: the finding p2p-blocked, and the kernel's lines as
evidence for other judges. Peer access that was measured to work clears it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.judge.foreign.places import place
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, KernelHints, PeerMatrix, Where


def translating(kernels: Sequence[KernelHints]) -> list[KernelHints]:
    return [kernel for kernel in kernels if kernel.iommu in ("translated", "on")]


def kernel_lines(kernels: Sequence[KernelHints]) -> Iterator[Evidence]:
    for kernel in kernels[:2]:
        told = next((line for line in kernel.lines if "omain type" in line), None)
        words = told or (kernel.lines[0] if kernel.lines else kernel.command_line or "")
        yield Evidence(basis="claimed", text=f"{place(kernel.file)}: {words}")


def finding(dossier: Dossier) -> Finding | None:
    on = translating(dossier.kernels)
    if not on:
        return None
    tried = [kernel for kernel in dossier.kernels if kernel.iommu in ("off", "passthrough")]
    reached = [peers for peers in dossier.peers if _peers_over_pci(peers)]
    shown = on[0]
    if dossier.peers and not reached:
        return None  # no peer access, or it was measured and works
    pairs = _pair_names(reached[0]) if reached else ()
    whom = f"between GPUs {listed(pairs)}" if pairs else "between GPUs, and between GPU and NIC"
    partial = bool(reached) and _is_partial(reached[0])
    only = " (peer access exists only inside these pairs)" if partial else ""
    mended = f"; {_named(tried[0])} is how it was switched off" if tried else ""
    return Finding(
        code="p2p-blocked",
        severity="degraded" if tried and reached else "warning",
        summary=f"The IOMMU is on ({_named(shown)}), so peer traffic {whom}{only} goes through "
        "it: transfers may break or hang although the driver lists peer access"
        f"{mended}.",
        where=Where(
            host=shown.host,
            link=tuple(f"GPU{gpu}" for gpu in pairs[0].split("-")) if len(pairs) == 1 else (),
            file=shown.file,
            line=shown.line,
        ),
        evidence=(
            *kernel_lines(on),
            *kernel_lines(tried),
            *(
                Evidence(
                    basis="claimed",
                    text=f"{place(peers.file)}: peer access {listed(_pair_names(peers))}; that "
                    "says nothing of whether transfers arrive",
                )
                for peers in reached[:1]
            ),
        ),
        remedy=_boot(shown),
        confidence="inferred",
    )


def _named(kernel: KernelHints) -> str:
    """ "cmdline_before.txt: intel_iommu=on"."""
    words = [w for w in (kernel.command_line or "").split() if "iommu" in w]
    told = " ".join(words) or next((ln for ln in kernel.lines if "omain type" in ln), "")
    return f"{place(kernel.file)}: {told}" if told else place(kernel.file)


def _boot(kernel: KernelHints) -> str:
    word = next((w for w in (kernel.command_line or "").split() if "_iommu=" in w), None)
    if word is None:
        return "sudo grubby --update-kernel=ALL --args=iommu=pt   # then reboot"
    off = f"{word.partition('=')[0]}=off"
    change = f"sudo sed -i 's/{word}/{off}/' /etc/default/grub"
    return f"{change} && sudo update-grub   # {off}, or iommu=pt in its place; then reboot"


def _peers_over_pci(peers: PeerMatrix) -> bool:
    """Peer access is listed, and no measurement shows that it works."""
    allowed = [pair for pair, word in peers.status.items() if word == "OK"]
    faster = [
        pair
        for pair in allowed
        if peers.bandwidth_gbs.get(pair, 0) > peers.staged_gbs.get(pair, float("inf"))
    ]
    return bool(allowed) and not faster and not peers.wrong


def _pair_names(peers: PeerMatrix) -> tuple[str, ...]:
    pairs = {tuple(sorted(map(int, p.split("-")))) for p, w in peers.status.items() if w == "OK"}
    return tuple(f"{a}-{b}" for a, b in sorted(pairs))


def _is_partial(peers: PeerMatrix) -> bool:
    return any(word != "OK" for word in peers.status.values())
