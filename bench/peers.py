"""Other tools at the same work, as a person would call them.

Each script is run by `sh -eu` with BASE (what to start from), OUT (where to push the result),
FILE (the whole new file), PATCH, TARGET (its path in the image, without the first slash),
CONTEXT (a directory with a Dockerfile that copies the file) and WORK (a directory of the
tool's own, empty where nothing is to be held locally).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["PEERS", "Peer", "script"]


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool. change: put the file on the base and push. patch: read the file out of the base,
    patch it, then the same. rebuild: change, with the base held; unchanged: build, no push;
    clean: forget all that is held outside WORK. Empty: it has no such thing.
    """

    name: str
    tools: Sequence[str]
    change: str
    patch: str
    rebuild: str = ""
    unchanged: str = ""
    clean: str = "true"
    daemon: bool = False

    @property
    def present(self) -> bool:
        """All its programs are on PATH."""
        return all(shutil.which(tool) is not None for tool in self.tools)


_DOCKER = "export DOCKER_BUILDKIT=0"
_DOCKER_BUILD = f"{_DOCKER}; docker build -q -t $OUT $CONTEXT"
_BUILDAH = "tool='buildah --root $WORK/root --runroot $WORK/run --storage-driver overlay'"
_BUILDAH_BUILD = "bud -q --layers --isolation chroot --tls-verify=false -t $OUT $CONTEXT"
_PODMAN = "tool='podman --root $WORK/root --runroot $WORK/run --storage-driver overlay'"
_PODMAN_BUILD = "build -q --isolation chroot --tls-verify=false -t $OUT $CONTEXT"
_UMOCI_PULL = "skopeo copy -q --src-tls-verify=false docker://$BASE oci:$WORK/image:base"
_UMOCI_PUSH = "skopeo copy -q --dest-tls-verify=false oci:$WORK/image:new docker://$OUT"
_UMOCI_INSERT = "umoci insert --image $WORK/image:base --tag new"


def _evaluated(tool: str, *commands: str) -> str:
    return "; ".join([tool.replace("'", '"'), *(f"$tool {command}" for command in commands)])


PEERS = (
    Peer(
        "docker",
        ("docker", "dockerd"),
        change=f"{_DOCKER_BUILD}; docker push -q $OUT",
        patch=(
            f"docker pull -q $BASE; id=$(docker create $BASE); "
            f"docker cp $id:/$TARGET $CONTEXT/file; patch -s $CONTEXT/file $PATCH; "
            f"{_DOCKER_BUILD}; docker push -q $OUT"
        ),
        clean="docker system prune -af",
        unchanged=_DOCKER_BUILD,
        daemon=True,
    ),
    Peer(
        "podman",
        ("podman",),
        change=_evaluated(_PODMAN, _PODMAN_BUILD, "push -q --tls-verify=false $OUT"),
        patch=_evaluated(
            _PODMAN,
            "pull -q --tls-verify=false $BASE",
            "image mount $BASE >$WORK/at; cp $(cat $WORK/at)/$TARGET $CONTEXT/file; "
            "patch -s $CONTEXT/file $PATCH",
            _PODMAN_BUILD,
            "push -q --tls-verify=false $OUT",
        ),
        unchanged=_evaluated(_PODMAN, _PODMAN_BUILD),
    ),
    Peer(
        "buildah",
        ("buildah",),
        change=_evaluated(_BUILDAH, _BUILDAH_BUILD, "push -q --tls-verify=false $OUT"),
        patch=_evaluated(
            _BUILDAH,
            "from -q --tls-verify=false --name made $BASE",
            "mount made >$WORK/at; patch -s $(cat $WORK/at)/$TARGET $PATCH",
            "commit -q made $OUT",
            "push -q --tls-verify=false $OUT",
        ),
        unchanged=_evaluated(_BUILDAH, _BUILDAH_BUILD),
    ),
    Peer(
        "umoci + skopeo",
        ("umoci", "skopeo"),
        change=f"{_UMOCI_PULL}; {_UMOCI_INSERT} $FILE /$TARGET; {_UMOCI_PUSH}",
        patch=(
            f"{_UMOCI_PULL}; "
            "for blob in $(skopeo inspect --raw oci:$WORK/image:base "
            "| grep -o 'sha256:[0-9a-f]*' | tac | cut -d: -f2); do "
            "if tar -xzOf $WORK/image/blobs/sha256/$blob $TARGET >$WORK/file 2>/dev/null; "
            "then break; fi; done; patch -s $WORK/file $PATCH; "
            f"{_UMOCI_INSERT} $WORK/file /$TARGET; {_UMOCI_PUSH}"
        ),
        rebuild=f"{_UMOCI_INSERT} $FILE /$TARGET; {_UMOCI_PUSH}",
    ),
    Peer(
        "crane",
        ("crane",),
        change=(
            "mkdir -p $WORK/$(dirname $TARGET); cp $FILE $WORK/$TARGET; "
            "tar -C $WORK -cf $WORK/layer.tar $TARGET; "
            "crane append --insecure -b $BASE -f $WORK/layer.tar -t $OUT"
        ),
        patch=(
            "mkdir -p $WORK/$(dirname $TARGET); "
            "crane export --insecure $BASE - | tar -xOf - $TARGET >$WORK/$TARGET; "
            "patch -s $WORK/$TARGET $PATCH; tar -C $WORK -cf $WORK/layer.tar $TARGET; "
            "crane append --insecure -b $BASE -f $WORK/layer.tar -t $OUT"
        ),
    ),
)


def script(text: str) -> list[str]:
    """Return the command that runs a script."""
    return ["sh", "-euc", text]
